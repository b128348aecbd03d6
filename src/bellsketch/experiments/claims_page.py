"""``docs/claims.md``: ``python -m bellsketch.experiments.claims_page docs/figures`` writes it from what lies there."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bellsketch.experiments.catalogue import EXPERIMENTS


def claims_page(directories: Sequence[Path]) -> str:
    """``docs/claims.md``: a table of the claims in each directory that ``reproduce`` has written."""
    parts = [
        "# Claims",
        "",
        "Every claim the paper makes of its figures, and those of ours (those on deep agents with MinAtar for Atari),",
        "with the number that decides it at full scale. A claim that does not hold is a result; its figure's page says",
        "what we see.",
        "This page is written by `python -m bellsketch.experiments.claims_page docs/figures`.",
    ]
    for directory in directories:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        records = json.loads((directory / "claims.json").read_text(encoding="utf-8"))
        parts += ["", f"## [{directory.name}](figures/{directory.name}.md)", "", f"`{config['command']}`", ""]
        parts += ["| id | claim | where | measured | needed | holds |", "|---|---|---|---|---|---|"]
        parts += [_row(record) for record in records]
    return "\n".join(parts) + "\n"


def _row(record: dict[str, Any]) -> str:
    measured = f"{float(record['measured']):.3g}"
    detail = f" ({record['detail']})" if record["detail"] else ""
    cells = [
        f"`{record['id']}`",
        record["statement"],
        record["where"],
        measured + detail,
        f"{record['relation']} {record['threshold']:g}",
        "yes" if record["holds"] else "**no**",
    ]
    return "| " + " | ".join(cells) + " |"


def written_directories(root: Path) -> list[Path]:
    """The directories below ``root`` that hold claims, in the order of the catalogue."""
    return [root / name for name in EXPERIMENTS if (root / name / "claims.json").exists()]


if __name__ == "__main__":
    root = Path(sys.argv[1])
    (root.parent / "claims.md").write_text(claims_page(written_directories(root)), encoding="utf-8")
