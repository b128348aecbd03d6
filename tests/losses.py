"""The loss of an agent, of one transition; a learner computes the goals of many updates at once."""

import jax


def loss_of(key, agent, network, target, transition):
    """How far off a prediction is from its goal, which has no gradient."""
    key_goal, key_error = jax.random.split(key)
    goal = jax.lax.stop_gradient(agent.goal(key_goal, network, target, transition))
    return agent.error(key_error, network, transition, goal)
