"""Sketch-DQN from features and rewards: coefficients, readouts and a decoder, and how exact they are."""

import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bellsketch.core.backups import Backup, RewardSetAndSpan, RewardSpan, reward_set
from bellsketch.core.coefficients import fit_coefficients
from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.core.features import FeatureMap
from bellsketch.core.imputation import FINE_RATIO, Decoder
from bellsketch.core.interpolation import interpolate_coefficients
from bellsketch.core.measures import Uniform
from bellsketch.core.ranges import ReturnRange
from bellsketch.core.readout import Readout, fit_readout
from bellsketch.core.regression import Regression
from bellsketch.core.risk import MEAN, Criterion
from bellsketch.deep.agents.reading import fit_reading
from bellsketch.deep.agents.sketch_dqn import SketchDQN, SketchReport

INTERCEPTS = {"free": "free", "constant": "penalised", "none": "none"}
"""Of the regressions, in the words of ``fit_coefficients``."""
TIE_BREAK = 1e-5
"""Of the decoder: the largest that Sketch-DP uses, because networks know sketches less well than regressions do."""
SHOWN_ATOMS = 400
"""Of decoded distributions, if features are fewer: 20 ms for each action, with twice as many 300."""
COEFFICIENT_TOLERANCE = 0.01
"""Of the range of the features: the largest regression error that the paper trains with."""


def build_sketch_dqn(
    features: FeatureMap,
    regression_range: ReturnRange,
    discount: float,
    *,
    rewards: Sequence[float] | None = None,
    reward_tolerance: float = 0.0,
    reward_interval: tuple[float, float] | None = None,
    criterion: Criterion = MEAN,
    form: str = "free",
    returns: ReturnRange | None = None,
    force: bool = False,
) -> SketchDQN:
    """Everything that a Sketch-DQN needs, by regression on an even grid.

    Args:
      features: φ, bounded by 1.
      regression_range: where to regress.
      discount: γ, or γⁿ for n-step returns.
      rewards: all that there are, each with its own coefficients.
      reward_tolerance: how far from one of those a reward may be that is taken for it.
      reward_interval: coefficients for every reward in it are interpolated. With ``rewards`` as well, for those that
        are not listed.
      criterion: what to be greedy in.
      returns: where its readout must be right; default: all of ``regression_range``.
      force: whether to go on, with a warning, where a regression error exceeds what the paper trains with.
      form: of the regressions.

        - ``free`` (default): an intercept c_r that is not penalised, and exactly φ(r) at discount 0.
        - ``constant``: the paper's. A constant feature, 1, is appended to φ and penalised like the others, for readouts
          too, and discount 0 is regressed like any other. The network does not predict the constant, and it is no part
          of the loss: between a hard-coded 1 and a target without gradient there is nothing to learn.
        - ``none``: φ alone, no intercept, and discount 0 regressed.
    """
    if form not in INTERCEPTS:
        raise InputError(f"form={form!r}: choose one of {', '.join(INTERCEPTS)}")
    grid, intercept = regression_range.grid(margin=0.0), INTERCEPTS[form]
    phi = features(grid.locations[:: grid.locations.size // 1_000])
    if np.abs(phi).max() > 1 + 1e-6:
        raise InputError(
            f"features: {_name(features)} features reach {np.abs(phi).max():.3g}; they must lie in [−1, 1]"
        )
    mass = None if form == "free" else fit_readout(features, np.ones_like, grid, intercept=intercept)
    backup, error = _backup(
        features, regression_range, discount, rewards, reward_tolerance, reward_interval, intercept, mass
    )
    if mass is not None:
        error = max(error, mass.report.max_error)  # times φ(r), which is at most 1
    regression = Regression(features, grid, intercept=intercept)
    reading, read = fit_reading(regression, regression_range, criterion, returns or regression_range)
    report = SketchReport(
        _describe(features, regression_range),
        _describe_rewards(rewards, reward_interval),
        form,
        error,
        _norm(backup, rewards if rewards is not None else reward_interval or ()),
        read,
    )
    if not (fits := error <= COEFFICIENT_TOLERANCE * np.ptp(phi)) or not read.is_good:
        words = (
            f"this Sketch-DQN cannot learn to better than its regressions, and they are poor: {report}. Use more"
            " features, another slope or a narrower range of returns"
        )
        if not fits and not force:
            raise InputError(f"{words}; or pass force=True (--force) to train it all the same")
        warnings.warn(words, BellsketchWarning, stacklevel=2)
    atoms = max(features.num_features, min(FINE_RATIO * features.num_features, SHOWN_ATOMS))
    return SketchDQN(
        backup,
        reading,
        bool(phi.min() < 0),
        Decoder(features, regression_range.points(atoms), TIE_BREAK),
        report,
    )


def _backup(
    features: FeatureMap,
    span: ReturnRange,
    discount: float,
    rewards: Sequence[float] | None,
    tolerance: float,
    interval: tuple[float, float] | None,
    intercept: str,
    mass: Readout | None,
) -> tuple[Backup, float]:
    """And the largest error of its regressions."""
    listed = within = None
    errors = []
    if rewards is not None:
        fit = fit_coefficients(features, span.grid(margin=0.0), rewards, (discount,), intercept=intercept)
        listed = reward_set(fit, discount, mass, tolerance)
        errors.append(fit.max_error)
    if interval is not None:
        mu = Uniform(span.low, span.high)
        interpolated = interpolate_coefficients(features, mu, interval, discount, intercept=intercept)
        within = RewardSpan(interpolated, mass)
        errors.append(interpolated.max_error)
    backup = RewardSetAndSpan(listed, within) if listed is not None and within is not None else listed or within
    if backup is None:
        raise InputError("rewards=None, reward_interval=None: list the rewards, or say between which numbers they lie")
    return backup, max(errors)


def _norm(backup: Backup, rewards: Sequence[float]) -> float:
    """The largest spectral norm of A_r, which is what a backup does to differences."""
    many = jax.jit(jax.vmap(backup.back_up, (None, 0)))
    unit = jnp.eye(backup.features.num_features)
    images = (many(jnp.float32(reward), unit) - many(jnp.float32(reward), 0 * unit) for reward in rewards)
    return max(float(np.linalg.norm(np.asarray(image), 2)) for image in images)


def _name(features: FeatureMap) -> str:
    return type(features).__name__.lower()


def _describe(features: FeatureMap, span: ReturnRange) -> str:
    anchors = f" with anchors in [{min(at):.4g}, {max(at):.4g}]" if (at := features.anchors) is not None else ""
    slope = f", slope {features.slope:.3g}" if hasattr(features, "slope") else ""
    named = f"{features.num_features} {_name(features)} features{anchors}{slope}"
    return f"{named}, regressed on [{span.low:.4g}, {span.high:.4g}]"


def _describe_rewards(rewards: Sequence[float] | None, interval: tuple[float, float] | None) -> str:
    listed = f"{len(rewards)} reward{'s' if len(rewards) != 1 else ''}" if rewards is not None else None
    within = f"rewards in [{interval[0]:.4g}, {interval[1]:.4g}]" if interval is not None else None
    return " and ".join(part for part in (listed, within) if part)
