"""Acting, replay and learning in one jitted loop, for environments that are JAX functions; seeds side by side."""

from typing import Any

import equinox as eqx
import jax

from bellsketch.deep.environments.native import NativeEnvironment
from bellsketch.deep.evaluation import Episodes, play
from bellsketch.deep.loops.loop import Loop, LoopState


class FusedRunner:
    """All seeds of a run; states have an axis of seeds in front."""

    def __init__(self, loop: Loop, environment: NativeEnvironment):
        self.loop, self.environment = loop, environment
        self._init = eqx.filter_jit(lambda keys: loop.devices.hold(jax.vmap(self._init_one)(keys)))
        self._explore = eqx.filter_jit(self._advance(self.act), donate="all-except-first")
        self._learn = eqx.filter_jit(self._advance(self.learn), donate="all-except-first")
        self._play = eqx.filter_jit(self._play_all)

    def init(self, keys: jax.Array) -> LoopState:
        """Before the first step, from a key for each seed."""
        return self._init(keys)

    def shape(self, keys: jax.Array) -> LoopState:
        """The shapes of a state."""
        return self.loop.devices.shape(jax.eval_shape(self._init, keys))

    def explore(self, state: LoopState, vector_steps: int) -> LoopState:
        """Steps without learning."""
        return self._explore(jax.numpy.asarray(vector_steps), state)

    def advance(self, state: LoopState, iterations: int) -> LoopState:
        """Iterations of steps and updates."""
        return self._learn(jax.numpy.asarray(iterations), state)

    def evaluate(self, keys: jax.Array, networks: Any, num_episodes: int, epsilon: float) -> Episodes:
        """Whole episodes of each seed's network."""
        return self._play(keys, self.loop.devices.one(networks), num_episodes, epsilon)

    def save_environments(self) -> None:
        """They are part of the state."""

    def restore_environments(self, state: LoopState, saved: bytes | None) -> LoopState:
        """They are part of the state."""
        return state

    def close(self) -> None:
        """Nothing to let go of."""

    def act(self, state: LoopState) -> LoopState:
        """One step of every environment of one seed."""
        state, action = self.loop.choose(state)
        num = self.loop.config.num_environments
        key, key_step = jax.random.split(state.key)
        environments, after = jax.vmap(self.environment.step)(
            jax.random.split(key_step, num), state.environments, state.step, action
        )
        state = self.loop.record(state, action, environments, after)
        return eqx.tree_at(lambda s: s.key, state, key)

    def learn(self, state: LoopState) -> LoopState:
        """One iteration of one seed."""
        acts = self.loop.config.acts
        state = self.act(state) if acts == 1 else jax.lax.fori_loop(0, acts, lambda _, s: self.act(s), state)
        return self.loop.update(state)

    def _init_one(self, key: jax.Array) -> LoopState:
        key, key_environments = jax.random.split(key)
        keys = jax.random.split(key_environments, self.loop.config.num_environments)
        environments, step = jax.vmap(self.environment.reset)(keys)
        return self.loop.init(key, environments, step)

    def _advance(self, body: Any) -> Any:
        """So many times ``body``, of every seed. One program for any number."""
        hold = self.loop.devices.hold
        return lambda num, state: jax.lax.fori_loop(0, num, lambda _, s: hold(eqx.filter_vmap(body)(s)), state)

    def _play_all(self, keys: jax.Array, networks: Any, num_episodes: int, epsilon: float) -> Episodes:
        agent, environment = self.loop.agent, self.environment
        return eqx.filter_vmap(lambda key, network: play(key, agent, network, environment, num_episodes, epsilon))(
            keys, networks
        )
