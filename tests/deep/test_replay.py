"""Replay against a list of whole transitions, kept step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bellsketch.deep.groups import Group
from bellsketch.deep.replay import Replay, Row, empty_replay

DISCOUNT = 0.9


def play(seed, num_rows, num_environments, capacity, stack, groups=1, parts=0):
    """Random episodes that terminate or are cut off, into a replay and into plain lists, one for each environment.

    A list holds (frame, first, acted, action, reward, discount) of every row. After those, so many groups write their
    part of one more.
    """
    rng = np.random.default_rng(seed)
    replay = empty_replay(capacity, num_environments, (2,), np.uint8, stack)
    first, ended = np.ones(num_environments, bool), np.zeros(num_environments, bool)
    history = [[] for _ in range(num_environments)]
    insert = jax.jit(lambda memory, row, group: memory.insert(row, group))
    for t in range(num_rows + (parts > 0)):
        frame = np.stack([np.array([t % 250 + 1, e + 1], np.uint8) for e in range(num_environments)])
        action, reward = rng.integers(0, 3, num_environments), rng.integers(-1, 2, num_environments).astype(np.float32)
        acted = ~ended
        terminated = acted & (rng.random(num_environments) < 0.15)
        cut_off = acted & ~terminated & (rng.random(num_environments) < 0.1)
        discount = np.where(terminated, 0.0, 1.0).astype(np.float32)
        row = Row(*(jnp.asarray(x) for x in (frame, first, acted, action, reward, discount)))
        for i in range(groups if t < num_rows else parts):
            replay = insert(replay, jax.tree.map(lambda x, i=i: x[i::groups], row), Group(i, groups))
        for e in range(num_environments if t < num_rows else 0):
            history[e].append((frame[e], first[e], acted[e], action[e], reward[e], discount[e]))
        first, ended = ended, terminated | cut_off
    return replay, history


@jax.jit(static_argnums=1)
def sample(replay, size):
    return replay.sample(jax.random.key(1), size, DISCOUNT)


def observation(rows, t, stack):
    """The frames up to t, none from before the episode's start."""
    frames = []
    for back in range(stack):
        frames.append(rows[t - back][0])
        if rows[t - back][1]:
            break
    frames += [np.zeros(2, np.uint8)] * (stack - len(frames))
    return np.stack(frames[::-1], axis=-1) if stack > 1 else frames[0]


def transitions(history, oldest, stack, num_steps):
    """Every transition that can be made of the rows that are left, as tuples of plain numbers."""
    found = set()
    for rows in history:
        for t in range(oldest + stack - 1, len(rows) - num_steps):
            total, factor, last = 0.0, 1.0, t
            for i in range(num_steps):
                _, _, acted, _, reward, discount = rows[t + i]
                if not acted:
                    break
                total += factor * reward
                factor *= DISCOUNT * discount
                last = t + i
                if discount == 0:
                    break
            else:
                i = num_steps
            complete = last == t + num_steps - 1 or (rows[last][2] and rows[last][5] == 0)
            if not rows[t][2] or not complete:
                continue
            following = observation(rows, t + num_steps, stack) if factor > 0 else None
            found.add(key(observation(rows, t, stack), rows[t][3], total, factor, following))
    return found


def key(before, action, reward, discount, after):
    frames = tuple(np.asarray(before).ravel().tolist())
    numbers = int(action), round(float(reward), 4), round(float(discount), 4)
    return (frames, *numbers, None if after is None else tuple(np.asarray(after).ravel().tolist()))


@pytest.mark.parametrize(("stack", "num_steps"), [(1, 1), (3, 1), (1, 3), (4, 2)])
@pytest.mark.parametrize(
    ("num_rows", "capacity", "groups", "parts"),
    [(60, 100, 1, 0), (150, 40, 1, 0), (150, 40, 2, 1)],
    ids=["with room", "full", "full, in groups"],
)
def test_samples_are_the_transitions_that_happened(stack, num_steps, num_rows, capacity, groups, parts):
    replay, history = play(0, num_rows, 2, capacity, stack, groups, parts)
    assert replay.capacity == capacity
    possible = transitions(history, max(0, num_rows - capacity), stack, num_steps)
    batch, weights = jax.jit(lambda k: replay.sample(k, 4_000, DISCOUNT, num_steps))(jax.random.key(1))
    drawn = set()
    for i in np.flatnonzero(np.asarray(weights) > 0):
        before, action, reward, discount, after = (np.asarray(x)[i] for x in batch)
        drawn.add(key(before, action, reward, discount, after if discount > 0 else None))
    assert drawn <= possible
    assert len(drawn) > 0.95 * len(possible)
    assert np.mean(weights) > 0.9


def test_in_place_of_what_is_not_usable_stands_a_copy():
    """So that a loss without a gradient there cannot spoil the whole batch."""
    time, yes = jnp.arange(100.0)[:, None], jnp.ones((100, 1), bool)
    usable = time % 10 == 0
    rows = Row(time[..., None], usable, usable, yes.astype(jnp.int32), time, 0.0 * time)
    batch, weights = sample(Replay(rows, jnp.int32(100), 1), 64)
    assert 0.2 < np.mean(weights) < 0.6
    np.testing.assert_array_equal(batch.reward % 10, 0)
    np.testing.assert_array_equal(batch.observation[:, 0], batch.reward)
    _, weights = sample(Replay(rows, jnp.int32(1), 1), 64)  # there is no next row yet
    np.testing.assert_array_equal(weights, 0)
