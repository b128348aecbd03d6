"""Which device to compute on."""

import contextlib
from collections.abc import Iterator

import jax

from bellsketch.core.errors import InputError


@contextlib.contextmanager
def on_device(kind: str | None) -> Iterator[None]:
    """Compute on the first ``cpu`` or ``gpu``; None: on what JAX prefers."""
    if kind is None:
        yield
        return
    if kind not in ("cpu", "gpu"):
        raise InputError(f"device={kind!r}: choose cpu or gpu")
    try:
        device = jax.devices(kind)[0]
    except RuntimeError:
        found = ", ".join(sorted({str(d.device_kind) for d in jax.devices()}))
        raise InputError(
            f"device={kind!r}: JAX finds none here, only {found}; install bellsketch[cuda] on a machine with an"
            " NVIDIA GPU, or leave --device out"
        ) from None
    with jax.default_device(device):
        yield
