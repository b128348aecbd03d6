"""What Stable-Baselines3's DQN has learnt in the end, as one line of JSON. Run by ``benchmarks/huber.py``.

It needs PyTorch, and so an interpreter of its own: see the top of ``benchmarks/huber.py``.
"""

import argparse
import json
from typing import Any

import stable_baselines3
import torch
from stable_baselines3.common.evaluation import evaluate_policy


def final_return(settings: dict[str, Any]) -> float:
    """The mean return of the last network. Its loss is linear beyond an error of 1."""
    torch.set_num_threads(1)
    agent = stable_baselines3.DQN(
        "MlpPolicy",
        settings["environment"],
        learning_rate=settings["learning_rate"],
        buffer_size=settings["replay_capacity"],
        learning_starts=settings["learning_starts"],
        batch_size=settings["batch_size"],
        gamma=settings["discount"],
        train_freq=settings["update_period"],
        gradient_steps=1,
        target_update_interval=settings["target_period"] * settings["update_period"],  # in steps there
        exploration_fraction=settings["exploration_steps"] / settings["frames"],
        exploration_final_eps=settings["exploration_final"],
        max_grad_norm=settings["max_gradient_norm"],
        policy_kwargs={"net_arch": [settings["width"]] * 2},
        seed=settings["seed"],
        device="cpu",
    )
    agent.learn(settings["frames"])
    mean, _ = evaluate_policy(agent, agent.get_env(), settings["evaluation_episodes"])
    return float(mean)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads)
    mean = final_return(parser.parse_args().settings)
    print(json.dumps({"mean_return": mean, "versions": {"stable-baselines3": stable_baselines3.__version__}}))
