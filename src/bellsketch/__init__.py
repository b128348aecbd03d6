"""Distributional reinforcement learning in the space of sketches: Bellman operators over mean embeddings."""

from bellsketch.core import measures, risk
from bellsketch.core.coefficients import BellmanCoefficients, CoefficientFitter, fit_coefficients
from bellsketch.core.distributions import AtomicDistribution, dirac
from bellsketch.core.errors import (
    AllocationError,
    BellsketchError,
    BellsketchWarning,
    DivergenceError,
    InputError,
    MissingRewardError,
    ToleranceError,
    UnknownNameError,
)
from bellsketch.core.expectiles import expectiles
from bellsketch.core.families import FAMILIES, make_features
from bellsketch.core.features import (
    Bins,
    Erf,
    FeatureMap,
    Fourier,
    Gaussian,
    Indicator,
    Morlet,
    Parabolic,
    Polynomial,
    Quartic,
    Sigmoid,
    Tanh,
    TranslationFamily,
    WithConstant,
)
from bellsketch.core.imputation import Decoder, anchor_decoder, fine_decoder
from bellsketch.core.interpolation import InterpolatedCoefficients, interpolate_coefficients
from bellsketch.core.just_in_time import JustInTimeCoefficients
from bellsketch.core.metrics import cramer, excess_cramer, kolmogorov, squared_embedding_error, wasserstein
from bellsketch.core.projections import categorical_projection, quantile_projection
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import CriterionReadout, Readout, fit_criterion, fit_readout
from bellsketch.core.regression import FitReport, LinearFit, Regression
from bellsketch.core.rewards import Reward, as_reward
from bellsketch.core.structure import choose_form
from bellsketch.tabular import environments, schedules
from bellsketch.tabular.algorithm import Algorithm, Info, Run, run
from bellsketch.tabular.answers import Questions, answers, bootstrap_answers
from bellsketch.tabular.categorical import categorical_dp, categorical_fixed_point, categorical_td
from bellsketch.tabular.certificate import Certificate, CertifiedExpectation, indicator_bound
from bellsketch.tabular.control.best_with_stock import StockControl, best_with_stock
from bellsketch.tabular.control.policy_iteration import Control, policy_iteration
from bellsketch.tabular.control.q_learning import SketchQLearning, sketch_q_learning
from bellsketch.tabular.control.stock import StockMDP, with_stock
from bellsketch.tabular.dirac import dirac_dp, dirac_td
from bellsketch.tabular.expectile import expectile_dp, expectile_td
from bellsketch.tabular.fixed_point import FixedPoint, fixed_point
from bellsketch.tabular.ground_truth import GroundTruth, ground_truth, monte_carlo
from bellsketch.tabular.mdp import MDP
from bellsketch.tabular.models.arrays_file import from_networkx, save_npz
from bellsketch.tabular.models.load import load_decisions, load_log, load_model
from bellsketch.tabular.models.log import Log
from bellsketch.tabular.models.named import NamedDecisions, NamedModel
from bellsketch.tabular.moments import central_moments, kurtosis, moments_dp, moments_td, skewness
from bellsketch.tabular.mrp import MRP
from bellsketch.tabular.operator import AffineOperator
from bellsketch.tabular.particles import GaussianMixture, Unrectified, particle_dp, particle_td
from bellsketch.tabular.quantile import quantile_dp, quantile_td
from bellsketch.tabular.sampling import estimate_return_range, sample_returns
from bellsketch.tabular.sharding import iterate_on_devices
from bellsketch.tabular.sketch import SketchDP, SketchTD, sketch_dp, sketch_operator, sketch_td
from bellsketch.tabular.solve import Solution, solve

__version__ = "0.1.0"

__all__ = [
    "FAMILIES",
    "MDP",
    "MRP",
    "AffineOperator",
    "Algorithm",
    "AllocationError",
    "AtomicDistribution",
    "BellmanCoefficients",
    "BellsketchError",
    "BellsketchWarning",
    "Bins",
    "Certificate",
    "CertifiedExpectation",
    "CoefficientFitter",
    "Control",
    "CriterionReadout",
    "Decoder",
    "DivergenceError",
    "Erf",
    "FeatureMap",
    "FitReport",
    "FixedPoint",
    "Fourier",
    "Gaussian",
    "GaussianMixture",
    "GroundTruth",
    "Indicator",
    "Info",
    "InputError",
    "InterpolatedCoefficients",
    "JustInTimeCoefficients",
    "LinearFit",
    "Log",
    "MissingRewardError",
    "Morlet",
    "NamedDecisions",
    "NamedModel",
    "Parabolic",
    "Polynomial",
    "Quartic",
    "Questions",
    "Readout",
    "Regression",
    "ReturnRange",
    "Reward",
    "Run",
    "Sigmoid",
    "SketchDP",
    "SketchQLearning",
    "SketchTD",
    "Solution",
    "StockControl",
    "StockMDP",
    "Tanh",
    "ToleranceError",
    "TranslationFamily",
    "UnknownNameError",
    "Unrectified",
    "WithConstant",
    "anchor_decoder",
    "answers",
    "as_reward",
    "best_with_stock",
    "bootstrap_answers",
    "categorical_dp",
    "categorical_fixed_point",
    "categorical_projection",
    "categorical_td",
    "central_moments",
    "choose_form",
    "cramer",
    "dirac",
    "dirac_dp",
    "dirac_td",
    "environments",
    "estimate_return_range",
    "excess_cramer",
    "expectile_dp",
    "expectile_td",
    "expectiles",
    "fine_decoder",
    "fit_coefficients",
    "fit_criterion",
    "fit_readout",
    "fixed_point",
    "from_networkx",
    "ground_truth",
    "indicator_bound",
    "interpolate_coefficients",
    "iterate_on_devices",
    "kolmogorov",
    "kurtosis",
    "load_decisions",
    "load_log",
    "load_model",
    "make_features",
    "measures",
    "moments_dp",
    "moments_td",
    "monte_carlo",
    "particle_dp",
    "particle_td",
    "policy_iteration",
    "quantile_dp",
    "quantile_projection",
    "quantile_td",
    "risk",
    "run",
    "sample_returns",
    "save_npz",
    "schedules",
    "sketch_dp",
    "sketch_operator",
    "sketch_q_learning",
    "sketch_td",
    "skewness",
    "solve",
    "squared_embedding_error",
    "wasserstein",
    "with_stock",
]
