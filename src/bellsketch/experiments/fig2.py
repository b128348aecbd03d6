"""Figure 2 and its sigmoid twin, as experiments: the walk-through with the paper's regression, and ours beside it."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from bellsketch.core.distributions import dirac
from bellsketch.core.metrics import cramer, squared_embedding_error
from bellsketch.experiments.claims import Claim, Claimant
from bellsketch.experiments.experiment import Cell, Experiment, Record
from bellsketch.experiments.sweeps import OURS, PAPERS
from bellsketch.experiments.walk_through import ITERATIONS, NUM_FEATURES, WalkThrough, plot_walk_through, walk_through


@dataclasses.dataclass(frozen=True)
class Settings:
    """The paper's; ``features`` tells its two figures apart."""

    features: str
    iterations: int = ITERATIONS
    ridge: float = 1e-9
    seed: int = 0


def cells(settings: Settings) -> list[Cell]:
    """The paper's form of the regression, and ours; sinusoids go with the sigmoids, to compare them."""
    forms = [{"features": settings.features, "intercept": form} for form in (PAPERS, OURS)]
    return forms + [{"features": "fourier", "intercept": PAPERS}] * (settings.features == "sigmoid")


def measure(settings: Settings, cell: Cell) -> list[Record]:
    """A row for each iteration and state, with its sketch."""
    run_ = walk_through(
        jax.random.key(settings.seed),
        cell["features"],
        intercept=cell["intercept"],
        ridge=settings.ridge,
        iterations=settings.iterations,
    )
    shared = {
        **cell,
        "max_regression_error": run_.max_regression_error,
        "spectral_radius": run_.spectral_radius,
        "bound": run_.bound if np.isfinite(run_.bound) else None,
    }
    return [
        {**shared, "iteration": t, "state": x + 1, **{f"u{i}": float(value) for i, value in enumerate(sketch)}}
        for t, sketches in enumerate(run_.path)
        for x, sketch in enumerate(sketches)
    ]


def from_records(records: pd.DataFrame, intercept: str, features: str | None = None) -> WalkThrough:
    """The run that left these records; by default with the features that the figure is about."""
    features = records["features"].iloc[0] if features is None else features
    rows = records[(records["intercept"] == intercept) & (records["features"] == features)]
    rows = rows.sort_values(["iteration", "state"])
    path = rows[[f"u{i}" for i in range(NUM_FEATURES)]].to_numpy().reshape(-1, rows["state"].nunique(), NUM_FEATURES)
    first = rows.iloc[0]
    bound = float(first["bound"]) if pd.notna(first["bound"]) else np.inf
    return WalkThrough(
        str(first["features"]), path, float(first["max_regression_error"]), float(first["spectral_radius"]), bound
    )


def plot(records: pd.DataFrame) -> Figure:
    """Panels A–E for the paper's form, with our path beside it."""
    return plot_walk_through([from_records(records, PAPERS)], from_records(records, OURS))


def claims(records: pd.DataFrame) -> list[Claim]:
    """What Sec. 3.2 and its appendix say of these figures."""
    papers, ours = from_records(records, PAPERS), from_records(records, OURS)
    figure, where, least = {
        "fourier": ("fig2", "Sec. Sketch-DP at work, Fig. 2", 0.7),
        "sigmoid": ("fig2-sigmoid", "App. Sketch-DP example with sigmoidal features", 0.97),
    }[papers.name]

    make = Claimant(figure, where)

    def claim(
        name: str, statement: str, measured: Callable[[WalkThrough], float], relation: str, threshold: float, what: str
    ) -> Claim:
        return make(
            name, statement, measured(papers), relation, threshold, f"{what}; free intercept: {measured(ours):.3g}"
        )

    result = [
        claim(
            "two-components",
            f"Two principal components explain more than {least:.0%} of the variance",
            _explained,
            ">",
            least,
            "their share",
        ),
        claim(
            "converges",
            "The estimates converge to close proximity of the truth",
            lambda run_: (run_.embedding_sq_error / _start_error(run_)) ** 0.5,
            "<",
            0.01,
            "embedding error, relative to that of the start, largest over states",
        ),
        claim(
            "nearer-to-4",
            "The embeddings of states 1 and 2 are nearer to that of state 4 than of state 3",
            _nearness,
            "<",
            1.0,
            "larger ratio of distances",
        ),
        claim(
            "every-third",
            "The update pattern comes from paths of length 3 between rewards: a state moves every third iteration",
            _off_beat,
            "<",
            0.5,
            "largest move off the beat over smallest move on it, first 12 iterations",
        ),
        claim(
            "starts-at-zero",
            "At first the decoded distributions reflect the start at δ₀",
            lambda run_: float(cramer(run_.decoder(run_.path[0]), dirac(np.zeros(4))).max()),
            "<",
            0.1,
            "Cramér distance of the decoded start to δ₀",
        ),
        claim(
            "decodes",
            "The decoded distributions become close to the projected truth",
            lambda run_: run_.cramer / _projection_distance(run_),
            "<",
            1.1,
            "Cramér distance to the truth over that of the projection, largest over states",
        ),
    ]
    if papers.name == "sigmoid":
        sinusoids = from_records(records, PAPERS, "fourier")
        result += [
            make(
                "more-than-sinusoids",
                "… which is more than with sinusoids",
                _explained(papers) - _explained(sinusoids),
                ">",
                0.0,
                "difference of the shares",
            ),
            make(
                "smoother",
                "The embeddings evolve more smoothly than with sinusoids",
                _detour(papers) / _detour(sinusoids),
                "<",
                1.0,
                "length of the path over distance travelled, mean over states; ratio of the two",
            ),
        ]
    return result


def _explained(run_: WalkThrough) -> float:
    return run_.principal_components()[2]


def _detour(run_: WalkThrough) -> float:
    length = np.linalg.norm(np.diff(run_.path, axis=0), axis=-1).sum(axis=0)
    return float((length / np.linalg.norm(run_.path[-1] - run_.path[0], axis=-1)).mean())


def _start_error(run_: WalkThrough) -> float:
    return float(squared_embedding_error(run_.path[0], run_.true_embedding).max())


def _nearness(run_: WalkThrough) -> float:
    """Of states 1 and 2: the distance to state 4 over that to state 3."""
    distances = np.linalg.norm(run_.final[:2, None] - run_.final[None, 2:], axis=-1)
    return float((distances[:, 1] / distances[:, 0]).max())


def _off_beat(run_: WalkThrough) -> float:
    """Rewards are paid in states 3 and 4, reach state 2 one iteration later, and state 1 after another."""
    moves = np.linalg.norm(np.diff(run_.path[:13], axis=0), axis=-1)
    beat = np.array([2, 1, 0, 0])  # the first iteration that moves each state
    on = (np.arange(len(moves))[:, None] - beat) % 3 == 0
    return float(moves[~on].max() / moves[on].min())


def _projection_distance(run_: WalkThrough) -> float:
    return float(run_.truth.cramer_to.of_projection(np.asarray(run_.decoder.support)).max())


def _experiment(name: str, features: str, title: str) -> Experiment:
    settings = Settings(features)
    return Experiment(name, title, settings, settings, cells, measure, plot, claims)


FIG2 = _experiment("fig2", "fourier", "The walk-through on the loopy fork, with sinusoidal features")
FIG2_SIGMOID = _experiment("fig2-sigmoid", "sigmoid", "The walk-through with sigmoid features")
