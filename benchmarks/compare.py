"""Every method on the paper's eight deterministic-reward environments at equal numbers per state.

python benchmarks/compare.py         writes benchmarks/results/compare.csv, row by row
"""

import csv
import time
import warnings
from pathlib import Path

import jax

import bellsketch as bs
from bellsketch.experiments.compare import compare

RESULTS = Path(__file__).parent / "results" / "compare.csv"
ENVIRONMENTS = (
    "random_chain", "directed_chain", "tree", "loopy_tree", "cycle", "loopy_fork", "rowland23", "sutton_barto18",
)  # fmt: skip
NUMS = (10, 20, 50, 100)


def main() -> None:
    warnings.simplefilter("ignore", bs.BellsketchWarning)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", newline="") as file:
        file.write(f"# python benchmarks/compare.py, {time.strftime('%Y-%m-%d')}, jax {jax.__version__}, 2 CPU cores\n")
        writer = None
        for name in ENVIRONMENTS:
            mrp = bs.environments.make(name)
            truth = bs.ground_truth(mrp)
            span = bs.estimate_return_range(jax.random.key(0), mrp)
            for num in NUMS:
                for result in compare(jax.random.key(0), mrp, truth, num, span):
                    row = {"environment": name, "num": num, **result.record()}
                    if writer is None:
                        writer = csv.DictWriter(file, list(row))
                        writer.writeheader()
                    writer.writerow(row)
                    file.flush()


if __name__ == "__main__":
    main()
