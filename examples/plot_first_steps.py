"""First steps.

A walk along five states, to the left or to the right with equal chances. Leaving it on the right pays 1, on the left
−1, and a step costs 0.1. What comes of it is a distribution for each state. Sketch-DP keeps 40 feature means of it,
finds them by one linear solve, and decodes them only in the end: here beside the truth.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs


def main() -> Figure:
    """The distribution of every state's return."""
    outcomes = []  # state, probability, reward, next state; None where it ends
    for x in range(5):
        outcomes.append((x, 0.5, -0.1, x - 1) if x > 0 else (x, 0.5, -1.0, None))
        outcomes.append((x, 0.5, -0.1, x + 1) if x < 4 else (x, 0.5, 1.0, None))
    mrp = bs.MRP.from_outcomes(outcomes, discount=0.95)

    solution = bs.solve(mrp, features="sigmoid", num_features=40)
    truth = bs.ground_truth(mrp)

    print("state   mean   true mean   P(G > 0)")
    for x, p in enumerate(solution.expectation(lambda g: (g > 0).astype(float))):
        print(f"{x:5} {solution.mean[x]:6.3f} {mrp.value[x]:11.3f} {p:10.2f}")

    low, high = solution.return_range.expand(0.05).low, solution.return_range.expand(0.05).high
    points = np.linspace(low, high, 400)
    figure, axes = plt.subplots(1, 5, figsize=(11, 2.4), sharey=True, layout="constrained")
    for x, ax in enumerate(axes):
        ax.step(points, truth.distribution[x].cdf(points), color="black", lw=3, alpha=0.3, where="post")
        ax.step(points, solution.distribution(x).cdf(points), color="C3", lw=1, where="post")
        ax.set(title=f"state {x}", xlabel="return")
    axes[0].set_ylabel("P(G ≤ g)")
    axes[-1].legend(["truth", "decoded sketch"], frameon=False, fontsize=8, loc="upper left")
    return figure


if __name__ == "__main__":
    main().savefig("first_steps.png", dpi=120)
