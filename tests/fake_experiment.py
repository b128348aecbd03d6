"""A figure that costs nothing, in a module of its own so that the workers of a parallel run can import it."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np

from bellsketch.experiments.claims import Claim
from bellsketch.experiments.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Settings:
    parts: tuple[str, ...] = ("a", "b", "c", "d", "e")
    power: float = 0.5
    seed: int = 0


def cells(settings):
    return [{"part": part, "place": place} for place, part in enumerate(settings.parts)]


def measure(settings, cell):
    """Two rows with an irrational number, one with something missing; only part b has a column of its own."""
    value = (1 + settings.seed + cell["place"]) ** settings.power
    missing = {"a": float("nan"), "b": None}.get(cell["part"], 2.0)
    rows = [{**cell, "row": 0, "value": value}, {**cell, "row": 1, "value": -value, "maybe": missing}]
    return [{**row, "extra": "ö"} for row in rows] if cell["part"] == "b" else rows


def plot(records):
    figure, axis = plt.subplots(figsize=(1, 1))
    axis.plot(records["value"])
    return figure


def claims(records):
    return [
        Claim("fake.holds", "The values are small", "Sec. 1", float(records["value"].max()), "<", 100.0, "largest"),
        Claim("fake.fails", "The values are large", "Sec. 2", float(records["value"].max()), "≥", 100.0),
        Claim("fake.nothing", "There is nothing to measure", "Sec. 3", np.nan, "<", 1.0),
    ]


EXPERIMENT = Experiment("fake", "A fake", Settings(), Settings(parts=tuple("abcdefgh")), cells, measure, plot, claims)
