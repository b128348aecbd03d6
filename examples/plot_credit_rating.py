"""
How much may a ten-year bond lose?
==================================

A bond of 100 is held for ten years. Its issuer's rating moves from year to year; at default the bond is worth what can
be recovered, and that loss is all that goes wrong. It is discounted at 5% a year from the start of the year in which it
happens: not at all in the first year, by nine years in the tenth. The mean loss is what a lender must earn on top of
interest, and it says little about one bond: most lose nothing, and some lose half. What does the holder of a BBB bond
have to fear, what that of a B bond?

The mean loss of the BBB bond is 2.5, but one in twenty such bonds loses 45 on average, and one in fifty more than 50.
A B bond loses something with 41%.

A state is a rating and a year, 70 of them. One linear solve gives the sketch of all of their losses.

Sources. Yearly rating transitions: Standard & Poor's CreditWeek of 15 April 1996, as in the CreditMetrics technical
document (J.P. Morgan, 1997); rows are divided by their sums, which are 99.99 to 100.01. Recovery of senior unsecured
bonds: mean 51.13%, standard deviation 25.45% (Carty & Lieberman, Moody's, 1996, in the same document), here a beta
distribution.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

import bellsketch as bs

RATINGS = ("AAA", "AA", "A", "BBB", "BB", "B", "CCC")
YEARLY = np.array(  # from row to column, the last being default; in percent
    [
        [90.81, 8.33, 0.68, 0.06, 0.12, 0.00, 0.00, 0.00],
        [0.70, 90.65, 7.79, 0.64, 0.06, 0.14, 0.02, 0.00],
        [0.09, 2.27, 91.05, 5.52, 0.74, 0.26, 0.01, 0.06],
        [0.02, 0.33, 5.95, 86.93, 5.30, 1.17, 0.12, 0.18],
        [0.03, 0.14, 0.67, 7.73, 80.53, 8.84, 1.00, 1.06],
        [0.00, 0.11, 0.24, 0.43, 6.48, 83.46, 4.07, 5.20],
        [0.22, 0.00, 0.22, 1.30, 2.38, 11.24, 64.86, 19.79],
    ]
)
RECOVERY_MEAN, RECOVERY_SD = 0.5113, 0.2545
DISCOUNT, YEARS, FACE = 1 / 1.05, 10, 100.0


def loss_at_default():
    """What is not recovered: a beta distribution with the published mean and standard deviation."""
    mean = 1 - RECOVERY_MEAN
    concentration = mean * (1 - mean) / RECOVERY_SD**2 - 1
    return scipy.stats.beta(mean * concentration, (1 - mean) * concentration, scale=FACE)


def bond() -> bs.MRP:
    """Losses as rewards, at the start of their year. State (year, rating) is number 7 year + rating."""
    chances = YEARLY / YEARLY.sum(axis=1, keepdims=True)
    loss, rows = loss_at_default(), []
    for year in range(YEARS):
        for x, row in enumerate(chances):
            state = len(RATINGS) * year + x
            rows.append((state, row[-1], loss, None))
            if year == YEARS - 1:
                rows.append((state, 1 - row[-1], 0.0, None))
            else:
                rows += [(state, p, 0.0, len(RATINGS) * (year + 1) + y) for y, p in enumerate(row[:-1])]
    return bs.MRP.from_outcomes([row for row in rows if row[1] > 0], DISCOUNT)


def main() -> Figure:
    model = bond()
    solution = bs.solve(model, num_features=40, return_range=(0.0, FACE))
    losses = solution.decoder(solution.sketch[: len(RATINGS)])
    simulated = bs.sample_returns(jax.random.key(0), model, 20_000, horizon=YEARS)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    places = np.arange(len(RATINGS))
    for k, (loss, colour) in enumerate(zip((5, 25, 50, 75), ("0.75", "gold", "tab:orange", "tab:red"), strict=True)):
        at = places[3:] + 0.2 * (k - 1.5)
        left.bar(at, 1 - losses[3:].cdf(loss), 0.18, color=colour, label=f"more than {loss}")
        left.plot(at, (simulated[3 : len(RATINGS)] > loss).mean(axis=1), "k_", label="simulated" if k == 3 else None)
    left.set_xticks(places[3:], RATINGS[3:])
    left.set(xlabel="rating today", ylabel="probability", title="The chance to lose much in ten years")
    left.legend(frameon=False, fontsize=8)
    worst = bs.AtomicDistribution(-losses.locations, losses.probabilities).cvar(0.05)
    right.bar(places - 0.2, solution.mean[: len(RATINGS)], 0.4, color="0.75", label="mean loss")
    right.bar(places + 0.2, -worst, 0.4, color="tab:red", label="mean of the worst 5%")
    right.set_xticks(places, RATINGS)
    right.set(xlabel="rating today", ylabel="loss", title="What the mean does not say")
    right.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    main().savefig("credit_rating.png", dpi=120)
