"""How many features, and how steep.

Sketches of the loopy fork for m features and multiples of the default slope. What one sees, darker being better: the
largest regression error, which is known without the truth; the largest Cramér distance of a decoded distribution from
the truth; and the certified bound on the embedding error. Steep features leave gaps that no regression bridges unless
there are many. Flat ones are fitted well with few, but are all alike to a regression with a ridge: from there on more
of them change little. At the default of 1, each feature more helps.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import bellsketch as bs

NUMBERS = (8, 13, 20, 30)
SLOPES = (0.25, 0.5, 1.0, 2.0, 4.0)


def main(numbers: Sequence[int] = NUMBERS, slopes: Sequence[float] = SLOPES) -> Figure:
    mrp = bs.environments.make("loopy_fork")
    truth = bs.ground_truth(mrp)
    returns = bs.ReturnRange(-3.7, 3.7)
    names = ("largest regression error", "largest Cramér distance", "certified embedding error")
    results = np.zeros((len(names), len(slopes), len(numbers)))
    for i, slope in enumerate(slopes):
        for j, m in enumerate(numbers):
            solution = bs.solve(mrp, features="sigmoid", num_features=m, slope_factor=slope, return_range=returns)
            distance = float(np.max(bs.cramer(solution.distributions, truth.distribution)))
            results[:, i, j] = solution.coefficients.max_error, distance, solution.certificate.bound

    figure, axes = plt.subplots(1, len(names), figsize=(12, 3.6), sharey=True, layout="constrained")
    for axis, name, table in zip(axes, names, results, strict=True):
        image = axis.imshow(table, norm=LogNorm(), cmap="viridis", aspect="auto", origin="lower")
        middle = np.sqrt(table.min() * table.max())
        for (i, j), value in np.ndenumerate(table):
            colour = "white" if value < middle else "black"
            axis.text(j, i, f"{value:.0e}", ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(len(numbers)), [str(m) for m in numbers])
        axis.set_yticks(range(len(slopes)), [f"{slope:g}" for slope in slopes])
        axis.set(title=name, xlabel="m, the number of features")
        figure.colorbar(image, ax=axis)
    axes[0].set_ylabel("slope, as a factor of the default")
    return figure


if __name__ == "__main__":
    main().savefig("choosing_features.png", dpi=120)
