"""One backup, without a distribution in sight.

A return G has a distribution; its sketch keeps the means of 12 sigmoids of it. What is the sketch of r + γG? Pushing
the distribution forward and sketching it again gives the answer, and so does one affine map of the first sketch,
fitted beforehand for all distributions at once: A U + c. The result decodes to
the distribution that was never looked at.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

REWARD, DISCOUNT = 1.0, 0.7


def main() -> Figure:
    """Features, sketches before and after a backup, and what the second decodes to."""
    rng = np.random.default_rng(0)
    returns = np.concatenate([rng.normal(-2.0, 0.5, 600), rng.normal(1.5, 0.8, 400)])
    before = bs.AtomicDistribution(returns, np.full(returns.size, 1 / returns.size))
    after = before.push_forward(lambda g: REWARD + DISCOUNT * g)

    span = bs.ReturnRange(-5.0, 5.0)
    features = bs.make_features("sigmoid", span, 12)
    coefficients = bs.fit_coefficients(features, span.grid(), [REWARD], (DISCOUNT,))
    sketch = before.probabilities @ features(before.locations)
    backed_up = coefficients.matrices[0, 0] @ sketch + coefficients.offsets[0, 0]
    exact = after.probabilities @ features(after.locations)
    print(f"largest difference of the two ways: {np.abs(backed_up - exact).max():.1e}")
    decoded = bs.fine_decoder(coefficients, span)(backed_up)

    points = np.linspace(-5, 5, 500)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    axes[0].plot(points, features(points), color="C0", lw=0.8)
    axes[0].hist(returns, bins=60, weights=np.full(returns.size, 20 / returns.size), color="0.75")
    axes[0].set(title="a distribution of returns, and features φ", xlabel="return", yticks=[0, 1])
    index = np.arange(features.num_features)
    axes[1].plot(index, sketch, "o", color="0.6", label="U = E[φ(G)]")
    axes[1].plot(index, exact, "o", color="black", ms=9, mfc="none", label="E[φ(r + γG)]")
    axes[1].plot(index, backed_up, "x", color="C3", label="A U + c")
    axes[1].set(title="its sketch, and that of r + γG", xlabel="feature")
    axes[1].legend(frameon=False, fontsize=8)
    axes[2].plot(points, after.cdf(points), color="black", lw=4, alpha=0.3, label="truth")
    axes[2].plot(points, decoded.cdf(points), color="C3", lw=1.2, label="decoded from A U + c")
    axes[2].set(title="P(r + γG ≤ g)", xlabel="return")
    axes[2].legend(frameon=False, fontsize=8, loc="upper left")
    return figure


if __name__ == "__main__":
    main().savefig("one_backup.png", dpi=110)
