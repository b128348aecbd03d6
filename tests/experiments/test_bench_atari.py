"""The benchmark on Atari at a tiny scale: what it writes, and that its claims can come out false."""

import dataclasses

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from bellsketch.experiments.bench_atari import EXPERIMENT, PUBLISHED, Settings, cells, claims, table
from bellsketch.experiments.reproduce import read_records, reproduce

pytestmark = pytest.mark.usefixtures("quick_compiles")

TINY = Settings(("pong",), (("dqn", None),), 4, False, True, 1_000, 80, seconds=0.01, rounds=1)


@pytest.mark.slow
def test_measures_the_whole_and_its_parts(tmp_path):
    reproduce(dataclasses.replace(EXPERIMENT, quick=TINY), tmp_path)
    (row,) = read_records(tmp_path).to_dict("records")
    assert (row["game"], row["agent"], row["device"]) == ("pong", "dqn", "cpu")
    assert row["updates_per_s"] == pytest.approx(row["frames_per_s"] / 16, rel=0.01)  # the updates are counted
    assert row["us_per_update"] == pytest.approx(16e6 / row["learner_frames_per_s"], rel=0.01)
    assert row["of_environments"] == pytest.approx(row["frames_per_s"] / row["environments_frames_per_s"], abs=1e-3)
    assert matplotlib.image.imread(tmp_path / "figure.png").std() > 0.01


def test_all_agents_play_one_game_and_the_main_one_the_others():
    played = cells(EXPERIMENT.full)
    assert [cell["game"] for cell in played] == ["pong"] * (len(PUBLISHED) + 1) + ["breakout"]
    assert played[-1] == {"game": "breakout", "agent": "sketch_dqn", "num": 401}


def made(**speeds):
    """Records in which agents have these frames a second, and environments alone 80,000."""
    rows = [
        {"game": "pong", "agent": agent, "num": num, "frames_per_s": speeds.get(agent, 60_000.0)}
        for agent, num in (*PUBLISHED, ("dqn", None))
    ]
    more = {"environments_frames_per_s": 80_000.0, "learner_frames_per_s": 7e4, "us_per_update": 228.6, "device": "x"}
    made = pd.DataFrame(rows).assign(published_frames_per_s=[*PUBLISHED.values(), None], **more)
    return made.assign(of_environments=made["frames_per_s"] / made["environments_frames_per_s"])


def test_claims_can_hold_and_fail():
    found = {claim.id.split(".")[1]: claim for claim in claims(made())}
    assert [found[name].holds for name in ("frames", "share", "order", "above-iqn")] == [True, False, True, False]
    assert found["order-learner"].holds
    assert found["share"].measured == pytest.approx(0.75)
    slow = {claim.id.split(".")[1]: claim for claim in claims(made(sketch_dqn=49_000.0, iqn=20_000.0))}
    assert [slow[name].holds for name in ("frames", "order", "above-iqn")] == [False, False, True]
    assert slow["order"].measured == pytest.approx(49 / 60)
    falling = made(sketch_dqn=58e3, c51=60e3, qr_dqn=62e3)  # each pair is tied, and the ends are not
    assert [claim.holds for claim in claims(falling) if claim.id.endswith("order")] == [False]
    late = made().assign(learner_frames_per_s=lambda rows: 7e4 - 5e3 * (rows["agent"] == "c51"))
    of_late = {claim.id.split(".")[1]: claim for claim in claims(late)}
    assert [of_late[name].holds for name in ("order", "order-learner")] == [True, False]
    assert of_late["order-learner"].measured == pytest.approx(65 / 70)
    again = pd.concat([made(), made(c51=10e3).assign(game="breakout")], ignore_index=True)  # of the first game
    assert [claim.holds for claim in claims(again) if claim.id.endswith("order")] == [True]
    assert claims(made()[lambda rows: rows["agent"] == "dqn"]) == []


def test_the_table_is_of_whole_numbers():
    shown = table(made())
    assert shown["agent"].tolist()[:3] == ["Sketch-DQN 201", "Sketch-DQN 401", "C51 51"]
    assert shown["µs/update"].tolist()[0] == 229
    assert np.sum(shown["paper"].isna()) == 1
