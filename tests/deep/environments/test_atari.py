"""Atari games, against the emulator itself, one frame after the other."""

import ale_py
import jax
import numpy as np
import pytest
from ale_py import roms
from PIL import Image

import bellsketch as bs
from bellsketch.core.errors import InputError
from bellsketch.deep.environments import atari, find_returns, make_environment
from bellsketch.deep.environments.atari import AtariEnvironments, grey_and_small
from bellsketch.deep.environments.games import GAMES
from bellsketch.deep.environments.step import Space

STEPS = 220
"""Enough for a game of Breakout by somebody who only serves, which takes about 150."""


def emulator(name):
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(name))
    return ale


class Slow:
    """One game, by the letter of the protocol; its screens in colour and in grey."""

    def __init__(self, name, noops):
        self.ale = emulator(name)
        self.actions = self.ale.getMinimalActionSet()
        self.start(noops)

    def start(self, noops):
        self.ale.reset_game()
        for _ in range(noops):
            self.ale.act(0)
        self.lives = self.ale.lives()

    def step(self, action):
        """Reward, discount, whether the game is over, and the last two screens, in colour and in grey."""
        reward, screens = 0.0, []
        for i in range(4):
            reward += self.ale.act(self.actions[action])
            if i >= 2:
                screens.append((self.ale.getScreenRGB(), self.ale.getScreenGrayscale()))
            if self.ale.game_over():
                break
        lost, self.lives = self.ale.lives() < self.lives, self.ale.lives()
        over = self.ale.game_over()
        return reward, 0.0 if lost or over else 1.0, over, screens


@pytest.fixture(scope="module")
def games():
    """Steps of Breakout in both modes with the same actions, and those of the emulator."""
    both = {exact: AtariEnvironments("breakout", 2, exact=exact, threads=1) for exact in (True, False)}
    shown = {exact: [environments.reset([3, 4])] for exact, environments in both.items()}
    noops = both[True]._vector.reset(seed=np.array([3, 4]))[1]["episode_frame_number"]
    slow = Slow("breakout", int(noops[0]))
    truth, actions = [], np.random.default_rng(0).integers(0, 4, (STEPS, 2))
    actions[::10] = 1  # a ball is served
    for action in actions:
        for exact, environments in both.items():
            shown[exact].append(environments.step(action))
        truth.append(None if truth and (truth[-1] is None or truth[-1][2]) else slow.step(action[0]))
    for environments in both.values():
        environments.close()
    return shown, [step for step in truth if step is not None]


def test_what_happens_is_what_the_emulator_does(games):
    shown, truth = games
    assert truth[-1][2], "the game was to end"
    for steps in shown.values():
        for step, (reward, discount, over, _) in zip(steps[1:], truth, strict=False):
            assert (step.reward[0], step.discount[0], step.ended[0]) == (reward, discount, over)
            assert not step.first[0]
        after = steps[1 + len(truth)]
        assert after.first[0]
        assert (after.reward[0], after.discount[0], after.ended[0]) == (0.0, 1.0, False)
    lost = [discount == 0 and not over for _, discount, over, _ in truth]
    assert sum(lost) == 4  # of five lives, the last of which ends the game
    assert sum(reward for reward, *_ in truth) > 0


def test_screens_are_the_larger_of_two_in_colour(games):
    shown, truth = games
    for step, (*_, screens) in zip(shown[True][1:], truth[:-1], strict=False):
        np.testing.assert_array_equal(step.observation[0], np.maximum(screens[0][0], screens[1][0]))


def areas(image, side=84):
    """The mean over the area of each pixel of the result."""

    def weights(size):
        edges = np.arange(side + 1) * size / side
        low, high = np.arange(size), np.arange(1, size + 1)
        overlap = np.minimum(edges[1:, None], high) - np.maximum(edges[:-1, None], low)
        return np.maximum(overlap, 0) * side / size

    return weights(image.shape[0]) @ image @ weights(image.shape[1]).T


def test_fast_frames_are_pooled_in_grey_and_averaged(games):
    shown, truth = games
    for index in range(0, len(truth) - 1, 20):
        grey = np.maximum(*(screen for _, screen in truth[index][-1])).astype(float)
        assert np.abs(shown[False][1 + index].observation[0] - areas(grey)).max() <= 0.51


def test_exact_frames_are_those_of_pillow(games):
    """Which the authors' code uses."""
    shown, _ = games
    screens = np.stack([step.observation[0] for step in shown[True][::20]])
    frames = np.asarray(jax.jit(grey_and_small)(screens))
    for screen, frame in zip(screens, frames, strict=True):
        grey = (screen @ np.array([0.299, 0.587, 1 - (0.299 + 0.587)])).astype(np.uint8)
        expected = np.asarray(Image.fromarray(grey).resize((84, 84), Image.Resampling.BILINEAR))
        assert np.abs(frame.astype(int) - expected).max() <= 1  # it rounds in between
    assert frames.dtype == np.uint8


def test_how_far_the_modes_are_apart(games):
    """Stated in the documentation."""
    shown, _ = games
    exact = np.asarray(jax.jit(grey_and_small)(np.stack([step.observation for step in shown[True]])))
    fast = np.stack([step.observation for step in shown[False]])
    difference = np.abs(exact.astype(float) - fast)
    assert difference.mean() == pytest.approx(1.0, abs=0.3)


def test_games_that_have_played_start_like_new_ones():
    """Even if an episode had just ended: evaluations keep their games."""
    actions = np.random.default_rng(0).integers(0, 4, (1_000, 3))
    old, new = (AtariEnvironments("breakout", 3, threads=2) for _ in range(2))
    old.reset([7, 8, 9])
    assert any(old.step(action).ended.any() for action in actions)
    jax.tree.map(np.testing.assert_array_equal, *(games.reset([1, 2, 3]) for games in (old, new)))
    for action in actions[:300]:
        jax.tree.map(np.testing.assert_array_equal, *(games.step(action) for games in (old, new)))
    for games in (old, new):
        games.close()


def noops(num_resets):
    """How many each of four environments had, so many times."""
    environments = AtariEnvironments("pong", 4, threads=2)
    for seed in range(num_resets):
        seeds = np.random.SeedSequence(seed).generate_state(4)
        yield from environments._vector.reset(seed=seeds % 2**31)[1]["episode_frame_number"].tolist()
    environments.close()


def test_noops_differ():
    drawn = set(noops(6))
    assert drawn <= set(range(31))
    assert len(drawn) > 10
    assert max(drawn) > 20


@pytest.mark.slow
def test_noops():
    """Thirty at most; ALE may draw none, where the authors' code takes at least one."""
    drawn = set(noops(30))
    assert drawn <= set(range(31))
    assert {0, 30} <= drawn
    assert len(drawn) > 25


def test_an_episode_that_is_cut_off_goes_on_in_what_is_learnt(monkeypatch):
    monkeypatch.setattr(atari, "MAX_FRAMES", 100)
    environments = AtariEnvironments("pong", 2, threads=1)
    environments.reset(0)
    steps = [environments.step(np.zeros(2, int)) for _ in range(30)]
    environments.close()
    ended = np.array([step.ended for step in steps])
    assert ended.any(axis=0).all()
    assert np.all(np.array([step.discount for step in steps]) == 1.0)
    np.testing.assert_array_equal(np.array([step.first for step in steps])[1:], ended[:-1])


def test_screens_of_another_size_are_not_exact(monkeypatch):
    """None of the paper's games has one."""
    monkeypatch.setattr(atari, "GAMES", (*GAMES, "air_raid"))
    with pytest.raises(InputError, match=r"exact=True: screens of 'air_raid' are 250 × 160, .* leave it out"):
        AtariEnvironments("air_raid", exact=True)
    AtariEnvironments("air_raid", threads=1).close()


def test_the_papers_time_limit():
    assert atari.MAX_FRAMES == 108_000  # half an hour
    assert AtariEnvironments("pong", threads=1).max_episode_steps == 27_000


@pytest.mark.slow
def test_all_games():
    assert len(set(GAMES)) == 57
    for name in GAMES:
        assert emulator(name).getScreenDims() == atari.SCREEN


def test_by_name():
    environments = make_environment("space_invaders", 3, options={"exact": True, "threads": 1})
    assert environments.space == Space((84, 84), np.uint8, 6, 4, (210, 160, 3), grey_and_small)
    assert environments.space.observation_shape == (84, 84, 4)
    environments.reset(0)
    assert environments.render().shape == (210, 160, 3)
    assert environments.save() is None
    environments.close()
    with pytest.raises(InputError, match="call reset"):
        environments.step(np.zeros(3, int))


@pytest.mark.parametrize(
    ("actions", "message"), [([0, 6], r"actions=\[0, 6\]: must be at least 0 and below 6"), ([0], r"of shape \(1,\)")]
)
def test_actions_that_there_are_not(actions, message):
    """For those ALE would wait for ever."""
    environments = AtariEnvironments("pong", 2)
    environments.reset(0)
    with pytest.raises(InputError, match=message):
        environments.step(np.array(actions))
    assert environments.step(np.array([5, 0])).reward.tolist() == [0, 0]


def test_episodes_are_as_their_seeds():
    environments = AtariEnvironments("pong", 4, threads=2)

    def played(seed):
        environments.reset(seed)
        return np.stack([environments.step(np.zeros(4, int)).observation for _ in range(40)])

    first, second, other = played(0), played(0), played(1)
    environments.close()
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


class TestReturns:
    def environment(self):
        return AtariEnvironments("pong", threads=1)

    def test_are_those_of_published_agents(self):
        found = find_returns(self.environment(), 0.99, reward_clip=1.0)
        assert (found.low, found.high, found.rewards) == (-10.0, 10.0, (-1.0, 0.0, 1.0))

    def test_without_clipping_they_must_be_given(self):
        with pytest.raises(
            InputError, match=r"reward_clip=None: rewards of 'pong' can be of any size.*--reward-interv"
        ):
            find_returns(self.environment(), 0.99)
        with pytest.raises(InputError, match="reward_clip=None"):  # a list would not hold for long
            find_returns(self.environment(), 0.99, rewards=(-1.0, 0.0, 1.0))
        for clip, rewards in ((1_000.0, (-1.0, 0.0, 1.0)), (1.0, (0.0, 0.5)), (1.0, ())):
            with pytest.raises(InputError, match=rf"reward_clip={clip}: .* up to that, and rewards=\[.*would not list"):
                find_returns(self.environment(), 0.99, rewards=rewards, reward_clip=clip)
        listed = find_returns(self.environment(), 0.99, rewards=(-2.0, -1.0, 0.0, 1.0, 2.0), reward_clip=2.0)
        assert listed.rewards == (-2.0, -1.0, 0.0, 1.0, 2.0)
        given = find_returns(self.environment(), 0.99, reward_interval=(-1.0, 1.0), low=-9.0, high=8.0)
        assert (given.low, given.high, given.rewards) == (-9.0, 8.0, None)

    def test_other_rewards_are_clipped_too(self):
        found = find_returns(make_environment("gym:CliffWalking-v1"), 0.9, reward_clip=10.0)
        assert (found.rewards, found.low) == ((-10.0, -1.0), pytest.approx(-100.0))
        assert "clipped to 10" in found.source
        cart = find_returns(make_environment("CartPole-v1"), 0.99, reward_clip=0.5)
        assert (cart.rewards, cart.reward_interval) == ((0.5,), (0.5, 0.5))
        assert cart.high == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "pogn"}, "unknown Atari game 'pogn'. Did you mean 'pong'"),
        ({"num_environments": 0}, "num_environments=0"),
        ({"frame_skip": 0}, "frame_skip=0"),
        ({"threads": -1}, "threads=-1"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(bs.BellsketchError, match=message):
        AtariEnvironments(**{"name": "pong", **arguments})
