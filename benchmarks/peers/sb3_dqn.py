"""What Stable-Baselines3's DQN has learnt in the end, as one line of JSON. Run by ``benchmarks/huber.py``.

It needs PyTorch, and so an interpreter of its own: see the top of ``benchmarks/huber.py``.
"""

import argparse
import json
from typing import Any

import sb3_settings
import stable_baselines3
import torch
from stable_baselines3.common.evaluation import evaluate_policy


def final_return(settings: dict[str, Any]) -> float:
    """The mean return of the last network. Its loss is linear beyond an error of 1."""
    torch.set_num_threads(1)
    policy = {"net_arch": [settings["width"]] * 2}
    agent = stable_baselines3.DQN(**sb3_settings.arguments(settings, settings["frames"]), policy_kwargs=policy)
    agent.learn(settings["frames"])
    mean, _ = evaluate_policy(agent, agent.get_env(), settings["evaluation_episodes"])
    return float(mean)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads)
    mean = final_return(parser.parse_args().settings)
    print(json.dumps({"mean_return": mean, "versions": {"stable-baselines3": stable_baselines3.__version__}}))
