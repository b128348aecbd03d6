"""What experiments on deep agents share: from games and contenders to scores, intervals, curves and a table."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bellsketch.experiments.experiment import Cell, Record
from bellsketch.experiments.statistics import Estimate, Statistic, bootstrap, interquartile_mean, seed_mean

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
RANDOM_SCORES = {"Asterix": 0.52, "Breakout": 0.38, "Freeway": 0.44, "Seaquest": 0.09, "SpaceInvaders": 4.20}
"""Mean returns of uniformly random actions in Gymnax 1.0.1, measured: 2,000 episodes each (1,000 of Freeway), standard
errors below 0.03 (Space Invaders 0.08)."""
LEAST_GAIN = 1.0
"""A game in which the reference gains less than one reward over random play is normalised as if it had gained that
much: nothing was learnt there, and the noise in it must not decide."""
LAST = 0.1
"""The share of a run whose returns are its final score."""
BOOTSTRAP_SEED = 0
NEEDS = ("equinox", "gymnax", "optax")
"""What training needs beyond the base install."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """The games, who plays them, and for how long."""

    games: tuple[str, ...]
    contenders: tuple[str, ...]
    frames: int
    """Of each seed."""
    seeds: int = 5
    """Side by side on the device."""
    records: int = 50
    evaluation_episodes: int = 100
    """Of each seed's last network, almost greedy."""
    options: tuple[tuple[str, float], ...] = ()
    """What differs from the preset ``minatar``, by name."""
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Contender:
    """An agent with its options, and how it is shown."""

    label: str
    agent: str
    colour: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Contenders, and who of them is the unit of normalised scores."""

    column: str
    """What contenders are called in the records."""
    contenders: Mapping[str, Contender]
    reference: str

    def cells(self, settings: Settings) -> list[Cell]:
        """Each game with each contender; all seeds run side by side in one program."""
        return [{"game": game, self.column: name} for game in settings.games for name in settings.contenders]

    def measure(self, settings: Settings, cell: Cell) -> list[Record]:
        """Returns while training, and of the last networks."""
        # Here, since they need an optional extra and ``reproduce --list`` does not.
        from bellsketch.deep.run import make_config, run_training
        from bellsketch.deep.setup import set_up

        contender = self.contenders[cell[self.column]]
        config = make_config(
            contender.agent,
            f"{cell['game']}-MinAtar",
            frames=settings.frames,
            seeds=settings.seeds,
            seed=settings.seed,
            records=settings.records,
            evaluations=1,
            evaluation_episodes=settings.evaluation_episodes,
            **{**dict(settings.options), **contender.options},
        )
        run = run_training(set_up(config), progress=False)
        return [
            {
                **cell,
                "seed": int(row.seed),
                "kind": kind,
                "frames": int(row.frames),
                "episodes": int(row.episodes),
                "mean_return": float(row.mean_return),
            }
            for kind, table in (("training", run.records), ("evaluation", run.evaluations))
            for row in table.itertuples(index=False)
        ]

    # -----------------------------------------------------------------------------------------------------------------
    # Scores
    # -----------------------------------------------------------------------------------------------------------------

    def present(self, records: pd.DataFrame) -> list[str]:
        """Contenders of which there are records, in our order."""
        there = set(records[self.column])
        return [name for name in self.contenders if name in there]

    def scores(self, records: pd.DataFrame, kind: str = "training") -> dict[str, np.ndarray]:
        """The final score of each contender [s, k]: mean return of episodes at the end of training, or after it."""
        rows = records[(records["kind"] == kind) & (records["frames"] > (1 - LAST) * records["frames"].max())]
        rows = rows.dropna(subset=["mean_return"])
        totals = rows.assign(total=rows["mean_return"] * rows["episodes"])
        sums = totals.groupby([self.column, "game", "seed"])[["total", "episodes"]].sum()
        final = (sums["total"] / sums["episodes"]).unstack("game")
        seeds = sorted(set(records["seed"]))
        # Where no episode has ended in time the score is missing; none is made up.
        return {name: final.loc[name].reindex(seeds, columns=games(records)).to_numpy() for name in self.present(rows)}

    def normalised(self, records: pd.DataFrame, kind: str = "training") -> dict[str, np.ndarray]:
        """Scores in units in which random play has 0 and the reference has 1 in the mean over its seeds."""
        scores = self.scores(records, kind)
        random = np.array([RANDOM_SCORES[game] for game in games(records)])
        gain = np.maximum(seed_mean(scores[self.reference]) - random, LEAST_GAIN)
        return {name: (table - random) / gain for name, table in scores.items()}

    def aggregates(self, records: pd.DataFrame, kind: str = "training") -> dict[str, Estimate]:
        """The interquartile mean of each contender's normalised scores."""
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        return {
            name: bootstrap(rng, interquartile_mean, table) for name, table in self.normalised(records, kind).items()
        }

    def contrast(
        self,
        records: pd.DataFrame,
        statistic: Statistic,
        *names: str,
        kind: str = "training",
        aggregate: Statistic = interquartile_mean,
    ) -> Estimate:
        """A statistic of the interquartile means of some contenders, or of another aggregate, such as a difference."""
        tables = self.normalised(records, kind)
        return bootstrap(
            np.random.default_rng(BOOTSTRAP_SEED),
            lambda *drawn: statistic(*map(aggregate, drawn)),
            *(tables[name] for name in names),
        )

    def table(self, records: pd.DataFrame) -> pd.DataFrame:
        """Final scores with their intervals, of each game and of all of them."""
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        evaluations = self.scores(records, "evaluation")
        rows: list[tuple[Any, ...]] = []
        for name, scores in self.scores(records).items():
            estimate, evaluated = bootstrap(rng, seed_mean, scores), seed_mean(evaluations[name])
            for i, game in enumerate(games(records)):
                rows.append((game, name, estimate.value[i], estimate.low[i], estimate.high[i], evaluated[i]))
        evaluated = self.aggregates(records, "evaluation")
        for name, total in self.aggregates(records).items():
            numbers = (total.value, total.low, total.high, evaluated[name].value)
            rows.append(("all, normalised", name, *map(float, numbers)))
        columns = ["game", self.column, "score", "low", "high", "evaluated"]
        made = pd.DataFrame(rows, columns=columns)
        return made.sort_values("game", kind="stable", key=lambda column: column.map([*GAMES, "all, normalised"].index))

    # -----------------------------------------------------------------------------------------------------------------
    # Pictures
    # -----------------------------------------------------------------------------------------------------------------

    def plot_curves(self, axis: Axes, records: pd.DataFrame, game: str) -> None:
        """Returns while training: the mean over seeds, and its interval."""
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        rows = records[(records["kind"] == "training") & (records["game"] == game)]
        for name in self.present(rows):
            curves = rows[rows[self.column] == name].pivot(index="seed", columns="frames", values="mean_return")
            curves = curves.dropna(axis="columns")
            if curves.empty:
                continue
            band, colour = bootstrap(rng, seed_mean, curves.to_numpy()), self.contenders[name].colour
            axis.plot(curves.columns, band.value, color=colour, lw=1.4, label=self.contenders[name].label)
            axis.fill_between(curves.columns, band.low, band.high, color=colour, alpha=0.2, lw=0)
        axis.axhline(RANDOM_SCORES[game], color="0.5", lw=0.8, linestyle=":")
        axis.set(title=game, xlabel="frames")

    def plot_scores(self, axis: Axes, records: pd.DataFrame, game: str) -> None:
        """Final scores of each contender in a game."""
        index = games(records).index(game)
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        tables = self.scores(records)
        estimates = {name: bootstrap(rng, seed_mean, table[:, [index]]) for name, table in tables.items()}
        self._plot_intervals(axis, {name: _only(estimate) for name, estimate in estimates.items()})
        for place, table in enumerate(tables.values()):
            axis.plot(table[:, index], np.full(len(table), place), ".", color="0.6", markersize=3, zorder=1)
        axis.axvline(RANDOM_SCORES[game], color="0.5", lw=0.8, linestyle=":")
        axis.set(title=game, xlabel="final score")

    def plot_aggregates(self, axis: Axes, records: pd.DataFrame) -> None:
        """Interquartile means over all games."""
        self._plot_intervals(axis, self.aggregates(records))
        axis.axvline(1.0, color="0.5", lw=0.8, linestyle="--")
        label = self.contenders[self.reference].label
        axis.set(title="All games, interquartile mean", xlabel=f"score (0: random play, 1: {label})")

    def _plot_intervals(self, axis: Axes, estimates: Mapping[str, Estimate]) -> None:
        for place, (name, estimate) in enumerate(estimates.items()):
            colour = self.contenders[name].colour
            axis.plot(
                [estimate.low, estimate.high], [place, place], color=colour, lw=6, alpha=0.35, solid_capstyle="butt"
            )
            axis.plot(estimate.value, place, "|", color=colour, markersize=14, markeredgewidth=2.5)
        labels = [self.contenders[name].label for name in estimates]
        axis.set_yticks(range(len(labels)), labels)
        axis.set_ylim(len(labels) - 0.5, -0.5)


def games(records: pd.DataFrame) -> list[str]:
    """Those of which there are records, in our order."""
    there = set(records["game"])
    return [game for game in GAMES if game in there]


def panels(num: int, columns: int = 3, *, width: float = 4.2, height: float = 3.3) -> tuple[Figure, Sequence[Axes]]:
    """So many panels, and nothing where a row is not full."""
    columns = min(columns, num)
    rows = -(-num // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows + 0.5), squeeze=False, layout="constrained"
    )
    for axis in axes.flat[num:]:
        axis.axis("off")
    return figure, list(axes.flat[:num])


def _only(estimate: Estimate) -> Estimate:
    """The one number of an array."""
    return Estimate(*(float(np.squeeze(part)) for part in (estimate.value, estimate.low, estimate.high)))
