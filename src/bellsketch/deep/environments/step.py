"""What an environment shows, whether it runs on the device or on the host."""

from typing import Any, NamedTuple

from jaxtyping import Bool, Float

from bellsketch.core.arrays import Array


class Step(NamedTuple):
    """An observation before an action, and what the action before it brought. One of them, or one per environment."""

    observation: Any
    first: Bool[Array, "*e"]
    """Whether an episode starts here; the action before had no effect."""
    reward: Float[Array, "*e"]
    discount: Float[Array, "*e"]
    """0 after termination, else 1, also where an episode was cut off."""
    ended: Bool[Array, "*e"]
    """Whether this is the last observation of an episode. The next action is ignored, and an episode starts."""


class Space(NamedTuple):
    """What a network and a replay need to know of an environment."""

    observation_shape: tuple[int, ...]
    observation_dtype: Any
    """Of what is stored: images of zeros and ones take a byte per pixel."""
    num_actions: int
