"""All figures, by the names under which ``bellsketch reproduce`` knows them."""

from bellsketch.experiments import (
    anchor_range,
    bellman_coefficients,
    fig4,
    polynomial,
    tabular_full,
)
from bellsketch.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        fig4.EXPERIMENT,
        bellman_coefficients.EXPERIMENT,
        polynomial.EXPERIMENT,
        tabular_full.EXPERIMENT,
        anchor_range.EXPERIMENT,
    )
}
