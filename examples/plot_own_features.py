"""Features of your own.

A translation family needs two things: its base feature κ and the width w on which κ does most of its varying. Here κ is
an arctangent, which levels off slowly. What one sees: its features over the range of returns, and how well return
distributions of the random chain are decoded from them (blue), next to sigmoids (orange) and the truth (grey). The
title says what each family's certificate is: it is worked out for any features, without a word from you.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs
from bellsketch.core.pytree import pytree

NUM_FEATURES = 30
STATES = (2, 5, 8)


@pytree
class Arctangent(bs.TranslationFamily):
    """κ(x) = 1/2 + arctan(x)/π."""

    width = 4.0

    @staticmethod
    def base(x: jax.Array) -> jax.Array:
        return 0.5 + jnp.arctan(x) / jnp.pi


def main() -> Figure:
    mrp = bs.environments.make("random_chain")
    truth = bs.ground_truth(mrp)
    returns = bs.ReturnRange(0.0, 5.0)
    own = bs.solve(mrp, features=Arctangent.from_range(returns, NUM_FEATURES), return_range=returns)
    sigmoids = bs.solve(mrp, features="sigmoid", num_features=NUM_FEATURES, return_range=returns)

    figure, axes = plt.subplots(1, 1 + len(STATES), figsize=(13, 3.2), layout="constrained")
    z = np.linspace(-2.0, 7.0, 400)
    axes[0].plot(z, own.features(z), color="tab:blue", linewidth=0.8)
    axes[0].set(title="arctangent features", xlabel="return z")
    x = np.linspace(-0.3, 4.0, 500)
    for axis, state in zip(axes[1:], STATES, strict=True):
        axis.plot(x, truth.distribution[state].cdf(x), color="0.8", linewidth=5, label="truth")
        for solution, colour, name in ((own, "tab:blue", "arctangent"), (sigmoids, "tab:orange", "sigmoid")):
            decoded = solution.distribution(state)
            distance = float(bs.cramer(decoded, truth.distribution[state]))
            axis.plot(x, decoded.cdf(x), color=colour, linewidth=1.3, label=f"{name}: Cramér {distance:.1e}")
        axis.set(title=f"state {state}: P(G ≤ x)", xlabel="return x")
        axis.legend(frameon=False, fontsize=8, loc="lower right")
    bounds = (f"{name} {s.certificate.bound:.1e}" for name, s in (("arctangent", own), ("sigmoid", sigmoids)))
    figure.suptitle(f"{NUM_FEATURES} features; certified embedding errors: {', '.join(bounds)}", fontsize=11)
    return figure


if __name__ == "__main__":
    main().savefig("own_features.png", dpi=120)
