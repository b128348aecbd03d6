"""
When should a bearing be replaced, and what will it cost?
=========================================================

A machine runs on a ball bearing. To replace it in time costs 1, to replace it after it has failed costs 5, since the
machine stands still. Bearings wear out: the longer one has run, the likelier it fails next. After how many revolutions
should it be replaced, and what budget is needed for the bearings to come?

A state is the age of the bearing in steps of 5 million revolutions, an action is to run on or to replace. Costs are
discounted by 2% a step. Sketch policy iteration finds the age that is best in the mean, and the distribution of cost of
that rule and of any other. Replacing after 45 million revolutions brings the mean cost from 15.0, if bearings run to
failure, down to 11.2, and the chance of a cost above 16 from 35% to 9%.

Source. Lives of 23 deep-groove ball bearings in millions of revolutions: Lieblein & Zelen, Statistical investigation of
the fatigue life of deep-groove ball bearings, Journal of Research of the National Bureau of Standards 57 (1956). A
Weibull distribution is fitted to them. The two costs are made up; only their ratio matters for the rule.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

import bellsketch as bs

LIVES = (17.88, 28.92, 33.00, 41.52, 42.12, 45.60, 48.40, 51.84, 51.96, 54.12, 55.56, 67.80, 68.64, 68.64, 68.88,
         84.12, 93.12, 98.64, 105.12, 105.84, 127.92, 128.04, 173.40)  # fmt: skip
STEP, AGES, DISCOUNT = 5.0, 40, 0.98
PLANNED, FAILED = 1.0, 5.0
RUN, REPLACE = 0, 1
BUDGET = 16.0


def machine() -> bs.MDP:
    """Costs as negative rewards. State x is a bearing that has run 5x million revolutions."""
    shape, _, scale = scipy.stats.weibull_min.fit(LIVES, floc=0)
    survival = scipy.stats.weibull_min(shape, scale=scale).sf(STEP * np.arange(AGES + 1))
    fails = 1 - survival[1:] / survival[:-1]
    run, replace = [], []
    for age, p in enumerate(fails):
        older = min(age + 1, AGES - 1)
        run += [(age, p, -FAILED, 0), (age, 1 - p, 0.0, older)]
        # A new bearing takes the old one's place and runs a step.
        replace += [(age, fails[0], -PLANNED - FAILED, 0), (age, 1 - fails[0], -PLANNED, 1)]
    return bs.MDP([bs.MRP.from_outcomes(rows, DISCOUNT, AGES) for rows in (run, replace)])


def main() -> Figure:
    mdp = machine()
    best = bs.policy_iteration(mdp, num_features=40)
    ages = np.arange(AGES)
    rule = int(np.argmax(best.policy == REPLACE))
    values = [mdp.mrp(np.where(ages >= age, REPLACE, RUN)).value[0] for age in range(1, AGES)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    left.plot(STEP * ages[1:], -np.array(values), color="0.6", label="every other rule, exactly")
    left.plot(STEP * rule, -best.values[0], "o", color="tab:blue", label="sketch policy iteration")
    left.set(xlabel="replaced after, million revolutions", ylabel="mean cost from now on", title="The best age")
    left.set_ylim(10, 20)
    left.legend(frameon=False, fontsize=8)
    costs = np.linspace(2, 28, 300)
    for name, policy, colour in (
        (f"replace after {STEP * rule:.0f} million", best.policy, "tab:blue"),
        ("run to failure", np.full(AGES, RUN), "tab:red"),
    ):
        cost = bs.solve(mdp.mrp(policy), num_features=40, return_range=(-32.0, 0.0)).distribution(0)
        exceeds = float(cost.cdf(-BUDGET))
        right.plot(costs, cost.cdf(-costs), color=colour, label=f"{name}: {exceeds:.0%}")
    right.axvline(BUDGET, color="0.8", zorder=0)
    right.set(xlabel="cost", ylabel="probability of a higher cost", title=f"Is a budget of {BUDGET:g} enough?")
    right.legend(frameon=False, fontsize=8, title="over the budget", title_fontsize=8, loc="upper right")
    return figure


if __name__ == "__main__":
    main().savefig("machine_maintenance.png", dpi=120)
