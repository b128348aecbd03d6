"""Certified errors.

A solution bounds its own error without knowing the truth. What one sees: the bound (solid) and the true embedding error
(dashed) against the number of features, for three families on the random chain; and the certified interval of every
state's mean, with the true means as crosses inside, for 15 sigmoids and for 20. A bound is worth having where it is
small beside what is measured: five features more make intervals a tenth as long.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

NUMBERS = (10, 15, 20, 30)
FAMILIES = {"sigmoid": "tab:blue", "gaussian": "tab:orange", "erf": "tab:green"}
RETURNS = (0.0, 5.0)


def main(numbers: Sequence[int] = NUMBERS) -> Figure:
    mrp = bs.environments.make("random_chain")
    truth = bs.ground_truth(mrp)
    figure, (bounds, means) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for family, colour in FAMILIES.items():
        solutions = [bs.solve(mrp, features=family, num_features=m, return_range=RETURNS) for m in numbers]
        errors = [np.sqrt(bs.squared_embedding_error(s.sketch, truth.embedding(s.features))).max() for s in solutions]
        bounds.plot(numbers, [s.certificate.bound for s in solutions], "o-", color=colour, label=f"{family}: bound")
        bounds.plot(numbers, errors, "o--", color=colour, alpha=0.6, label="true error")
        if family == "sigmoid":
            few, more = solutions[1:3]
    bounds.set(
        yscale="log",
        xticks=numbers,
        xlabel="m, the number of features",
        title="embedding error ‖U − U^π‖, largest of all states",
    )
    bounds.legend(frameon=False, ncols=3, fontsize=8)

    states = np.arange(mrp.num_states)
    for solution, shift, colour in ((few, -0.15, "tab:red"), (more, 0.15, "tab:blue")):
        certified = solution.certified_mean
        label = f"{solution.features.num_features} sigmoids: ± {certified.bound.max():.1e}"
        means.errorbar(
            states + shift, certified.value, certified.bound, fmt="none", color=colour, capsize=4, label=label
        )
        means.plot(states + shift, mrp.value, "x", color="black", markersize=5)
    means.set(xticks=states, xlabel="state", title="certified means, and the true ones (×)")
    means.legend(frameon=False, loc="upper left")
    return figure


if __name__ == "__main__":
    main().savefig("certificates.png", dpi=120)
