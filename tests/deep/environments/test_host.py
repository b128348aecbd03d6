"""Environments on the host, against playing each of them alone."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import toy_environments
from bellsketch.core.errors import BellsketchWarning, InputError
from bellsketch.deep.environments.host import HostEnvironments
from bellsketch.deep.environments.step import Space, Step
from bellsketch.deep.networks import Torso, TorsoOptions
from bellsketch.deep.replay import Row, empty_replay

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")  # it checks toys with much care


def alone(name, seed, actions, **options):
    """Rows of one environment in a plain loop: observation, first, reward, discount, ended."""
    environment = gymnasium.make(name, **options)
    observation, _ = environment.reset(seed=seed)
    rows, ended = [(observation, True, 0.0, 1.0, False)], False
    for action in actions:
        if ended:
            observation, _ = environment.reset()
            ended = False
            rows.append((observation, True, 0.0, 1.0, False))
        else:
            observation, reward, terminated, truncated, _ = environment.step(action)
            ended = terminated or truncated
            rows.append((observation, False, reward, float(not terminated), ended))
    return rows


def play(environments, actions, seed=7):
    """All steps stacked: [time, environment, …]."""
    steps = [environments.reset(seed), *(environments.step(action) for action in actions)]
    return Step(*map(np.stack, zip(*steps, strict=True)))


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def some_actions(num_steps, num_environments, num_actions=4, seed=3):
    return np.random.default_rng(seed).integers(0, num_actions, (num_steps, num_environments))


def test_rows_of_an_episode_that_terminates_by_hand():
    step = play(HostEnvironments("Counter-v0"), np.array([[1], [2], [3], [0], [1]]))
    np.testing.assert_array_equal(
        step.observation[:, 0, :2],
        [[1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1]],  # the last of the first episode, then the second's first
    )
    np.testing.assert_array_equal(step.reward[:, 0], [0, 1, 12, 23, 0, 1])
    np.testing.assert_array_equal(step.discount[:, 0], [1, 1, 1, 0, 1, 1])
    np.testing.assert_array_equal(step.first[:, 0], [True, False, False, False, True, False])
    np.testing.assert_array_equal(step.ended[:, 0], [False, False, False, True, False, False])
    assert step.reward.dtype == step.discount.dtype == step.observation.dtype == np.float32


def test_rows_of_an_episode_that_is_cut_off_by_hand():
    environments = HostEnvironments("CutOff-v0")
    assert environments.max_episode_steps == 4
    step = play(environments, np.array([[1], [2], [3], [0], [1], [2]]))
    np.testing.assert_array_equal(step.observation[:, 0, :2], [[1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [2, 0], [2, 1]])
    np.testing.assert_array_equal(step.reward[:, 0], [0, 1, 12, 23, 30, 0, 2])
    np.testing.assert_array_equal(step.discount[:, 0], np.ones(7))
    np.testing.assert_array_equal(np.flatnonzero(step.ended), [4])
    np.testing.assert_array_equal(np.flatnonzero(step.first), [0, 5])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Counter-v0", {"shortest": 1, "longest": 5}),
        ("CutOff-v0", {}),
        ("Mixed-v0", {}),
        ("CartPole-v1", {}),
        ("CartPole-v1", {"max_episode_steps": 15}),
        ("FrozenLake-v1", {}),
    ],
)
def test_each_of_several_environments_is_as_if_alone(name, options):
    environments = HostEnvironments(name, 5, options=options)
    actions = some_actions(60, 5, environments.space.num_actions)
    step = play(environments, actions)
    assert len({tuple(np.flatnonzero(ended)) for ended in step.ended.T}) > 1 or name == "CutOff-v0"
    seeds = np.random.SeedSequence(7).generate_state(5)
    for e in range(5):
        rows = alone(name, int(seeds[e]), actions[:, e], **options)
        for t, (observation, first, reward, discount, ended) in enumerate(rows):
            if name == "FrozenLake-v1":
                observation = np.eye(16)[observation]
            np.testing.assert_array_equal(step.observation[t, e], np.float32(observation))
            assert (step.first[t, e], step.ended[t, e]) == (first, ended)
            assert (step.reward[t, e], step.discount[t, e]) == (np.float32(reward), discount)


def test_replay_holds_true_transitions_only():
    environments = HostEnvironments("Mixed-v0", 3)
    actions = some_actions(50, 3)
    step = play(environments, actions)
    replay = empty_replay(64, 3, environments.space.frame_shape, environments.space.frame_dtype)
    insert = jax.jit(lambda memory, row: memory.insert(row))
    for t in range(50):
        row = (step.observation[t], step.first[t], ~step.ended[t], actions[t], step.reward[t + 1], step.discount[t + 1])
        replay = insert(replay, Row(*map(jnp.asarray, row)))

    true = set()
    for e, seed in enumerate(np.random.SeedSequence(7).generate_state(3)):
        rows = alone("Mixed-v0", int(seed), actions[:, e])
        for t in range(49):
            if not rows[t][4]:
                _, _, reward, discount, _ = rows[t + 1]
                true.add((*rows[t][0], actions[t, e], reward, discount, *rows[t + 1][0]))
    batch, weight = jax.jit(lambda memory, key: memory.sample(key, 3000, 1.0))(replay, jax.random.key(0))
    columns = (batch.observation, batch.action, batch.reward, batch.discount, batch.next_observation)
    table = np.concatenate([np.asarray(c).reshape(3000, -1) for c in columns], axis=1)[np.asarray(weight) > 0]
    sampled = set(map(tuple, table.tolist()))
    assert sampled == {tuple(map(float, row)) for row in true}

    episode, time, length, _, reward, discount, next_episode, next_time, _ = np.array(sorted(sampled)).T
    np.testing.assert_array_equal(next_episode, episode)
    np.testing.assert_array_equal(next_time, time + 1)
    np.testing.assert_array_equal(reward // 10, time)
    np.testing.assert_array_equal(discount == 0, next_time == length)
    assert np.any((next_time == 4) & (discount == 1))  # cut off, and goes on from the last observation


@pytest.mark.parametrize("name", ["Mixed-v0", "Counter-v0", "CartPole-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("when", [0, 1, 3, 4, 5, 17])
def test_a_restored_run_goes_on_exactly(name, when):
    options = {"shortest": 1, "longest": 5} if name == "Counter-v0" else {}
    environments = HostEnvironments(name, 3, options=options)
    actions = some_actions(60, 3, environments.space.num_actions)
    last = environments.reset(11)
    for action in actions[:when]:
        last = environments.step(action)
    state = environments.save()
    after = [environments.step(action) for action in actions[when:]]
    assert np.any([step.first for step in after])

    for other in (HostEnvironments(name, 3, options=options), environments):  # a new one, and one in mid-run
        same(other.restore(state), last)
        for action, expected in zip(actions[when:], after, strict=True):
            same(other.step(action), expected)


def test_saving_changes_nothing():
    actions = some_actions(40, 2)
    one, other = HostEnvironments("Mixed-v0", 2), HostEnvironments("Mixed-v0", 2)
    same(one.reset(5), other.reset(5))
    for action in actions:
        other.save()
        same(one.step(action), other.step(action))


@pytest.mark.parametrize("name", ["Locked-v0", "Forgetful-v0"])
def test_what_cannot_be_saved_says_so(name):
    environments = HostEnvironments(name, 2)
    environments.reset(0)
    with pytest.warns(BellsketchWarning, match=f"{name}.*new episodes"):
        assert environments.save() is None
    assert environments.step(np.array([0, 1])).reward[1] == 1  # and goes on


def test_states_are_for_the_same_environments():
    environments = HostEnvironments("Counter-v0", 2)
    environments.reset(0)
    state = environments.save()
    with pytest.raises(InputError, match="2 'Counter-v0' for 3"):
        HostEnvironments("Counter-v0", 3).restore(state)
    with pytest.raises(InputError, match="'CutOff-v0'"):
        HostEnvironments("CutOff-v0", 2).restore(state)


def test_seeds():
    environments = HostEnvironments("CartPole-v1", 2)
    one, again, other = environments.reset(0), environments.reset(0), environments.reset(1)
    same(one, again)
    shown = np.concatenate([one.observation, other.observation])
    assert len(np.unique(shown, axis=0)) == 4  # no environment of one seed is one of the next


@pytest.mark.slow
def test_processes_do_the_same():
    actions = some_actions(30, 2)
    here, there = HostEnvironments("Mixed-v0", 2), HostEnvironments("Mixed-v0", 2, asynchronous=True)
    try:
        same(here.reset(2), there.reset(2))
        for action in actions[:12]:
            same(here.step(action), there.step(action))
        state = there.save()
        after = [there.step(action) for action in actions[12:]]
        for environments in (here, there):
            environments.restore(state)
            for action, expected in zip(actions[12:], after, strict=True):
                same(environments.step(action), expected)
    finally:
        there.close()


def test_actions_may_start_anywhere():
    step = play(HostEnvironments("Counter-v0", options={"start": 5}), np.array([[0], [3]]))
    np.testing.assert_array_equal(step.reward[:, 0], [0, 0, 13])


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (spaces.Box(0, 1, (4, 4, 3), np.uint8), (4, 4, 3), np.uint8),
        (spaces.Box(0, 1, (40, 40, 2), np.uint8), (40, 40, 2), np.float32),
        (spaces.Box(0, 255, (40, 50), np.uint8), (40, 50), np.uint8),
        (spaces.Box(0, 255, (40, 50, 3), np.uint8), (40, 50, 3), np.uint8),
        (spaces.Box(-1, 1, (2,), np.float64), (2,), np.float32),
        (spaces.Box(-1, 1, (), np.float32), (1,), np.float32),
        (spaces.Box(0, 9, (2, 2), np.int64), (2, 2), np.float32),
        (spaces.Discrete(5, start=-2), (5,), np.float32),
        (spaces.MultiBinary(3), (3,), np.float32),
        (spaces.MultiDiscrete([2, 3]), (5,), np.float32),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2,))]), (4,), np.float32),
        (spaces.Dict(a=spaces.Discrete(2), b=spaces.Dict(c=spaces.MultiBinary(2))), (4,), np.float32),
    ],
)
def test_observations_become_boxes(space, shape, dtype):
    environments = HostEnvironments("Shows-v0", 2, options={"space": space})
    assert environments.space == Space(shape, dtype, 2)
    for step in (environments.reset(0), environments.step(np.array([0, 1]))):
        assert step.observation.shape == (2, *shape)
        assert step.observation.dtype == dtype
    alone = toy_environments.Shows(space)
    observation, _ = alone.reset(seed=int(np.random.SeedSequence(0).generate_state(2)[0]))
    flat = spaces.flatten(space, observation)
    np.testing.assert_array_equal(environments.reset(0).observation[0].ravel(), flat.astype(dtype))


@pytest.mark.parametrize(
    ("shape", "high", "divisor"),
    [
        *((shape, high, high) for shape in [(128,), (10, 5), (84, 84), (84, 84, 4)] for high in (1, 255)),
        *(((7, 7, 3), high, 1) for high in (1, 255)),
    ],
)
def test_networks_see_bytes_as_fractions_of_255_unless_they_are_bounded_or_cells(shape, high, divisor):
    space = spaces.Box(0, high, shape, np.uint8)
    environments = HostEnvironments("Shows-v0", 2, options={"space": space})
    seeds = np.random.SeedSequence(0).generate_state(2)
    shown, _ = toy_environments.Shows(space).reset(seed=int(seeds[0]))
    torso = Torso(jax.random.key(0), shape, TorsoOptions())
    found = torso(jnp.asarray(environments.reset(0).observation[0]))
    np.testing.assert_allclose(found, torso(jnp.float32(shown) / divisor), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "wanted"), [((4, 84, 84), "(84, 84, 4)"), ((3, 40, 60), "(40, 60, 3)"), ((4, 96, 96, 3), "(96, 96, 12)")]
)
def test_frames_and_channels_come_last(shape, wanted):
    space = spaces.Box(0, 255, shape, np.uint8)
    with pytest.raises(InputError, match="TransformObservation") as caught:
        HostEnvironments("Shows-v0", options={"space": space})
    assert f"'Shows-v0' has observations of shape {shape}" in str(caught.value)
    assert f"the last axis, as in {wanted}" in str(caught.value)


@pytest.mark.parametrize("space", [spaces.Sequence(spaces.Discrete(2)), spaces.Tuple([spaces.Text(3)])])
def test_observations_that_are_not_numbers(space):
    with pytest.raises(InputError, match="MultiDiscrete"):
        HostEnvironments("Shows-v0", options={"space": space})


@pytest.mark.parametrize("actions", [spaces.Box(0, 1, (1,)), spaces.MultiDiscrete([2, 2])])
def test_actions_that_are_not_a_choice(actions):
    with pytest.raises(InputError, match="finitely many"):
        HostEnvironments("Shows-v0", options={"space": spaces.Discrete(2), "action_space": actions})


def test_misuse():
    environments = HostEnvironments("Counter-v0", 2)
    with pytest.raises(InputError, match="reset"):
        environments.step(np.array([0, 0]))
    with pytest.raises(InputError, match="reset"):
        environments.save()
    environments.reset(0)
    with pytest.raises(InputError, match="one for each of 2"):
        environments.step(np.array([0]))
    with pytest.raises(InputError, match="num_environments=0"):
        HostEnvironments("Counter-v0", 0)


def test_images_are_of_the_first():
    environments = HostEnvironments("Counter-v0", 2, render=True)
    play(environments, some_actions(2, 2))
    np.testing.assert_array_equal(environments.render(), np.full((4, 5, 3), 2, np.uint8))
    assert HostEnvironments("Counter-v0").render() is None
