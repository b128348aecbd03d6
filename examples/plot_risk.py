"""Reading out risk.

One sketch answers every question about a return: smooth ones by a linear readout, E[f(G)] ≈ ⟨β, U⟩ + b, others from
the distributions it is decoded to. What one sees, for each state of the loopy tree with Gaussian rewards, are answers
of the sketch (in colour) on top of the true ones (grey): the mean with the middle 90% of returns, the mean of the worst
5% (CVaR), probabilities of small returns, and what the return is worth to somebody averse to risk, which is much less
than its mean where it is uncertain.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

AVERSION = 0.1


def main() -> Figure:
    mrp = bs.environments.make("loopy_tree_gaussian")
    truth = bs.ground_truth(mrp).distribution
    solution = bs.solve(mrp, features="sigmoid", num_features=40, return_range=(-15.0, 30.0))
    states = np.arange(mrp.num_states)

    figure, (spread, loss, worth) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    levels = np.array([0.05, 0.95])
    low, high = solution.distributions.quantile(levels).T
    spread.fill_between(states, low, high, color="tab:blue", alpha=0.2, label="5% to 95%")
    spread.plot(states, truth.quantile(levels), color="0.75", linewidth=4)
    spread.plot(states, truth.mean, color="0.75", linewidth=4)
    spread.plot(states, solution.mean, color="tab:blue", marker="o", label="mean")
    spread.plot(states, truth.cvar(0.05), color="0.75", linewidth=4)
    spread.plot(states, solution.distributions.cvar(0.05), color="tab:red", marker="o", label="CVaR 5%")
    spread.set(title="the spread of returns", ylabel="return")
    spread.legend(frameon=False, fontsize=8)

    for threshold, colour in ((5.0, "tab:blue"), (0.0, "tab:orange"), (-9.0, "tab:red")):
        loss.plot(states, truth.expectation(lambda g, c=threshold: g < c), color="0.75", linewidth=4)
        probability = solution.expectation(lambda g, c=threshold: (g < c).astype(float), via="decode")
        loss.plot(states, probability, color=colour, marker="o", label=f"P(G < {threshold:g})")
    loss.set(title="the probability of less than …")
    loss.legend(frameon=False)

    def utility(g: np.ndarray) -> np.ndarray:
        return np.exp(-AVERSION * g)

    worth.plot(states, -np.log(truth.expectation(utility)) / AVERSION, color="0.75", linewidth=4)
    equivalent = -np.log(solution.expectation(utility)) / AVERSION
    worth.plot(states, equivalent, color="tab:green", marker="o", label="certainty equivalent")
    worth.plot(states, solution.mean, color="tab:blue", linestyle=":", label="mean")
    worth.set(title=f"−log E[exp(−{AVERSION} G)] / {AVERSION}", ylabel="return")
    worth.legend(frameon=False)
    for axis in (spread, loss, worth):
        axis.set(xlabel="state", xticks=states)
    return figure


if __name__ == "__main__":
    main().savefig("risk.png", dpi=120)
