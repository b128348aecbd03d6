"""Small Gymnasium environments that show where they are, so that an observation in the wrong row is seen."""

import threading

import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env):
    """Shows (episode, time, length). An action pays 10 time + action; at ``length`` an episode terminates."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012, Gymnasium's way

    def __init__(self, shortest=3, longest=3, start=0, render_mode=None):
        self.observation_space = spaces.Box(0, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(4, start=start)
        self.lengths, self.start, self.render_mode = (shortest, longest), start, render_mode
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.time = self.episode + 1, 0
        self.length = int(self.np_random.integers(self.lengths[0], self.lengths[1] + 1))
        return self._shown(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        assert self.time < self.length, "stepped after the end"
        reward = 10.0 * self.time + int(action) - self.start
        self.time += 1
        return self._shown(), reward, self.time == self.length, False, {}

    def render(self):
        return np.full((4, 5, 3), self.time, np.uint8)

    def _shown(self):
        return np.array([self.episode, self.time, self.length], np.float64)


class Echo(gymnasium.Env):
    """Shows one of three at random; to say the same pays 1. Five times, and then the episode terminates."""

    observation_space, action_space = spaces.Box(0, 1, (3,), np.float32), spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown(), {}

    def step(self, action):
        reward = float(action == self.shown)
        self.time += 1
        return self._shown(), reward, self.time == 5, False, {}

    def _shown(self):
        self.shown = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.shown]


class Shows(gymnasium.Env):
    """Shows whatever its space samples, and pays what it is told to, all at random."""

    def __init__(self, space, rewards=(0.0, 1.0), action_space=None):
        self.observation_space, self.rewards = space, rewards
        self.action_space = action_space or spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        reward = self.rewards(self.np_random) if callable(self.rewards) else self.np_random.choice(self.rewards)
        return self.observation_space.sample(), float(reward), bool(self.np_random.random() < 0.1), False, {}


class Broken(Counter):
    """Shows an infinity now and then."""

    def _shown(self):
        return np.array([self.episode, self.time, np.inf if self.time == 2 else 0.0], np.float64)


class Locked(Counter):
    """Cannot be pickled."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Forgetful(Counter, gymnasium.utils.EzPickle):
    """Is pickled as a fresh one."""

    def __init__(self):
        Counter.__init__(self)
        gymnasium.utils.EzPickle.__init__(self)


gymnasium.register("Counter-v0", entry_point=Counter)
gymnasium.register("CutOff-v0", entry_point=Counter, max_episode_steps=4, kwargs={"shortest": 100, "longest": 100})
# Either may come first.
gymnasium.register("Mixed-v0", entry_point=Counter, max_episode_steps=4, kwargs={"shortest": 2, "longest": 6})
gymnasium.register("Echo-v0", entry_point=Echo)
gymnasium.register("Shows-v0", entry_point=Shows)
gymnasium.register("Broken-v0", entry_point=Broken)
gymnasium.register("Locked-v0", entry_point=Locked)
gymnasium.register("Forgetful-v0", entry_point=Forgetful)
