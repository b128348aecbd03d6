"""
How much to order, and what budget is safe?
===========================================

A shop looks at its stock once a week. If 6 pieces or fewer are left it orders up to S, at 64 an order of any size. Each
piece in stock at the end of a week costs 1, each piece that customers wait for costs 9; demand is Poisson with a
mean of 10 a week. Small S means many orders, large S full shelves: which S, and, since no quarter is an average one,
what weekly budget will do in nineteen quarters out of twenty?

A state is the stock after a possible order, 34 of them if S is 40. A reward is the cost of a week; it goes with the
demand that also decides the next state, which the table of outcomes says as it is. Costs are discounted by 8% a week,
so that about a quarter counts, and shown per week. From full shelves, S = 40 costs 34 on average, and 37 are safe;
S = 20 costs 44, and takes 49 to be safe; S = 60 costs 39 and varies the least.

Source. The costs, the demand and the optimal rule, s = 6 and S = 40 with an average cost of 35.02 a week, are those of
Zheng & Federgruen, Finding optimal (s, S) policies is about as simple as evaluating a single policy, Operations
Research 39 (1991).
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.stats
from matplotlib.figure import Figure

import bellsketch as bs

ORDER, HOLDING, WAITING, DEMAND = 64.0, 1.0, 9.0, 10.0
REORDER, DISCOUNT, SAFE = 6, 0.92, 0.95


def shop(up_to: int) -> bs.MRP:
    """Costs as rewards. State x is a stock of 7 + x at the start of a week; an order is paid at the end of one."""
    demands = np.arange(40)
    chances = scipy.stats.poisson(DEMAND).pmf(demands)
    chances /= chances.sum()
    rows = []
    for stock in range(REORDER + 1, up_to + 1):
        for demand, p in zip(demands.tolist(), chances.tolist(), strict=True):
            left = stock - demand
            cost = HOLDING * max(left, 0) + WAITING * max(-left, 0) + ORDER * (left <= REORDER)
            following = up_to if left <= REORDER else left
            rows.append((stock - REORDER - 1, p, cost, following - REORDER - 1))
    return bs.MRP.from_outcomes(rows, DISCOUNT)


def main() -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    sizes = np.arange(12, 81, 4)
    means = [(1 - DISCOUNT) * shop(size).value[-1] for size in sizes]
    left.plot(sizes, means, color="0.6")
    left.set(xlabel="order up to", ylabel="mean cost per week", title="Which order is the cheapest?")
    costs = np.linspace(28, 56, 300)
    for size, colour in ((40, "tab:blue"), (20, "tab:red"), (60, "tab:green")):
        model = shop(size)
        reach = 5 * np.sqrt(model.return_variance).max()
        span = (float(model.value.min() - reach), float(model.value.max() + reach))
        cost = bs.solve(model, num_features=25, return_range=span).distribution(model.num_states - 1)
        safe = (1 - DISCOUNT) * cost.quantile(SAFE)
        left.plot(size, (1 - DISCOUNT) * cost.mean, "o", color=colour)
        right.plot(costs, 1 - cost.cdf(costs / (1 - DISCOUNT)), color=colour, label=f"order up to {size}")
        right.plot(safe, 1 - SAFE, "o", color=colour)
        right.annotate(f"{safe:.0f}", (safe, 1 - SAFE), (4, 4), textcoords="offset points", color=colour)
    right.axhline(1 - SAFE, color="0.8", zorder=0)
    right.set(xlabel="cost per week", ylabel="probability of a higher cost", title="What budget is safe, at 5%?")
    right.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main().savefig("inventory.png", dpi=120)
