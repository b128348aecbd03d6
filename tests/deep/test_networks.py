"""Networks, against convolutions of JAX's own."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.deep.agents.iqn import QuantileNetwork
from bellsketch.deep.networks import GRID, SCREEN, SMALL_SCREEN, VECTOR, HeadedTorso, Torso, TorsoOptions, layers_for

KEY = jax.random.key(0)
PLAIN = TorsoOptions()

pytestmark = pytest.mark.usefixtures("quick_compiles")


def convolved(torso, image):
    """The features of an image, by convolutions instead of products with patches."""
    x = jnp.asarray(image, jnp.float32)[None]
    for layer, (channels, size, stride) in zip(torso.convolutions, torso.patches, strict=True):
        blocks, depth = size // stride, x.shape[-1]
        # Rows of a patch: blocks, then pixels of a block, then channels.
        kernel = layer.weight.reshape(channels, blocks, blocks, stride, stride, depth)
        kernel = kernel.transpose(1, 3, 2, 4, 5, 0).reshape(size, size, depth, channels)
        x = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
        )
        x = jax.nn.relu(x + layer.bias)
    x = x.ravel()
    for layer in torso.layers:
        x = jax.nn.relu(layer.weight @ x + layer.bias)
    return x


@pytest.mark.parametrize(
    ("shape", "options", "layers"),
    [
        ((84, 84, 4), PLAIN, SCREEN),
        ((84, 84, 4), TorsoOptions(small=True), SMALL_SCREEN),
        ((97, 65, 3), PLAIN, SCREEN),  # sides that no stride divides
        ((10, 10, 6), PLAIN, GRID),
    ],
)
def test_products_with_patches_are_convolutions(shape, options, layers):
    torso = Torso(KEY, shape, options)
    assert layers_for(shape, small=options.small) == layers
    image = np.random.default_rng(0).normal(size=shape)
    found, expected = torso(jnp.asarray(image, jnp.float32)), convolved(torso, image)
    assert expected.shape == (layers.widths[-1],) == (torso.width,)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_vectors_have_dense_layers():
    assert layers_for((7,)) == layers_for((10, 5)) == VECTOR
    assert Torso(KEY, (10, 5), PLAIN)(jnp.ones((10, 5))).shape == (128,)


@pytest.mark.parametrize("shape", [(2, 2, 3), (1, 1, 5), (2, 40, 3), (3, 3, 1)])
def test_small_images_are_seen(shape):
    """A convolution needs three pixels each way."""
    assert layers_for(shape) == (GRID if min(shape[:2]) >= 3 else VECTOR)
    torso = Torso(KEY, shape, PLAIN)
    images = np.random.default_rng(0).normal(size=(2, *shape))
    one, other = (np.asarray(torso(jnp.float32(image))) for image in images)
    assert one.shape == (128,)
    assert not np.array_equal(one, other)


def test_the_published_network():
    """Mnih et al., 2015: as many parameters as is known of it, for four actions."""
    network = HeadedTorso(KEY, (84, 84, 4), 4, 1, PLAIN)
    assert sum(x.size for x in jax.tree.leaves(eqx.filter(network, eqx.is_array))) == 1_686_180


class TestQuantiles:
    """Of IQN."""

    def test_the_published_network(self):
        """DQN's, and an embedding of 64 cosines that is as wide as the output of the convolutions."""
        network = QuantileNetwork(KEY, (84, 84, 4), 4, 64, PLAIN)
        assert sum(x.size for x in jax.tree.leaves(eqx.filter(network, eqx.is_array))) == 1_686_180 + 65 * 3_136

    @pytest.mark.parametrize("shape", [(10, 10, 2), (5,)])
    def test_dense_layers_see_each_level(self, shape):
        network = QuantileNetwork(KEY, shape, 3, 8, PLAIN)
        observation = jnp.float32(np.random.default_rng(0).normal(size=shape))
        levels = jnp.array([0.1, 0.5, 0.9])
        torso = network.torso
        *inner, outer = torso.layers
        inside = convolved(eqx.tree_at(lambda t: t.layers, torso, tuple(inner)), observation)
        for n, level in enumerate(levels):
            cosines = np.cos(np.pi * np.arange(1, 9) * level)
            embedded = np.maximum(network.embedding.weight @ cosines + network.embedding.bias, 0)
            features = np.maximum(outer.weight @ (inside * embedded) + outer.bias, 0)
            expected = network.head.weight @ features + network.head.bias
            np.testing.assert_allclose(network(observation, levels)[:, n], expected, rtol=1e-4, atol=1e-5)

    def test_half_precision(self):
        levels = jnp.linspace(0.1, 0.9, 5)
        whole, half = (QuantileNetwork(KEY, (10, 10, 2), 3, 8, TorsoOptions(bfloat16=b)) for b in (False, True))
        found, expected = (network(jnp.ones((10, 10, 2)), levels) for network in (half, whole))
        assert found.dtype == jnp.float32
        assert 0 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_bytes_of_screens_are_fractions_and_cells_are_not():
    screen, grid = Torso(KEY, (84, 84, 4), PLAIN), Torso(KEY, (10, 10, 4), PLAIN)
    pixels, cells = (np.random.default_rng(0).integers(0, n, s) for n, s in ((256, (84, 84, 4)), (2, (10, 10, 4))))
    np.testing.assert_allclose(screen(jnp.uint8(pixels)), screen(jnp.float32(pixels / 255)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(grid(jnp.uint8(cells)), grid(jnp.float32(cells)))


@pytest.mark.parametrize(("shape", "scale"), [((84, 84), 255), ((10, 5), 1), ((2, 2, 3), 1), ((7,), 1)])
def test_bytes_of_one_grey_screen_are_fractions_too(shape, scale):
    torso, numbers = Torso(KEY, shape, PLAIN), np.random.default_rng(0).integers(0, 256, shape)
    np.testing.assert_allclose(torso(jnp.uint8(numbers)), torso(jnp.float32(numbers / scale)), rtol=1e-5, atol=1e-6)


def test_half_precision():
    screen = jnp.uint8(np.random.default_rng(0).integers(0, 256, (44, 44, 4)))
    whole, half = (HeadedTorso(KEY, (44, 44, 4), 3, 5, TorsoOptions(bfloat16=b)) for b in (False, True))
    for a, b in zip(*(jax.tree.leaves(eqx.filter(n, eqx.is_array)) for n in (whole, half)), strict=True):
        np.testing.assert_array_equal(a, b)
    found, expected = half(screen), whole(screen)
    assert found.dtype == jnp.float32
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 0 < error < 0.02  # of 8 bits
    gradient = eqx.filter_grad(lambda n: n(screen).sum())(half)
    assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(gradient))
