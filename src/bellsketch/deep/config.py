"""What a training run is told: plain values, from Python and from the command line. Defaults are the paper's."""

import dataclasses
import json
import math
from typing import Any, Literal

from bellsketch.core.errors import InputError
from bellsketch.core.ranges import GRID_MARGIN
from bellsketch.deep.checking import check_positive, checked
from bellsketch.deep.environments.games import GAMES

LARGEST = 2**31 - 1
"""Seed and number of steps: JAX's integers have 32 bits."""
MOST_GROUPS, MANY_UPDATES = 4, 16
"""At most so many groups of environments take turns, each followed by at least so many updates: docs/performance.md."""


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """Options of an agent."""

    num: int | None = None
    """Atoms, quantiles, levels or features; by default 51, 201, 64 and 201."""
    huber: float | None = None
    """The error beyond which DQN's loss is linear; by default 1/20 of the width of returns, or 1 if that is larger."""
    features: str = "sigmoid"
    """Feature family of a sketch: sigmoid, gaussian, tanh or erf, or any other with values in [−1, 1]."""
    slope_factor: float = 1.0
    """Multiplies the family's default slope."""
    anchor_margin: float | None = None
    """How far a sketch's features reach beyond the returns, in units of their width; default: the family's."""
    grid_margin: float = GRID_MARGIN
    """How far its regressions do."""
    form: Literal["free", "constant", "none"] = "free"
    """Of a sketch's regressions: with a free intercept, with a penalised constant feature (the paper's), or none."""
    interpolate: bool = False
    """Whether a sketch also takes rewards between those that are listed. If none are, it takes all."""
    force: bool = False
    """Whether to train a sketch whose regressions are poorer than any the paper trains with."""
    double: bool = False
    """Double Q-learning."""
    small: bool = False
    """Whether networks for screens are small: a quarter of the work, for a CPU."""
    bfloat16: bool = False
    """Whether networks compute in half precision, but for their heads; for a GPU."""
    num_steps: int = 1
    """n of n-step returns."""
    # A sketch uses the coefficients of (R⁽ⁿ⁾, γⁿ): one regression, not n of them one after the other, whose errors
    # would add up.

    def __post_init__(self) -> None:
        if self.num is not None and self.num < 1:
            raise InputError(f"num={self.num}: at least 1 is needed, or None for the default")
        if self.huber is not None and not self.huber > 0:
            raise InputError(f"huber={self.huber}: must be positive, or None for the default")
        if self.num_steps < 1:
            raise InputError(f"num_steps={self.num_steps}: returns are over at least 1 step")
        if not (self.slope_factor > 0 and math.isfinite(self.slope_factor)):
            raise InputError(f"slope_factor={self.slope_factor}: must be positive and finite; 1 is the default slope")
        for name in ("anchor_margin", "grid_margin"):
            if (margin := getattr(self, name)) is not None and not 0 <= margin < math.inf:
                raise InputError(f"{name}={margin}: must be finite, and not negative")


@dataclasses.dataclass(frozen=True)
class LearnerConfig:
    """How to learn (App. "Deep reinforcement learning implementation details")."""

    learning_rate: float = 5e-5
    """Of Adam."""
    learning_rate_final: float | None = None
    """It falls to this, evenly over the run; None: it stays as it is."""
    adam_epsilon: float = 0.01 / 32
    """Adam's ε."""
    max_gradient_norm: float = 10.0
    """Gradients are clipped to this global norm."""
    target_period: int = 2_500
    """Updates between copies to the target network."""

    def __post_init__(self) -> None:
        check_positive(self, "learning_rate", "adam_epsilon", "max_gradient_norm", "target_period")
        if self.learning_rate_final is not None and not 0 <= self.learning_rate_final <= self.learning_rate:
            raise InputError(
                f"learning_rate_final={self.learning_rate_final}: must lie in [0, learning_rate={self.learning_rate}]"
            )


@dataclasses.dataclass(frozen=True)
class LoopConfig:
    """How often to do what, in environment steps of one seed."""

    num_environments: int = 1
    """Environments side by side, for each seed."""
    update_period: int = 4
    """Steps for each update."""
    batch_size: int = 32
    """Transitions in an update."""
    replay_capacity: int = 1_000_000
    """Steps kept."""
    learning_starts: int = 50_000
    """Steps taken at random before the first update."""
    exploration_steps: int = 1_000_000
    """Steps over which ε falls to its final value, after those at random."""
    exploration_final: float = 0.01
    """The last ε."""
    discount: float = 0.99
    """γ."""
    frame_skip: int = 1
    """Frames in a step. Atari repeats an action so often; other environments have it of their own, and it is only a
    matter of counting."""
    reward_clip: float | None = None
    """Rewards are learnt from as if none were larger than this, or smaller than its negative. Returns are counted
    without."""

    def __post_init__(self) -> None:
        check_positive(self, "num_environments", "update_period", "batch_size", "replay_capacity", "exploration_steps")
        check_positive(self, "discount", "frame_skip", "reward_clip")
        if self.discount > 1:
            raise InputError(f"discount={self.discount}: must lie in (0, 1]")
        if not 0 <= self.exploration_final <= 1:
            raise InputError(f"exploration_final={self.exploration_final}: a probability lies in [0, 1]")
        if self.learning_starts < 0:
            raise InputError(f"learning_starts={self.learning_starts}: must not be negative")
        small, large = sorted((self.num_environments, self.update_period))
        if large % small:
            raise InputError(
                f"num_environments={self.num_environments} and update_period={self.update_period}: one must be a"
                " multiple of the other, so that the number of updates for each step comes out even"
            )

    @property
    def acts(self) -> int:
        """Vector steps in an iteration."""
        return max(1, self.update_period // self.num_environments)

    @property
    def updates(self) -> int:
        """Updates in an iteration, after its steps."""
        return max(1, self.num_environments // self.update_period)

    @property
    def steps(self) -> int:
        """Environment steps in an iteration."""
        return self.acts * self.num_environments

    def epsilon(self, steps: Any) -> Any:
        """The chance of a random action after so many steps, for numbers and arrays."""
        share = (steps - self.learning_starts) / self.exploration_steps
        clipped = share * (share > 0) * (share < 1) + (share >= 1)
        return 1.0 - (1.0 - self.exploration_final) * clipped


@dataclasses.dataclass(frozen=True)
class HostConfig:
    """How environments on the host are made."""

    exact: bool = False
    """Atari: whether frames are made as in the authors' code, on the device, instead of by the emulator."""
    threads: int = 0
    """Atari: in which to emulate; 0: one on each core."""
    groups: int | None = None
    """On the host: of environments that take turns, each followed by its part of the updates, so that some play while
    the others' frames are on their way; default: up to 4 for Atari with as many environments as suit a GPU, else 1."""
    asynchronous: bool = False
    """Gymnasium: whether each environment has a process of its own; pays off where a step takes a millisecond or
    more."""
    environment_options: tuple[str, ...] = ()
    """Gymnasium: arguments of the environment, such as map_name=8x8 is_slippery=false."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise InputError(f"threads={self.threads}: must not be negative; 0 is one on each core")
        check_positive(self, "groups")
        for option in self.environment_options:
            if not isinstance(option, str) or "=" not in option:
                raise InputError(f"environment_options={option!r}: write NAME=VALUE, such as map_name=8x8")

    @property
    def arguments(self) -> dict[str, Any]:
        """Of a Gymnasium environment, by name; what is not JSON is a text."""
        found: dict[str, Any] = {}
        for name, _, text in (option.partition("=") for option in self.environment_options):
            try:
                found[name] = json.loads(text)
            except ValueError:
                found[name] = text
        return found


@dataclasses.dataclass(frozen=True)
class EvaluationConfig:
    """How to measure a network: whole episodes, acting almost greedily."""

    evaluation_episodes: int = 20
    """Episodes in an evaluation of one seed."""
    evaluation_frames: int | None = None
    """Instead: all episodes that end within so many frames, which had better be more than an episode can have, or short
    ones count too often. Environments on the device play episodes all the same."""
    evaluation_epsilon: float = 0.001
    """The chance of a random action."""
    evaluations: int = 10
    """Evaluations in a run, evenly spaced, the last one at its end; 0: none."""

    def __post_init__(self) -> None:
        check_positive(self, "evaluation_episodes", "evaluation_frames")
        if not 0 <= self.evaluation_epsilon <= 1:
            raise InputError(f"evaluation_epsilon={self.evaluation_epsilon}: a probability lies in [0, 1]")
        if self.evaluations < 0:
            raise InputError(f"evaluations={self.evaluations}: must not be negative")


@dataclasses.dataclass(frozen=True)
class ReturnsConfig:
    """What the rewards and returns are; whatever is not given is found out from the environment, and shown."""

    return_low: float | None = None
    """The least return that atoms and features are to cover."""
    return_high: float | None = None
    """The largest return that they are to cover."""
    rewards: tuple[float, ...] | None = None
    """All rewards there are; a sketch has coefficients for these, and any other is an error, unless it lies in
    reward_interval."""
    reward_interval: tuple[float, float] | None = None
    """Rewards may be any numbers in here: sketches interpolate their coefficients."""


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """All of a run."""

    agent: str
    environment: str
    frames: int = 200_000_000
    """Of each seed."""
    seeds: int = 1
    """Runs side by side, from ``seed`` on."""
    seed: int = 0
    risk: str = "mean"
    """What to be greedy in."""
    records: int = 100
    """Records of each seed, evenly spaced; at least as many as evaluations, which are made at records."""
    options: AgentConfig = dataclasses.field(default_factory=AgentConfig)
    learner: LearnerConfig = dataclasses.field(default_factory=LearnerConfig)
    loop: LoopConfig = dataclasses.field(default_factory=LoopConfig)
    host: HostConfig = dataclasses.field(default_factory=HostConfig)
    evaluation: EvaluationConfig = dataclasses.field(default_factory=EvaluationConfig)
    returns: ReturnsConfig = dataclasses.field(default_factory=ReturnsConfig)

    def __post_init__(self) -> None:
        check_positive(self, "frames", "seeds", "records")
        if not 0 <= self.seed <= LARGEST - self.seeds:
            raise InputError(f"seed={self.seed}: seeds must lie in [0, {LARGEST}]")
        if self.steps + self.loop.steps > LARGEST:
            raise InputError(
                f"frames={self.frames:,}: a run has at most {(LARGEST - self.loop.steps) * self.loop.frame_skip:,};"
                " pass fewer"
            )
        num = self.loop.num_environments
        warm_up = self.warm_up * num
        if (frames := self.evaluation.evaluation_frames) is not None and frames < self.loop.frame_skip:
            raise InputError(f"evaluation_frames={frames}: a step has {self.loop.frame_skip}; pass more of them")
        if self.loop.updates % self.groups:
            raise InputError(
                f"groups={self.groups}: each is followed by as many updates, and there are {self.loop.updates} after a"
                f" step of all environments (num_environments={num}, update_period={self.loop.update_period}); pass a"
                " divisor of that"
            )
        if self.steps <= warm_up:
            raise InputError(
                f"frames={self.frames}: learning starts only after {warm_up * self.loop.frame_skip} of them"
                f" (learning_starts={self.loop.learning_starts} steps, {num} at a time); pass more frames, or let it"
                " start earlier"
            )

    @property
    def steps(self) -> int:
        """Of each seed, at least."""
        return -(-self.frames // self.loop.frame_skip)

    @property
    def groups(self) -> int:
        """Of environments that take turns."""
        return self.groups_of(self.loop)

    def groups_of(self, loop: LoopConfig) -> int:
        """How many there would be with another loop."""
        if self.host.groups is not None:
            return self.host.groups
        most = min(MOST_GROUPS, loop.updates // MANY_UPDATES) if self.environment in GAMES else 1
        return next((num for num in range(most, 1, -1) if loop.updates % num == 0), 1)

    @property
    def warm_up(self) -> int:
        """Vector steps before the first update."""
        return -(-self.loop.learning_starts // self.loop.num_environments)

    @property
    def iterations(self) -> int:
        """After those: steps and updates."""
        return -(-(self.steps - self.warm_up * self.loop.num_environments) // self.loop.steps)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> "TrainingConfig":
        """From JSON values."""
        parts = {
            "options": AgentConfig,
            "learner": LearnerConfig,
            "loop": LoopConfig,
            "host": HostConfig,
            "evaluation": EvaluationConfig,
            "returns": ReturnsConfig,
        }
        made = {name: kind(**checked(kind, values[name])) for name, kind in parts.items()}
        return cls(**checked(cls, {**values, **made}))
