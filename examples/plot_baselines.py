"""Against categorical and quantile dynamic programming.

Every method keeps m numbers per state of the random chain. What one sees on the left is the largest error of a state's
mean, on the right the largest Cramér distance of a distribution, against m; below, the distribution of one state for
the smallest m. Categorical projections keep the mean but for what lies beyond their atoms, quantiles lose it, and a
sketch keeps as much of it as its features resolve. Its distributions are the nearest in between; with very few features
categorical atoms, and with many of them quantiles, are as good.
"""

from collections.abc import Sequence

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

NUMBERS = (10, 15, 20, 30, 50)
RETURNS = bs.ReturnRange(0.0, 5.0)
STATE = 8
METHODS = {"sketch": "tab:blue", "categorical": "tab:orange", "quantile": "tab:green"}
ROUNDING = 1e-12


def solved(mrp: bs.MRP, method: str, m: int) -> tuple[np.ndarray, bs.AtomicDistribution]:
    """The mean and the distribution of every state."""
    if method == "sketch":
        solution = bs.solve(mrp, num_features=m, return_range=RETURNS)
        return solution.mean, solution.distributions
    if method == "categorical":
        found = bs.categorical_fixed_point(mrp, RETURNS.points(m))
    else:
        algorithm = bs.quantile_dp(mrp, m)
        found = algorithm.decode(bs.run(jax.random.key(0), algorithm, 150).state)
    return np.asarray(found.mean), found


def main(numbers: Sequence[int] = NUMBERS) -> Figure:
    mrp = bs.environments.make("random_chain")
    truth = bs.ground_truth(mrp).distribution
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    means, distances = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    x = np.linspace(-0.3, 4.0, 600)
    for i, (method, colour) in enumerate(METHODS.items()):
        results = [solved(mrp, method, m) for m in numbers]
        style = {"color": colour, "marker": "o", "label": method}
        means.plot(numbers, [max(np.abs(mean - mrp.value).max(), ROUNDING) for mean, _ in results], **style)
        distances.plot(numbers, [float(np.max(bs.cramer(found, truth))) for _, found in results], **style)
        axis = figure.add_subplot(grid[1, 2 * i : 2 * i + 2])
        axis.plot(x, truth[STATE].cdf(x), color="0.8", linewidth=5)
        axis.plot(x, results[0][1][STATE].cdf(x), color=colour, drawstyle="steps-post")
        axis.set(title=f"{method}, m = {numbers[0]}: state {STATE}", xlabel="return x", ylabel="P(G ≤ x)")
    means.set(yscale="log", xlabel="m, numbers per state", title="largest error of a mean")
    distances.set(yscale="log", xlabel="m, numbers per state", title="largest Cramér distance")
    means.legend(frameon=False, loc="center right")
    return figure


if __name__ == "__main__":
    main().savefig("baselines.png", dpi=120)
