"""What the paper says of its figures, with what was measured and whether it holds."""

import dataclasses
import json
import math
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bellsketch.core.errors import InputError

RELATIONS = {"<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge}


@dataclasses.dataclass(frozen=True)
class Claim:
    """One claim and the number that decides it."""

    id: str
    """The figure's name and a word, such as ``fig4.cramer-falls``."""
    statement: str
    """What the paper says, in our words."""
    where: str
    """Where it says so."""
    measured: float
    relation: str
    threshold: float
    """The claim holds if ``measured relation threshold``."""
    detail: str = ""
    """What the number is, and where it is worst."""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise InputError(f"relation={self.relation!r}: choose one of {', '.join(RELATIONS)}")

    @property
    def holds(self) -> bool:
        """False also where there is nothing to measure (NaN)."""
        return bool(RELATIONS[self.relation](self.measured, self.threshold))

    def record(self) -> dict[str, Any]:
        """What ``claims.json`` says of it."""
        measured = self.measured if math.isfinite(self.measured) else None
        return {**dataclasses.asdict(self), "measured": measured, "holds": self.holds}


def write_claims(path: Path, claims: Sequence[Claim]) -> None:
    """As JSON, one object a claim."""
    records = [claim.record() for claim in claims]
    path.write_text(json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def claims_page(directories: Sequence[Path]) -> str:
    """``docs/claims.md``: a table of the claims in each directory that ``reproduce`` has written."""
    parts = [
        "# Claims",
        "",
        "Every claim the paper makes of its tabular figures, and those of our own figure `beyond`, with the number",
        "that decides it at full scale. A claim that does not hold is a result; its figure's page says what we see.",
        "This page is written by `python -m bellsketch.experiments.claims docs/figures`.",
    ]
    for directory in directories:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        records = json.loads((directory / "claims.json").read_text(encoding="utf-8"))
        parts += ["", f"## [{directory.name}](figures/{directory.name}.md)", "", f"`{config['command']}`", ""]
        parts += ["| id | claim | where | measured | needed | holds |", "|---|---|---|---|---|---|"]
        parts += [_row(record) for record in records]
    return "\n".join(parts) + "\n"


def _row(record: dict[str, Any]) -> str:
    measured = "–" if record["measured"] is None else f"{record['measured']:.3g}"
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
    from bellsketch.experiments.catalogue import EXPERIMENTS

    return [root / name for name in EXPERIMENTS if (root / name / "claims.json").exists()]


if __name__ == "__main__":
    import sys

    root = Path(sys.argv[1])
    (root.parent / "claims.md").write_text(claims_page(written_directories(root)), encoding="utf-8")
