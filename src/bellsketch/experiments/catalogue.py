"""All figures, by the names under which ``bellsketch reproduce`` knows them."""

from bellsketch.experiments import (
    anchor_range,
    bellman_coefficients,
    bench_atari,
    bench_tabular,
    beyond,
    fig2,
    fig4,
    minatar,
    minatar_ablation,
    polynomial,
    sfdp,
    tabular_full,
    theory,
)
from bellsketch.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        fig2.FIG2,
        fig2.FIG2_SIGMOID,
        fig4.EXPERIMENT,
        bellman_coefficients.EXPERIMENT,
        polynomial.EXPERIMENT,
        tabular_full.EXPERIMENT,
        anchor_range.EXPERIMENT,
        sfdp.EXPERIMENT,
        theory.EXPERIMENT,
        beyond.EXPERIMENT,
        minatar.EXPERIMENT,
        minatar_ablation.EXPERIMENT,
    )
}

BENCHMARKS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (bench_tabular.EXPERIMENT, bench_atari.EXPERIMENT)
}
"""Those of ``bellsketch bench``."""
