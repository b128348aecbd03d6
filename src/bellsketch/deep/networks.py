"""Networks: a torso that suits the observation, and linear heads on top."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float, Shaped

from bellsketch.core.arrays import Array


class Convolution(NamedTuple):
    """Without padding; the size is a multiple of the stride."""

    channels: int
    size: int
    stride: int = 1


class Layers(NamedTuple):
    """Convolutions, for images, and the widths of the dense layers that follow."""

    convolutions: tuple[Convolution, ...]
    widths: tuple[int, ...]


VECTOR = Layers((), (128, 128))
GRID = Layers((Convolution(16, 3),), (128,))
"""Of MinAtar's published DQN."""
GRID_SIDE = 3
"""Images with a side below this are vectors: it is what the convolution for grids needs."""
SCREEN = Layers((Convolution(32, 8, 4), Convolution(64, 4, 2), Convolution(64, 3)), (512,))
"""Of Mnih et al., 2015."""
SMALL_SCREEN = Layers((Convolution(16, 8, 4), Convolution(32, 4, 2)), (256,))
"""Of Mnih et al., 2013: a quarter of the work."""
SCREEN_SIDE = 36
"""Images whose sides are not below this are screens, and smaller ones grids of cells: it is what the convolutions for
screens need."""


class TorsoOptions(NamedTuple):
    """What a torso is like, apart from its layers."""

    small: bool = False
    """Whether those for screens are those of Mnih et al., 2013."""
    bfloat16: bool = False
    """Whether it computes in half precision. Parameters stay in single precision, and so do its features."""


def is_screen(observation_shape: Sequence[int]) -> bool:
    """Whether bytes of that shape are taken as fractions of 255, instead of as they are."""
    return len(observation_shape) > 1 and min(observation_shape[:2]) >= SCREEN_SIDE


def layers_for(observation_shape: Sequence[int], *, small: bool = False) -> Layers:
    """Those that suit an observation."""
    if len(observation_shape) != 3 or min(observation_shape[:2]) < GRID_SIDE:
        return VECTOR
    if not is_screen(observation_shape):
        return GRID
    return SMALL_SCREEN if small else SCREEN


class Torso(eqx.Module):
    """From an observation to features: dense layers for vectors; convolutions and a dense layer for images.

    Images are [height, width, channels], as environments give them; of other shapes all numbers make one vector. Bytes
    of screens, with one channel or more, are taken as fractions of 255; those of smaller images are cells, and taken as
    they are. Environments that show anything else in bytes have to make numbers of it.
    """

    convolutions: tuple[eqx.nn.Linear, ...]
    """Of patches: as a matrix product each takes a fraction of the time that XLA's convolution does in a scan."""
    layers: tuple[eqx.nn.Linear, ...]
    patches: tuple[Convolution, ...] = eqx.field(static=True)
    bfloat16: bool = eqx.field(static=True)

    def __init__(self, key: jax.Array, observation_shape: Sequence[int], options: TorsoOptions):
        self.patches, widths = layers_for(observation_shape, small=options.small)
        self.bfloat16 = options.bfloat16
        keys = iter(jax.random.split(key, len(self.patches) + len(widths)))
        convolutions, shape = [], tuple(observation_shape)
        for channels, size, stride in self.patches:
            convolutions.append(eqx.nn.Linear(size * size * shape[2], channels, key=next(keys)))
            shape = (*((side - size) // stride + 1 for side in shape[:2]), channels)
        sizes = (math.prod(shape), *widths)
        self.convolutions = tuple(convolutions)
        self.layers = tuple(eqx.nn.Linear(i, o, key=next(keys)) for i, o in itertools.pairwise(sizes))

    @property
    def width(self) -> int:
        """How many features."""
        return int(self.layers[-1].out_features)

    @property
    def width_before_last(self) -> int:
        """How many inputs the last dense layer has."""
        return int(self.layers[-1].in_features)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, " h"]:
        return self.last(self.before_last(observation))

    def before_last(self, observation: Shaped[Array, "..."]) -> Float[Array, " i"]:
        """All but the last dense layer; for images, convolutions."""
        x = jnp.asarray(observation, self._precision)
        if observation.dtype == jnp.uint8 and is_screen(x.shape):
            x = x / 255
        convolutions, layers = self._cast((self.convolutions, self.layers[:-1]))
        for layer, (_, size, stride) in zip(convolutions, self.patches, strict=True):
            x = jax.nn.relu(linear(layer, patches(x, size, stride)))
        x = x.ravel()
        for layer in layers:
            x = jax.nn.relu(linear(layer, x))
        return x

    def last(self, inputs: Float[Array, "*b i"]) -> Float[Array, "*b h"]:
        """The last dense layer."""
        return jax.nn.relu(linear(self._cast(self.layers[-1]), inputs.astype(self._precision))).astype(jnp.float32)

    @property
    def _precision(self) -> Any:
        return jnp.bfloat16 if self.bfloat16 else jnp.float32

    def _cast(self, layers: Any) -> Any:
        return jax.tree.map(lambda weight: weight.astype(self._precision), layers)


def linear(layer: eqx.nn.Linear, inputs: Float[Array, "*b i"]) -> Float[Array, "*b o"]:
    """A layer applied along the last axis. Inputs come first in the product, or a batch of them would be transposed."""
    return inputs @ layer.weight.T + layer.bias


def patches(image: Float[Array, "h w c"], size: int, stride: int = 1) -> Float[Array, "i j k"]:
    """All ``size`` × ``size`` patches of an image at every ``stride`` pixels, each as one row.

    Blocks of stride × stride pixels are made one pixel with more channels, after which patches are next to each other.
    """
    height, width = ((side - size) // stride + 1 for side in image.shape[:2])
    blocks = size // stride
    rows, columns, channels = height - 1 + blocks, width - 1 + blocks, image.shape[2]
    image = image[: rows * stride, : columns * stride].reshape(rows, stride, columns, stride, channels)
    image = image.transpose(0, 2, 1, 3, 4).reshape(rows, columns, stride * stride * channels)
    moved = [image[i : i + height, j : j + width] for i in range(blocks) for j in range(blocks)]
    return jnp.concatenate(moved, axis=-1)


class HeadedTorso(eqx.Module):
    """``num_outputs`` numbers for each action."""

    torso: Torso
    head: eqx.nn.Linear
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        observation_shape: Sequence[int],
        num_actions: int,
        num_outputs: int,
        options: TorsoOptions,
    ):
        key_torso, key_head = jax.random.split(key)
        self.torso = Torso(key_torso, observation_shape, options)
        self.shape = (num_actions, num_outputs)
        self.head = eqx.nn.Linear(self.torso.width, num_actions * num_outputs, key=key_head)

    def __call__(self, observation: Shaped[Array, "..."]) -> Float[Array, "a k"]:
        return linear(self.head, self.torso(observation)).reshape(self.shape)
