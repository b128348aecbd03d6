"""What is known of environments by their names: the rewards they pay, and how large their returns get."""

import dataclasses
from typing import Any

import gymnax
import jax
import numpy as np

from bellsketch.deep.environments.host import HostEnvironments
from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.environments.vector import VectorEnvironments

MEASURED_DISCOUNT = 0.99
"""γ of the bounds below that do not follow from rewards: MinAtar's and Atari's."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What the source of an environment says, with its default parameters."""

    repeated: tuple[float, ...] = (0.0,)
    """Rewards that any step may pay."""
    once: tuple[float, ...] = ()
    """Rewards that are paid at most once an episode, and one of them at most."""
    steps: int | None = None
    """Steps after which every episode has terminated by itself."""
    low: float | None = None
    """A bound on returns at γ = 0.99, where the one that follows from rewards is of no use."""
    high: float | None = None
    """Likewise."""
    listed: bool = True
    """False where rewards are rounded numbers that are better not compared: any in between are meant too."""

    @property
    def rewards(self) -> tuple[float, ...]:
        """All of them."""
        return tuple(sorted({*self.repeated, *self.once}))


MINATAR_HIGH = {
    "Asterix-MinAtar": 20.0,
    "Breakout-MinAtar": 20.0,
    "Freeway-MinAtar": 6.0,
    "Seaquest-MinAtar": 20.0,
    "SpaceInvaders-MinAtar": 30.0,
}
"""Greatest discounted returns at γ = 0.99: a reward of 1 on every step is far from what a game allows. About twice what
a DQN reached after 600,000 frames (Freeway: 200,000), which was 10.8, 11.6, 3.7, 4.8 and 16.0; four times in Seaquest,
which is learnt slowly."""

# A row of Asterix holds one piece of gold, a ball of Breakout hits one brick, the chicken crosses once. Bullets of
# Space Invaders are 5 rows apart and the aliens span 4, so that no two are hit at once.
MINATAR = {name: Facts((0.0, 1.0), high=high) for name, high in MINATAR_HIGH.items()}
# In Seaquest up to two bullets are under way, each of which can hit something, also on the step on which a full
# submarine surfaces: that pays ⌊10 oxygen/200⌋, at most 9, since the oxygen has gone down to 199 under water.
MINATAR["Seaquest-MinAtar"] = Facts(tuple(map(float, range(12))), high=MINATAR_HIGH["Seaquest-MinAtar"])

ATARI = Facts((-1.0, 0.0, 1.0), low=-10.0, high=10.0)
"""With rewards clipped to 1; the range is that of the published agents."""

NATIVE_FACTS = {
    **MINATAR,
    "CartPole-v1": Facts((1.0,)),  # also on the step on which the pole falls
    "Acrobot-v1": Facts((-1.0,), (0.0,)),
    "MountainCar-v0": Facts((-1.0,)),
    "Catch-bsuite": Facts(once=(-1.0, 1.0)),
    "DeepSea-bsuite": Facts((0.0, -0.01 / 8), (1.0 - 0.01 / 8,), steps=8),
    "MemoryChain-bsuite": Facts(once=(-1.0, 1.0)),
    "UmbrellaChain-bsuite": Facts((-1.0, 1.0), steps=10),
    "DiscountingChain-bsuite": Facts(once=(1.0, 1.1)),
    "MNISTBandit-bsuite": Facts((), (-1.0, 1.0), steps=1),
    "SimpleBandit-bsuite": Facts((), (0.0, 1.0), steps=1, listed=False),
    "FourRooms-misc": Facts(once=(1.0,)),
    "MetaMaze-misc": Facts((0.0, 10.0)),  # the goal is reached again and again
    "BernoulliBandit-misc": Facts((0.0, 1.0)),
    "Pong-misc": Facts((1.0,), (0.0,)),
    "FrozenLake-misc": Facts(once=(1.0,)),
}
"""Of Gymnax 1.0.1, read off its source."""

HOST_FACTS = {
    "CartPole-v0": Facts((1.0,)),
    "CartPole-v1": Facts((1.0,)),  # also on the step on which the pole falls
    "Acrobot-v1": Facts((-1.0,), (0.0,)),
    "MountainCar-v0": Facts((-1.0,)),
    "FrozenLake-v1": Facts(once=(1.0,)),
    "FrozenLake8x8-v1": Facts(once=(1.0,)),
    "Blackjack-v1": Facts(once=(-1.0, 1.0)),
    "CliffWalking-v1": Facts((-1.0, -100.0)),
    "CliffWalkingSlippery-v1": Facts((-1.0, -100.0)),
    "Taxi-v4": Facts((-1.0, -10.0), (20.0,)),
}
"""Of Gymnasium 1.3.0, read off its source."""


def facts_of(environment: NativeEnvironment | VectorEnvironments) -> Facts | None:
    """What is known by name, unless the environment is not the one by that name."""
    if isinstance(environment, HostEnvironments):
        changed = set(environment.options) - {"max_episode_steps"}
        return None if changed else HOST_FACTS.get(environment.registered_name)
    if not isinstance(environment, NativeEnvironment) or (facts := NATIVE_FACTS.get(environment.name)) is None:
        return None
    usual, parameters = gymnax.make(environment.name)
    parameters = parameters.replace(max_steps_in_episode=environment.max_episode_steps)
    this = (environment.environment, environment.parameters)
    return facts if _settings(*this) == _settings(usual, parameters) else None


def _settings(environment: Any, parameters: Any) -> list[Any]:
    """What distinguishes one Gymnax environment from another, comparable."""
    return [type(environment), *(np.asarray(x).tolist() for x in jax.tree.leaves((vars(environment), parameters)))]
