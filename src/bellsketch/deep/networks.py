"""Networks: a torso that suits the observation, and linear heads on top."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Shaped

from bellsketch.core.arrays import Array

HIDDEN = 128
"""Units of the last layer before the head: that of MinAtar's published DQN."""
CHANNELS = 16


class Torso(eqx.Module):
    """From an observation to features: two dense layers for vectors, a convolution and a dense layer for images.

    Images are [height, width, channels], as environments give them; the convolution is that of MinAtar's DQN.
    """

    convolution: eqx.nn.Linear | None
    """Of 3 × 3 patches: as a matrix product it takes a fraction of the time that XLA's convolution does in a scan."""
    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self, key: jax.Array, observation_shape: Sequence[int], width: int = HIDDEN):
        keys = jax.random.split(key, 3)
        self.convolution, size = None, math.prod(observation_shape)
        if len(observation_shape) == 3:
            height, length, channels = observation_shape
            self.convolution = eqx.nn.Linear(9 * channels, CHANNELS, key=keys[0])
            size = CHANNELS * (height - 2) * (length - 2)
        sizes = [size, width] if self.convolution is not None else [size, width, width]
        self.layers = tuple(
            eqx.nn.Linear(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys[1:], strict=False)
        )

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " h"]:
        x = jnp.asarray(observation, jnp.float32)
        if self.convolution is not None:
            x = jax.nn.relu(jax.vmap(self.convolution)(patches(x)))
        x = x.ravel()
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return x


def patches(image: Float[Array, "h w c"], size: int = 3) -> Float[Array, "p k"]:
    """All ``size`` × ``size`` patches of an image, each as one row."""
    height, width = image.shape[0] - size + 1, image.shape[1] - size + 1
    moved = [image[i : i + height, j : j + width] for i in range(size) for j in range(size)]
    return jnp.concatenate(moved, axis=-1).reshape(height * width, -1)


class HeadedTorso(eqx.Module):
    """``num_outputs`` numbers for each action."""

    torso: Torso
    head: eqx.nn.Linear
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, key: jax.Array, observation_shape: Sequence[int], num_actions: int, num_outputs: int):
        key_torso, key_head = jax.random.split(key)
        self.torso = Torso(key_torso, observation_shape)
        self.shape = (num_actions, num_outputs)
        self.head = eqx.nn.Linear(HIDDEN, num_actions * num_outputs, key=key_head)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, "a k"]:
        return self.head(self.torso(observation)).reshape(self.shape)
