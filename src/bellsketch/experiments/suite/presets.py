"""Suites by name: the paper's benchmark, its sweep of features, MinAtar, and the tabular figures."""

from bellsketch.deep.environments.games import GAMES
from bellsketch.experiments.suite.reading import GROUPS
from bellsketch.experiments.suite.suite import FigureGrid, Resources, Setting, Suite, TrainingGrid, agents

SEEDS = (0, 1, 2)
"""The paper's three."""
ATARI = Resources(cores=4, gpus=0.25, memory_gb=8)
"""Four jobs on a machine with one GPU and 16 cores. A replay of 1M frames takes 7 GB of the GPU's memory."""
ATARI_OPTIONS = {"threads": 4, "bfloat16": True, "evaluations": 100, "records": 200}
ATARI_SECONDS = 1200.0


def _sketch(features: str, num: int, slope: float) -> Setting:
    # The default slope is 1 for returns in [−10, 10].
    options = {"features": features, "num": num, "slope_factor": slope}
    return Setting(f"{features} m={num} slope={slope:g}", "sketch_dqn", options)


PRESETS: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "atari57",
            TrainingGrid(
                agents(("sketch_dqn", "dqn", "c51", "qr_dqn", "iqn")), GAMES, SEEDS, options=ATARI_OPTIONS, frames=None
            ),
            ATARI,
            ATARI_SECONDS,
        ),
        # The paper names neither all numbers nor all slopes of its sweep: 101 and 201 features, and slopes 5 and 10.
        Suite(
            "atari-sweep",
            TrainingGrid(
                tuple(
                    _sketch(family, num, slope)
                    for family in ("sigmoid", "gaussian")
                    for num in (101, 201, 401)
                    for slope in (5.0, 10.0)
                ),
                GAMES,
                SEEDS,
                options=ATARI_OPTIONS,
            ),
            ATARI,
            ATARI_SECONDS,
        ),
        Suite(
            "minatar",
            TrainingGrid(
                agents(("sketch_dqn", "dqn", "c51", "qr_dqn", "iqn")),
                GROUPS["minatar"],
                tuple(range(5)),
            ),
        ),
        Suite("tabular-full", FigureGrid("tabular-full")),
    )
}
