"""Environments behind one interface: JAX-native ones (Gymnax) and those that run on the host (Gymnasium, ALE)."""

from bellsketch.deep.environments.atari import AtariEnvironments
from bellsketch.deep.environments.host import HostEnvironments
from bellsketch.deep.environments.make import make_environment
from bellsketch.deep.environments.native import NativeEnvironment, make_native
from bellsketch.deep.environments.returns import Returns, find_returns
from bellsketch.deep.environments.step import Space, Step
from bellsketch.deep.environments.vector import VectorEnvironments

__all__ = [
    "AtariEnvironments",
    "HostEnvironments",
    "NativeEnvironment",
    "Returns",
    "Space",
    "Step",
    "VectorEnvironments",
    "find_returns",
    "make_environment",
    "make_native",
]
