"""Known facts against random play, and what random play finds where nothing is known."""

import dataclasses
import functools

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from bellsketch.core.errors import InputError
from bellsketch.deep.environments import HostEnvironments, make_native
from bellsketch.deep.environments.atari import AtariEnvironments
from bellsketch.deep.environments.facts import HOST_FACTS, MINATAR_HIGH, NATIVE_FACTS
from bellsketch.deep.environments.returns import find_returns, random_rewards

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:gymnasium", "ignore::DeprecationWarning:gymnasium")

DISCOUNT = 0.97
FAST = {"CartPole-v1", "MountainCar-v0", "Catch-bsuite", "DeepSea-bsuite", "DiscountingChain-bsuite"}
"""The others take seconds each to compile."""
DOWNLOADS = {"MNISTBandit-bsuite"}


def play_native(environment, num_environments, num_steps, seed=0):
    """first, reward, ended: [time, environment]."""

    def advance(carry, key):
        key_action, key_step = jax.random.split(key)
        action = jax.random.randint(key_action, (num_environments,), 0, environment.space.num_actions)
        carry = jax.vmap(environment.step)(jax.random.split(key_step, num_environments), *carry, action)
        return carry, (carry[1].first, carry[1].reward, carry[1].ended)

    @jax.jit
    def play(key):
        key_reset, key_steps = jax.random.split(key)
        start = jax.vmap(environment.reset)(jax.random.split(key_reset, num_environments))
        return jax.lax.scan(advance, start, jax.random.split(key_steps, num_steps))[1]

    return tuple(map(np.asarray, play(jax.random.key(seed))))


def play_host(environments, num_steps, seed=0):
    """The same on the host."""
    rng = np.random.default_rng(seed)
    environments.reset(seed)
    actions = rng.integers(0, environments.space.num_actions, (num_steps, environments.num_environments))
    steps = [environments.step(action) for action in actions]
    return tuple(np.stack([getattr(step, name) for step in steps]) for name in ("first", "reward", "ended"))


def all_returns(reward, ended):
    """Discounted returns from every step of an episode, as far as play went."""
    following, found = np.zeros(reward.shape[1]), []
    for t in reversed(range(len(reward))):
        following = reward[t] + DISCOUNT * np.where(ended[t], 0.0, following)
        found.append(following)
    return np.concatenate(found)


def agrees(returns, first, reward, ended):
    paid = reward[~first]
    if returns.rewards is None:
        assert np.all((paid >= returns.reward_interval[0]) & (paid <= returns.reward_interval[1]))
    else:  # to the last bit: agents look rewards up
        assert set(np.unique(paid)) <= set(np.float32(returns.rewards))
    assert returns.reward_interval[0] <= paid.min() <= paid.max() <= returns.reward_interval[1] + 1e-6
    found = all_returns(reward, ended)
    assert returns.low - 1e-5 <= found.min()
    assert found.max() <= returns.high + 1e-5
    assert returns.low <= 0 <= returns.high


@functools.cache
def native(name):
    return make_native(name)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in sorted({*NATIVE_FACTS} - DOWNLOADS)],
)
def test_facts_of_gymnax_hold_in_random_play(name):
    returns = find_returns(native(name), DISCOUNT)
    assert name in returns.source
    first, reward, ended = play_native(native(name), 64, 600)
    agrees(returns, first, reward, ended)
    if name not in ("Seaquest-MinAtar",) and returns.rewards is not None:  # its divers need skill
        assert set(np.unique(reward[~first])) == set(np.float32(returns.rewards))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HOST_FACTS))
def test_facts_of_gymnasium_hold_in_random_play(name):
    environments = HostEnvironments(name, 8)
    returns = find_returns(environments, DISCOUNT)
    assert name in returns.source
    first, reward, ended = play_host(environments, 600)
    agrees(returns, first, reward, ended)


def test_bounds_of_facts_by_hand():
    def of(name, discount=0.99):
        returns = find_returns(native(name), discount)
        return returns.low, returns.high

    assert of("CartPole-v1") == pytest.approx((0, 100))  # the time limit is not the end, where agents bootstrap
    assert of("CartPole-v1", 1.0) == (0, 500)
    assert of("Catch-bsuite") == of("MemoryChain-bsuite", 1.0) == (-1, 1)
    assert of("MountainCar-v0") == pytest.approx((-100, 0))
    assert of("UmbrellaChain-bsuite", 1.0) == (-10, 10)
    assert of("FrozenLake-misc") == of("SimpleBandit-bsuite") == (0, 1)
    taxi = find_returns(HostEnvironments("Taxi-v4"), 1.0)
    assert (taxi.low, taxi.high, taxi.rewards) == (-2000, 20, (-10, -1, 20))


def test_minatar_has_measured_bounds():
    for name, high in MINATAR_HIGH.items():
        returns = find_returns(native(name), 0.99)
        assert (returns.low, returns.high) == (0, high)
        assert "measured" in returns.source


def test_measured_bounds_at_other_discounts_by_hand():
    """A range at 0.99 is one of 100 steps' rewards; at 0.999 there are ten times as many, at 0.995 twice."""
    game = native("Breakout-MinAtar")
    for discount, high in ((0.5, 20), (0.99, 20), (0.995, 40), (0.999, 200)):
        returns = find_returns(game, discount)
        assert (returns.low, returns.high) == pytest.approx((0, high))
        assert ("widened" in returns.source) == (discount > 0.99)
    assert "highest return as measured at discount 0.99, widened 10 times for 0.999" in returns.source
    given = find_returns(game, 0.999, high=50)
    assert (given.low, given.high) == (0, 50)
    assert "measured" not in given.source


def test_measured_bounds_are_widened_by_enough():
    """The tightest case: a reward of 0.2 on every step is a return of 20 at every step of an endless episode."""
    steps = np.arange(20_000)
    assert (0.2 * 0.99**steps).sum() == pytest.approx(find_returns(native("Breakout-MinAtar"), 0.99).high)
    assert (0.2 * 0.999**steps).sum() == pytest.approx(find_returns(native("Breakout-MinAtar"), 0.999).high)


def test_measured_bounds_without_a_discount_must_be_given():
    game = native("Breakout-MinAtar")
    with pytest.raises(
        InputError, match=r"is for discount 0\.99 .* at discount 1\.0; pass low.*--return-low, --return-h"
    ):
        find_returns(game, 1.0)
    with pytest.raises(InputError, match="--return-high"):
        find_returns(game, 1.0, low=-1)
    given = find_returns(game, 1.0, high=300)
    assert (given.low, given.high) == (0, 300)


def test_the_published_range_at_other_discounts():
    pong = AtariEnvironments("pong", threads=1)
    for discount, high in ((0.9, 10), (0.99, 10), (0.999, 100)):
        returns = find_returns(pong, discount, reward_clip=1.0)
        assert (returns.low, returns.high) == pytest.approx((-high, high))
    assert "published agents take them at discount 0.99, widened 10 times for 0.999" in returns.source
    with pytest.raises(InputError, match=r"discount 1\.0; pass low and high"):
        find_returns(pong, 1.0, reward_clip=1.0, low=-5)
    given = find_returns(pong, 1.0, reward_clip=1.0, low=-21, high=21)
    assert (given.low, given.high) == (-21, 21)


@pytest.mark.slow
def test_the_most_that_seaquest_can_pay_at_once():
    sea = native("Seaquest-MinAtar")
    _, state = sea.environment.reset_env(jax.random.key(0), sea.parameters)
    state = state.replace(
        oxygen=jnp.array(199),
        sub_y=jnp.array(1),
        surface=jnp.array(False),
        diver_count=jnp.array(6),
        f_bullets=state.f_bullets.at[:2].set(jnp.array([[2, 4, 1], [7, 6, 1]])),
        f_bullet_count=jnp.array(2),
        e_fish=state.e_fish.at[0].set(jnp.array([3, 4, 0, 5])),
        e_fish_count=jnp.array(1),
        e_subs=state.e_subs.at[0].set(jnp.array([8, 6, 0, 5, 9])),
        e_subs_count=jnp.array(1),
    )
    up = 2
    _, _, reward, _, _ = sea.environment.step_env(jax.random.key(0), state, up, sea.parameters)
    assert reward == max(find_returns(sea, 0.99).rewards) == 11


def test_time_limits_are_those_of_the_environment():
    short = HostEnvironments("CartPole-v1", options={"max_episode_steps": 20})
    assert find_returns(short, 1.0).high == 20
    endless = HostEnvironments("CartPole-v1", options={"max_episode_steps": -1})
    assert find_returns(endless, 0.9).high == pytest.approx(10)
    pole = native("CartPole-v1")
    shorter = dataclasses.replace(pole, parameters=pole.parameters.replace(max_steps_in_episode=7))
    assert find_returns(shorter, 1.0).high == 7


def test_facts_are_of_default_parameters():
    lake = HostEnvironments("FrozenLake-v1", options={"reward_schedule": (5, -3, -1), "is_slippery": False})
    returns = find_returns(lake, 0.9)
    assert "random" in returns.source
    assert {-3, -1} <= set(returns.rewards)
    maze = native("MetaMaze-misc")
    walls = dataclasses.replace(maze, parameters=maze.parameters.replace(punishment=-2.0))
    assert set(find_returns(walls, 0.9).rewards) == {-2, 0, 10}
    sea = gymnax.environments.bsuite.DeepSea(size=5)
    small = dataclasses.replace(native("DeepSea-bsuite"), environment=sea, parameters=sea.default_params)
    assert find_returns(small, 0.9).rewards == tuple(map(float, np.float32([-0.002, 0, 0.998])))


def test_probe_lists_few_rewards():
    toy = HostEnvironments(
        "toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": (-0.5, 0.0, 2.0)}
    )
    returns = find_returns(toy, 0.9)
    assert returns.rewards == (-0.5, 0.0, 2.0)
    assert (returns.low, returns.high) == pytest.approx((-5, 20))
    assert "random" in returns.source
    tenths = HostEnvironments("toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": (0.1, 0.3)})
    assert find_returns(tenths, 0.5).rewards == (float(np.float32(0.1)), float(np.float32(0.3)))  # as they are paid
    assert find_returns(tenths, 0.5).low == 0


def test_probe_widens_an_interval():
    toy = HostEnvironments(
        "toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": lambda rng: rng.uniform(1, 2)}
    )
    returns = find_returns(toy, 0.5)
    assert returns.rewards is None
    assert returns.reward_interval == pytest.approx((0.75, 2.25), abs=0.01)
    assert (returns.low, returns.high) == pytest.approx((0, 4.5), abs=0.02)
    bandit = find_returns(native("GaussianBandit-misc"), DISCOUNT)
    agrees(bandit, *play_native(native("GaussianBandit-misc"), 16, 200, seed=1))
    few = HostEnvironments(
        "toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": (0.1, 1.0, 0.7071)}
    )
    assert find_returns(few, 0.5).rewards is None  # few, but not multiples: more may follow


def test_probe_leaves_an_environment_alone():
    toy = HostEnvironments("toy_environments:Counter-v0")
    toy.reset(0)
    find_returns(toy, 0.9)
    np.testing.assert_array_equal(toy.step(np.array([1])).observation, [[1, 1, 3]])


def test_the_start_of_an_episode_pays_nothing():
    toy = HostEnvironments("toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": (3.0,)})
    np.testing.assert_array_equal(random_rewards(toy, 0), [3.0])


def test_what_is_given_wins():
    pole = native("CartPole-v1")
    returns = find_returns(pole, 0.99, low=-1, high=50)
    assert (returns.low, returns.high, returns.rewards) == (-1, 50, (1.0,))
    assert find_returns(pole, 0.99, high=50).low == 0
    clipped = find_returns(pole, 0.9, rewards=[0.5, -0.5])
    assert (clipped.rewards, clipped.reward_interval) == ((-0.5, 0.5), (-0.5, 0.5))
    assert (clipped.low, clipped.high) == pytest.approx((-5, 5))
    spread = find_returns(pole, 0.9, reward_interval=(0, 2))
    assert (spread.rewards, spread.reward_interval, spread.low) == (None, (0, 2), 0)
    assert spread.high == pytest.approx(20)
    assert "given" in spread.source


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rewards": []}, "rewards"),
        ({"rewards": [np.inf]}, "finite"),
        ({"rewards": [3.0], "reward_interval": (0, 1)}, "pass one of the two"),
        ({"reward_interval": (1, 0)}, "smaller first"),
        ({"low": 3.0, "high": 1.0}, "low < high"),
        ({"rewards": [0.0]}, "low < high"),
    ],
)
def test_what_makes_no_sense(options, message):
    with pytest.raises(InputError, match=message):
        find_returns(native("CartPole-v1"), 0.9, **options)


def test_endless_sums_need_a_range():
    cliff = HostEnvironments("CliffWalking-v1")
    with pytest.raises(InputError, match=r"unbounded return range with no range given.*--return-low"):
        find_returns(cliff, 1.0)
    assert find_returns(cliff, 1.0, low=-500).high == 0
    toy = HostEnvironments("toy_environments:Shows-v0", options={"space": spaces.Discrete(2)})
    with pytest.raises(InputError, match="unbounded return range"):
        find_returns(toy, 1.0)
    with pytest.raises(InputError, match=r"discount=1\.5"):
        find_returns(toy, 1.5)
    nothing = HostEnvironments("toy_environments:Shows-v0", options={"space": spaces.Discrete(2), "rewards": (0.0,)})
    with pytest.raises(InputError, match="--return-low"):
        find_returns(nothing, 0.9)
