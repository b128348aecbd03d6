"""What the paper says of its figures, with what was measured and whether it holds."""

import dataclasses
import json
import math
import operator
from collections.abc import Sequence
from typing import Any

from bellsketch.core.errors import InputError

OURS = "ours"
"""Where claims come from that the paper does not make."""
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
        """What ``claims.json`` says of it; JSON has no number for what is infinite or missing."""
        measured = self.measured if math.isfinite(self.measured) else str(self.measured)
        return {**dataclasses.asdict(self), "measured": measured, "holds": self.holds}


@dataclasses.dataclass(frozen=True)
class Claimant:
    """Makes the claims of one figure."""

    figure: str
    where: str

    def __call__(
        self,
        name: str,
        statement: str,
        measured: float,
        relation: str,
        threshold: float,
        detail: str = "",
        where: str | None = None,
    ) -> Claim:
        return Claim(
            f"{self.figure}.{name}", statement, where or self.where, float(measured), relation, threshold, detail
        )


def claims_json(claims: Sequence[Claim]) -> str:
    """One object a claim."""
    records = [claim.record() for claim in claims]
    return json.dumps(records, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
