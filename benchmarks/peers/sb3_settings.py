"""Our settings in the words of Stable-Baselines3."""

from typing import Any


def arguments(settings: dict[str, Any], steps: int) -> dict[str, Any]:
    """Of an agent that learns for so many steps, but for its policy's."""
    return {
        "policy": "MlpPolicy",
        "env": settings["environment"],
        "learning_rate": settings["learning_rate"],
        "buffer_size": settings["replay_capacity"],
        "learning_starts": settings["learning_starts"],
        "batch_size": settings["batch_size"],
        "gamma": settings["discount"],
        "train_freq": settings["update_period"],
        "gradient_steps": 1,
        "target_update_interval": settings["target_period"] * settings["update_period"],  # in steps there
        "exploration_fraction": settings["exploration_steps"] / steps,
        "exploration_final_eps": settings["exploration_final"],
        "max_grad_norm": settings["max_gradient_norm"],
        "seed": settings["seed"],
        "device": "cpu",
    }
