"""How many steps a second a plain PyTorch QR-DQN learns from, as one line of JSON. Run by ``benchmarks/deep.py``.

One file in CleanRL's manner: one environment, a NumPy ring for the replay, a loop without callbacks or wrappers. It is
faster than a framework, and so the harder one to be compared with. It needs PyTorch and Gymnasium.
"""

import argparse
import copy
import json
import platform
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn


class Replay:
    """A ring of transitions."""

    def __init__(self, capacity: int, size: int):
        self.before = np.zeros((capacity, size), np.float32)
        self.after = np.zeros((capacity, size), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.discount = np.zeros(capacity, np.float32)
        self.written = 0

    def insert(self, before: Any, action: int, reward: float, discount: float, after: Any) -> None:
        place = self.written % len(self.action)
        self.before[place], self.after[place] = before, after
        self.action[place], self.reward[place], self.discount[place] = action, reward, discount
        self.written += 1

    def sample(self, generator: np.random.Generator, batch_size: int) -> list[torch.Tensor]:
        places = generator.integers(0, min(self.written, len(self.action)), batch_size)
        parts = (self.before, self.action, self.reward, self.discount, self.after)
        return [torch.from_numpy(part[places]) for part in parts]


class Quantiles(nn.Module):
    """Two dense layers, and quantiles for each action."""

    def __init__(self, size: int, width: int, num_actions: int, num: int):
        super().__init__()
        self.shape = (num_actions, num)
        self.layers = nn.Sequential(
            nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, num_actions * num)
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.layers(observations).unflatten(-1, self.shape)


def quantile_huber(quantiles: torch.Tensor, levels: torch.Tensor, goals: torch.Tensor) -> torch.Tensor:
    """The mean over a batch of Σ_i mean_j |τ_i − 1{goal_j < θ_i}| huber(goal_j − θ_i)."""
    error = goals[:, None, :] - quantiles[:, :, None]
    size = error.detach().abs()
    huber = torch.where(size <= 1, 0.5 * error**2, error.abs() - 0.5)
    weight = (levels[None, :, None] - (error.detach() < 0).float()).abs()
    return (weight * huber).mean(dim=2).sum(dim=1).mean()


def measure(settings: dict[str, Any]) -> float:
    """Steps a second of one seed and one environment, once ε is at its end."""
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(settings["seed"])
    generator = np.random.default_rng(settings["seed"])
    environment = gymnasium.make(settings["environment"])
    (size,), num_actions = environment.observation_space.shape, int(environment.action_space.n)
    network = Quantiles(size, settings["width"], num_actions, settings["num"])
    target = copy.deepcopy(network)
    optimiser = torch.optim.Adam(network.parameters(), settings["learning_rate"], eps=settings["adam_epsilon"])
    levels = (torch.arange(settings["num"]) + 0.5) / settings["num"]
    replay = Replay(settings["replay_capacity"], size)
    batch_range = torch.arange(settings["batch_size"])
    observation, _ = environment.reset(seed=settings["seed"])
    started, updates = 0.0, 0
    for step in range(1, settings["warm_up"] + settings["steps"] + 1):
        share = min(1.0, max(0.0, (step - settings["learning_starts"]) / settings["exploration_steps"]))
        if generator.random() < 1.0 - share * (1.0 - settings["exploration_final"]):
            action = int(generator.integers(num_actions))
        else:
            with torch.no_grad():
                action = int(network(torch.from_numpy(observation)).mean(dim=-1).argmax())
        following, reward, terminated, truncated, _ = environment.step(action)
        replay.insert(observation, action, reward, 0.0 if terminated else settings["discount"], following)
        observation = environment.reset()[0] if terminated or truncated else following
        if step > settings["learning_starts"] and step % settings["update_period"] == 0:
            before, actions, rewards, discounts, after = replay.sample(generator, settings["batch_size"])
            with torch.no_grad():
                next_quantiles = target(after)
                best = next_quantiles.mean(dim=-1).argmax(dim=-1)
                goals = rewards[:, None] + discounts[:, None] * next_quantiles[batch_range, best]
            loss = quantile_huber(network(before)[batch_range, actions], levels, goals)
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), settings["max_gradient_norm"])
            optimiser.step()
            updates += 1
            if updates % settings["target_period"] == 0:
                target.load_state_dict(network.state_dict())
        if step == settings["warm_up"]:
            started = time.perf_counter()
    return settings["steps"] / (time.perf_counter() - started)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads)
    speed = measure(parser.parse_args().settings)
    versions = {"python": platform.python_version(), "torch": torch.__version__, "gymnasium": gymnasium.__version__}
    print(json.dumps({"steps_per_second": speed, "versions": versions}))
