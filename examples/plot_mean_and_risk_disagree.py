"""
The best on average is not the best chance
==========================================

Ninety are needed within eight days. Each day there is steady work, which pays 10, and commission, which pays 30 with a
chance of 0.3 and 2 otherwise: 10.4 on average. Money is discounted by 1% a day. What should be done?

On average commission is better, every day: that is what the mean says, and it reaches 90 with a chance of 45%. To ask
each day for the best chance that *what is still to come* exceeds 90 is worse: 30%, because a state does not know what
has been earned before. The best fixed plan, of all 256, has 47%. Only who looks at the money earned so far does what is
right: takes risks when behind, plays safe when ahead, and has 61%.

That is stock augmentation: the money so far and the day become part of the state, and what is best is found from the
end backwards. See docs/methods/control.md. The numbers are made up.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import bellsketch as bs

DAYS, TARGET, DISCOUNT = 8, 90.0, 0.99
STEADY, COMMISSION = 0, 1


def job() -> bs.MDP:
    """A state for each day."""
    following = [*range(1, DAYS), None]
    steady = [(day, 1.0, 10.0, y) for day, y in enumerate(following)]
    commission = [row for day, y in enumerate(following) for row in ((day, 0.3, 30.0, y), (day, 0.7, 2.0, y))]
    return bs.MDP([bs.MRP.from_outcomes(rows, DISCOUNT) for rows in (steady, commission)])


def main() -> Figure:
    mdp = job()

    def chance(plan) -> float:
        """P(G > 90) of a plan that does not look at the money, exactly."""
        return 1 - float(bs.ground_truth(mdp.mrp(np.array(plan))).distribution[0].cdf(TARGET))

    best = bs.best_with_stock(mdp, f"exceeds:{TARGET}", 0)
    chances = {
        "greedy\nin the mean": chance(bs.policy_iteration(mdp).policy),
        "greedy in the chance\nof what is to come": chance(bs.policy_iteration(mdp, f"exceeds:{TARGET}").policy),
        "the best\nfixed plan": max(map(chance, itertools.product((STEADY, COMMISSION), repeat=DAYS))),
        "looks at the money\nearned so far": best.value,
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained", width_ratios=(1, 1.1))
    names = list(chances)[::-1]
    bars = left.barh(names, [chances[name] for name in names], color=["tab:blue", "0.6", "0.6", "0.6"])
    left.bar_label(bars, fmt="{:.0%}", padding=3)
    left.set(xlabel="chance of more than 90", xlim=(0, 0.75))
    gain = best.action_values[:, COMMISSION] - best.action_values[:, STEADY]
    for chosen, colour, label in (
        (gain > 1e-9, "tab:orange", "commission"),
        (gain < -1e-9, "tab:green", "steady work"),
        (np.abs(gain) <= 1e-9, "0.85", "no matter"),
    ):
        right.plot(best.model.time[chosen] + 1, best.model.stock[chosen], "_", color=colour, label=label)
    right.set(xlabel="day", ylabel="earned so far", title="What the best policy does", ylim=(-5, 125))
    right.legend(frameon=False, markerscale=2, loc="upper left")
    return figure


if __name__ == "__main__":
    main().savefig("mean_and_risk_disagree.png", dpi=120)
