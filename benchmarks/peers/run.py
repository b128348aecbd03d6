"""Peers run in an interpreter of their own: PyTorch is no dependency here."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any


def answer(interpreter: str, script: str, settings: dict[str, Any]) -> dict[str, Any]:
    """What a script beside this one says of so many settings: its last line, as JSON."""
    command = [interpreter, str(Path(__file__).parent / script), json.dumps(settings)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:2])} failed; try without it\n{done.stderr[-2_000:]}")
    return json.loads(done.stdout.splitlines()[-1])
