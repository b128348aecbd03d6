"""The 57 Atari games of the paper, in ALE's own threads, under the protocol of its experiments.

Episodes begin after 0 to 30 frames without an action, actions are those that have an effect, each is repeated for some
frames of which the last two are pooled, and none is sticky. Losing a life has discount 0 but does not end an episode,
which ends when the game is over, or is cut off after half an hour. Rewards are the game's own.
"""

from typing import Any, final

import ale_py
import jax
import jax.numpy as jnp
import numpy as np
from ale_py import roms
from jaxtyping import Bool, Float, Int, UInt8

from bellsketch.core.arrays import Array
from bellsketch.core.errors import InputError, UnknownNameError
from bellsketch.deep.environments.games import GAMES
from bellsketch.deep.environments.step import Space, Step
from bellsketch.deep.environments.vector import VectorEnvironments

SCREEN = (210, 160)
"""Of all of the paper's, height first."""
SIDE = 84
STACK = 4
NOOPS = 30
MAX_FRAMES = 108_000
GREY = (0.299, 0.587, 0.114)
"""Red, green and blue in the luminance of ITU-R BT.601."""


@final
class AtariEnvironments(VectorEnvironments):
    """``num_environments`` copies of one game, which play in threads of their own.

    In the exact mode they show screens in colour, and frames are made of them on the device: grey, then 84 × 84 by a
    triangle filter. Otherwise ALE does this itself: it takes the maximum of two frames when they are grey already, and
    averages over areas.
    """

    starts_anew = True

    def __init__(
        self, name: str, num_environments: int = 1, *, frame_skip: int = 4, exact: bool = False, threads: int = 0
    ):
        """Make them.

        Args:
            name: One of ``GAMES``.
            num_environments: How many.
            frame_skip: Frames for which an action is repeated.
            exact: Whether frames are made as in the authors' code.
            threads: How many to play in; 0: as many as there are cores.
        """
        if name not in GAMES:
            raise UnknownNameError("Atari game", name, GAMES)
        super().__init__(name, num_environments)
        if frame_skip < 1:
            raise InputError(f"frame_skip={frame_skip}: must be at least 1")
        if threads < 0:
            raise InputError(f"threads={threads}: must be at least 1, or 0 for one on each core")
        if exact and (screen := _screen(name)) != SCREEN:
            raise InputError(
                f"exact=True: screens of {name!r} are {screen[0]} × {screen[1]}, and frames are made of {SCREEN[0]} ×"
                f" {SCREEN[1]}; leave it out"
            )
        self.frame_skip, self.exact, self.threads = frame_skip, exact, threads
        height, width = SCREEN if exact else (SIDE, SIDE)
        self._vector: Any = ale_py.AtariVectorEnv(
            name,
            num_environments,
            num_threads=threads,
            img_height=height,
            img_width=width,
            grayscale=not exact,
            stack_num=1,
            frameskip=frame_skip,
            noop_max=NOOPS + 1,  # it draws below that
            max_num_frames_per_episode=MAX_FRAMES,
            reward_clipping=False,
            use_fire_reset=False,
            repeat_action_probability=0.0,
        )
        actions: Any = self._vector.single_action_space
        shown = ((height, width, 3), grey_and_small) if exact else ()
        self.space = Space((SIDE, SIDE), np.uint8, int(actions.n), STACK, *shown)
        self.max_episode_steps = MAX_FRAMES // frame_skip
        self._lives = np.zeros(num_environments, np.int32)

    def _reset(self, seeds: list[int]) -> np.ndarray:
        observation, info = self._vector.reset(seed=np.asarray(seeds) % 2**31)
        self._lives = info["lives"]
        return observation[:, 0]

    def _step(self, actions: Int[np.ndarray, " e"], first: Bool[np.ndarray, " e"]) -> Step:
        observation, reward, terminated, truncated, info = self._vector.step(actions)
        stops = terminated | ((info["lives"] < self._lives) & ~first)
        self._lives = info["lives"]
        return Step(
            observation[:, 0],
            first,
            reward.astype(np.float32),
            1 - stops.astype(np.float32),
            terminated | truncated,
        )

    def save(self) -> None:
        """ALE's vector cannot be saved: a resumed run starts new episodes."""

    def restore(self, state: bytes) -> Step:
        """Nothing was saved."""
        raise InputError("state: Atari environments cannot be restored; start new episodes with reset(seed)")

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """The first screen in colour; None unless in the exact mode."""
        return np.asarray(self._last.observation[0]) if self.exact and self._last is not None else None

    def another(self, num_environments: int) -> "AtariEnvironments":
        """As many, made like these."""
        return AtariEnvironments(
            self.name, num_environments, frame_skip=self.frame_skip, exact=self.exact, threads=self.threads
        )

    def close(self) -> None:
        """End the threads, which is what becomes of them with the object."""
        self._vector, self._last = None, None


def _screen(name: str) -> tuple[int, int]:
    """Height and width, which ALE's vector does not tell: it shows any screen in the size that it is asked for."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # or it says hello
    emulator, rom = ale_py.ALEInterface(), roms.get_rom_path(name)
    assert rom is not None  # it is in ALE's wheel
    emulator.loadROM(rom)
    height, width = emulator.getScreenDims()
    return height, width


def grey_and_small(screens: UInt8[Array, "*e h w 3"]) -> UInt8[Array, "*e 84 84"]:
    """Luminance, cut off to whole numbers, then a triangle filter as wide as a pixel of the result."""
    weights: Float[Array, " 3"] = jnp.array(GREY, jnp.float32)
    grey = jnp.floor(jnp.einsum("...c,c->...", screens.astype(jnp.float32), weights, precision="highest") + 1e-3)
    shape = (*grey.shape[:-2], SIDE, SIDE)
    small = jax.image.resize(grey, shape, "linear", antialias=True, precision="highest")
    return jnp.clip(jnp.round(small), 0, 255).astype(jnp.uint8)
