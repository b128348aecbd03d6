"""How many steps a second sb3-contrib's QR-DQN learns from, as one line of JSON. Run by ``benchmarks/deep.py``.

It needs PyTorch and sb3-contrib, and so an interpreter of its own: see the top of ``benchmarks/deep.py``.
"""

import argparse
import json
import platform
import time
from typing import Any

import gymnasium
import sb3_contrib
import sb3_settings
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback


class Clock(BaseCallback):
    """The time at which the measured steps begin."""

    def __init__(self, first: int):
        super().__init__()
        self.first, self.started = first, 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps == self.first:
            self.started = time.perf_counter()
        return True


def measure(settings: dict[str, Any]) -> float:
    """Steps a second of one seed and one environment, once ε is at its end."""
    torch.set_num_threads(settings["threads"])
    total = settings["warm_up"] + settings["steps"]
    policy = {
        "net_arch": [settings["width"]] * 2,
        "n_quantiles": settings["num"],
        "optimizer_kwargs": {"eps": settings["adam_epsilon"]},
    }
    agent = sb3_contrib.QRDQN(**sb3_settings.arguments(settings, total), policy_kwargs=policy)
    clock = Clock(settings["warm_up"])
    agent.learn(total, callback=clock)
    return settings["steps"] / (time.perf_counter() - clock.started)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads)
    speed = measure(parser.parse_args().settings)
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "stable-baselines3": stable_baselines3.__version__,
        "sb3-contrib": sb3_contrib.__version__,
        "gymnasium": gymnasium.__version__,
    }
    print(json.dumps({"steps_per_second": speed, "versions": versions}))
