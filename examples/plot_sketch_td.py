"""Sketch-TD, online.

Nothing is known of the model but the transitions of one trajectory, one at a time: U(x) ← U(x) + α (A_r U(x') + c_r −
U(x)). What one sees is the embedding error against the number of transitions, for three constant step sizes and one
that decays (lines: medians of five trajectories, bands: all five), and below the distribution of a state as it is
learnt by the decaying one. A large step learns fast and stays noisy; one that decays goes on learning.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

SEEDS = 5
STEP_SIZES = {"α = 0.3": 0.3, "α = 0.03": 0.03, "α = 0.003": 0.003, "α = n^(−0.7)": bs.schedules.Decay(1.0, 0.7)}


def main(steps: int = 20_000) -> Figure:
    mrp = bs.environments.make("rowland23")
    truth = bs.ground_truth(mrp)
    returns = bs.ReturnRange(-3.5, 19.5)
    features = bs.Sigmoid.from_range(returns, 20)
    coefficients = bs.fit_coefficients(features, returns.grid(), mrp.rewards, (mrp.discount, 0.0))
    decoder = bs.fine_decoder(coefficients, returns)
    true_sketch = truth.embedding(features)
    keys = jax.random.split(jax.random.key(0), SEEDS)

    figure = plt.figure(figsize=(11, 6), layout="constrained")
    errors, *panels = (figure.add_subplot(spec) for spec in _places(figure))
    for i, (name, step_size) in enumerate(STEP_SIZES.items()):
        td = bs.sketch_td(mrp, coefficients, decoder, step_size, mode="trajectory")
        run = bs.run(keys, td, steps, record_every=steps // 40)
        sketches = run.history.values  # [time, seed, state, feature]
        error = np.sqrt(bs.squared_embedding_error(sketches, true_sketch)).max(axis=-1)
        errors.plot(run.steps, np.median(error, axis=1), color=f"C{i}", label=name)
        errors.fill_between(run.steps, error.min(axis=1), error.max(axis=1), color=f"C{i}", alpha=0.15, linewidth=0)
    errors.set(xscale="log", yscale="log", xlabel="transitions", title="largest embedding error ‖U − U^π‖ of a state")
    errors.legend(frameon=False, ncols=4)
    x = np.linspace(-4, 20, 400)
    for axis, index in zip(panels, (0, 3, 39), strict=True):
        axis.plot(x, truth.distribution[0].cdf(x), color="0.8", linewidth=5, label="truth")
        for seed in range(SEEDS):
            axis.plot(x, decoder(sketches[index, seed, 0]).cdf(x), color="C3", linewidth=0.8)
        axis.set(title=f"state 0 after {run.steps[index]:,} transitions", xlabel="return x")
    panels[0].set_ylabel("P(G ≤ x)")
    panels[0].legend(frameon=False)
    return figure


def _places(figure: Figure) -> list:
    grid = figure.add_gridspec(2, 3)
    return [grid[0, :], grid[1, 0], grid[1, 1], grid[1, 2]]


if __name__ == "__main__":
    main().savefig("sketch_td.png", dpi=120)
