"""The experiments on deep agents, from made-up results: nothing is trained here (see test_figures for that)."""

import dataclasses
import subprocess
import sys
import types

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
from bellsketch.cli import main
from bellsketch.experiments import minatar, minatar_ablation
from bellsketch.experiments.deep_comparison import RANDOM_SCORES
from bellsketch.experiments.reproduce import reproduce
from fake_experiment import EXPERIMENT as FAKE

AGENTS = {"dqn": 1.0, "c51": 1.2, "qr_dqn": 1.4, "iqn": 1.7, "sketch_dqn": 1.6}
"""Gains over random play, as the paper orders them."""
VARIANTS = dict.fromkeys(minatar_ablation.COMPARISON.contenders, 0.8) | {"base": 1.0, "constant": 0.9, "none": 0.1}
GAIN = {"Asterix": 10.0, "Breakout": 20.0, "Freeway": 40.0, "Seaquest": 30.0, "SpaceInvaders": 50.0}
MODULES = {"minatar": minatar, "minatar-ablation": minatar_ablation}


def results(column, gains, games=tuple(GAIN), seeds=5, spread=0.02, missing=()):
    """Returns that rise from random play to a gain, in ten records with growing episodes and an evaluation."""
    rng = np.random.default_rng(7)
    rows = []
    for game in games:
        for name, gain in gains.items():
            for seed in range(seeds):
                final = RANDOM_SCORES[game] + GAIN[game] * gain * (1 + spread * rng.normal())
                returns = np.linspace(RANDOM_SCORES[game], final, 10)
                shared = {"game": game, column: name, "seed": seed}
                for i, mean in enumerate(returns):
                    mean = np.nan if (game, name, i) in missing else mean
                    rows.append({**shared, "kind": "training", "frames": 100 * (i + 1), "mean_return": mean})
                rows.append({**shared, "kind": "evaluation", "frames": 1000, "mean_return": 1.1 * final})
    return pd.DataFrame(rows).assign(episodes=3)


def agents(**changes):
    return results("agent", AGENTS | changes)


def variants(**changes):
    return results("variant", VARIANTS | changes, ("Asterix", "Breakout"))


def verdicts(module, records):
    return {claim.id.split(".")[1]: claim for claim in module.claims(records)}


class TestScores:
    def test_final_score_is_the_mean_over_the_last_episodes(self):
        rows = [("training", 100, 7.0, 5), ("training", 950, 1.0, 3), ("training", 1000, 2.0, 1)]
        rows += [("training", 900, 50.0, 9), ("evaluation", 1000, 4.0, 10)]
        records = pd.DataFrame(rows, columns=["kind", "frames", "mean_return", "episodes"])
        records = records.assign(game="Breakout", agent="dqn", seed=0)
        assert minatar.COMPARISON.scores(records)["dqn"] == pytest.approx(np.array([[1.25]]))
        assert minatar.COMPARISON.scores(records, "evaluation")["dqn"] == pytest.approx(np.array([[4.0]]))

    def test_normalised(self):
        """Random play is 0 and the reference 1, in the mean over its seeds, in every game."""
        normalised = minatar.COMPARISON.normalised(agents())
        assert list(normalised) == list(AGENTS)
        np.testing.assert_allclose(normalised["dqn"].mean(axis=0), 1.0)
        np.testing.assert_allclose(normalised["iqn"].mean(axis=0), 1.7, rtol=0.1)
        assert normalised["iqn"].shape == (5, 5)

    def test_a_game_that_the_reference_does_not_learn_does_not_decide(self):
        normalised = minatar.COMPARISON.normalised(agents(dqn=1e-6, iqn=1e-6))
        assert np.abs(normalised["iqn"]).max() < 0.01

    def test_aggregates_have_intervals_around_them(self):
        for estimate in minatar.COMPARISON.aggregates(agents()).values():
            assert estimate.low < estimate.value < estimate.high

    def test_scores_that_are_missing_stay_missing(self):
        """And decide no claim."""
        records = results("agent", AGENTS, missing={("Freeway", "c51", i) for i in range(10)})
        assert np.isnan(minatar.COMPARISON.scores(records)["c51"][:, 2]).all()
        claims = verdicts(minatar, records)
        assert np.isnan(claims["above-c51"].measured)
        assert not claims["above-c51"].holds
        assert claims["above-qr-dqn"].holds
        assert not claims["all-learn"].holds
        plt.close(minatar.plot(records))

    @pytest.mark.parametrize(("module", "records"), [(minatar, agents()), (minatar_ablation, variants())])
    def test_table(self, module, records):
        table = module.EXPERIMENT.table(records)
        assert len(table) == len(module.COMPARISON.contenders) * (records["game"].nunique() + 1)
        assert (table["low"] <= table["score"]).all()
        assert (table["score"] <= table["high"]).all()
        assert not table.isna().any(axis=None)
        assert table["game"].iloc[-1] == "all, normalised"
        assert table["game"].iloc[0] == "Asterix"


class TestClaims:
    @pytest.mark.parametrize(
        ("changes", "false"),
        [
            ({}, set()),
            ({"sketch_dqn": 1.3}, {"above-qr-dqn", "approaches-iqn"}),
            ({"sketch_dqn": 1.5}, {"approaches-iqn"}),
            ({"sketch_dqn": 0.9}, {"above-dqn", "above-c51", "above-qr-dqn", "approaches-iqn"}),
            ({"c51": -0.1}, {"all-learn"}),
            ({"dqn": 3.0}, {"above-dqn"}),
        ],
    )
    def test_agents(self, changes, false):
        claims = verdicts(minatar, agents(**changes))
        assert {name for name, claim in claims.items() if not claim.holds} == false
        assert len(claims) == 5

    @pytest.mark.parametrize(
        ("changes", "false"),
        [
            ({}, set()),
            ({"none": 0.6}, {"constant-crucial"}),
            ({"none": 0.95}, {"constant-crucial", "constant-helps"}),
            ({"none": 1.1}, {"constant-crucial", "constant-helps", "intercept-helps"}),
            ({"none": 1.1, "constant": 1.3}, {"constant-crucial", "intercept-helps", "free-intercept"}),
            ({"constant": 1.2}, {"free-intercept"}),
            ({"tanh": 1.1}, {"sigmoid-best"}),
            ({"gaussian": 1.1}, {"sigmoid-best", "above-gaussian"}),
            ({"m51": 1.1}, {"more-features"}),
        ],
    )
    def test_variants(self, changes, false):
        claims = verdicts(minatar_ablation, variants(**changes))
        assert {name for name, claim in claims.items() if not claim.holds} == false
        assert len(claims) == 7

    def test_evaluations_are_told_and_do_not_decide(self):
        """Last networks of the base that are worse than those without an intercept."""
        records = variants()
        worse = (records["variant"] == "base") & (records["kind"] == "evaluation")
        records.loc[worse, "mean_return"] /= 20
        claim = verdicts(minatar_ablation, records)["intercept-helps"]
        assert claim.holds
        found = claim.detail.split("of evaluations: ")[1]
        expected = minatar_ablation.COMPARISON.contrast(records, np.subtract, "base", "none", kind="evaluation")
        assert found == str(expected)
        assert expected.high < 0

    def test_details_have_the_interval(self):
        claim = verdicts(minatar, agents())["above-c51"]
        low, high = map(float, claim.detail.split("[")[1].split("]")[0].split(","))
        assert claim.measured == pytest.approx(low, abs=1e-3)
        assert low < high
        assert "better in 5 of 5 games" in claim.detail

    def test_a_difference_within_the_noise_does_not_hold(self):
        records = results("agent", AGENTS | {"sketch_dqn": 1.25}, spread=0.2)
        difference = minatar.COMPARISON.contrast(records, np.subtract, "sketch_dqn", "c51")
        assert difference.value > 0
        assert not verdicts(minatar, records)["above-c51"].holds

    def test_only_what_was_run_is_claimed(self):
        records = results("agent", {"dqn": 1.0, "sketch_dqn": 1.1}, ("Breakout",), seeds=2)
        assert set(verdicts(minatar, records)) == {"above-dqn", "all-learn"}
        records = results("variant", {"base": 1.0, "constant": 0.9, "none": 0.1}, ("Breakout",), seeds=2)
        found = set(verdicts(minatar_ablation, records))
        assert found == {"constant-helps", "constant-crucial", "intercept-helps", "free-intercept"}

    @pytest.mark.parametrize(("module", "records"), [(minatar, agents()), (minatar_ablation, variants())])
    def test_they_fit_into_a_table(self, module, records):
        for claim in module.claims(records):
            assert claim.id.startswith(f"{module.EXPERIMENT.name}.")
            assert "|" not in claim.statement + claim.where + claim.detail


class TestPlots:
    def test_curves_of_each_game_and_what_they_come_to(self):
        figure = minatar.plot(agents())
        *curves, last = [axis for axis in figure.axes if axis.get_title()]
        assert [axis.get_title() for axis in curves] == list(GAIN)
        for axis in curves:
            assert [line.get_label() for line in axis.lines][:5] == ["DQN", "C51", "QR-DQN", "IQN", "Sketch-DQN"]
            assert len(axis.collections) == 5  # bands
        assert [label.get_text() for label in last.get_yticklabels()] == ["DQN", "C51", "QR-DQN", "IQN", "Sketch-DQN"]
        plt.close(figure)

    def test_variants(self):
        figure = minatar_ablation.plot(variants())
        assert [axis.get_title() for axis in figure.axes] == ["Asterix", "Breakout", "All games, interquartile mean"]
        assert len(figure.axes[0].get_yticklabels()) == 10
        plt.close(figure)

    def test_one_seed_of_one_game(self):
        plt.close(minatar.plot(results("agent", {"dqn": 1.0}, ("Breakout",), seeds=1)))


class TestCells:
    def test_full(self):
        cells = minatar.EXPERIMENT.cells(minatar.EXPERIMENT.full)
        assert len(cells) == 25
        assert cells[0] == {"game": "Asterix", "agent": "dqn"}
        assert (minatar.EXPERIMENT.full.frames, minatar.EXPERIMENT.full.seeds) == (2_000_000, 5)
        assert len(minatar_ablation.EXPERIMENT.cells(minatar_ablation.EXPERIMENT.full)) == 30

    def test_each_variant_differs_from_the_base_in_one_thing(self):
        base = minatar_ablation.BASE
        for name, contender in minatar_ablation.COMPARISON.contenders.items():
            assert contender.agent == "sketch_dqn"
            assert sum(contender.options[key] != base[key] for key in base) == (name != "base")

    @pytest.mark.parametrize("name", MODULES)
    def test_measure(self, monkeypatch, name):
        """What is passed on to a training run, and what is kept of it."""
        asked = []
        rows = {"seed": [3, 4], "frames": [100, 100], "episodes": [0, 2], "mean_return": [np.nan, 1.5]}
        run = types.SimpleNamespace(records=pd.DataFrame(rows), evaluations=pd.DataFrame(rows).iloc[1:])
        fakes = {
            "bellsketch.deep": {},
            "bellsketch.deep.run": {
                "make_config": lambda *args, **options: asked.append((args, options)),
                "run_training": lambda setup, progress: run,
            },
            "bellsketch.deep.setup": {"set_up": lambda config: None},
        }
        for module, contents in fakes.items():
            monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(**contents))
        experiment = MODULES[name].EXPERIMENT
        settings = experiment.settings("quick", seed=3)
        cell = experiment.cells(settings)[1]
        records = experiment.measure(settings, cell)
        ((agent, environment), options), *_ = asked
        assert (agent, environment) == ("sketch_dqn", "Breakout-MinAtar")
        assert (options["seed"], options["seeds"], options["frames"]) == (3, 2, settings.frames)
        assert (options["replay_capacity"], options["evaluations"]) == (settings.frames, 1)
        assert options.get("form") == {"minatar": None, "minatar-ablation": "constant"}[name]
        assert [(row["kind"], row["seed"], row["episodes"]) for row in records] == [
            ("training", 3, 0),
            ("training", 4, 2),
            ("evaluation", 4, 2),
        ]
        assert all(cell.items() <= row.items() for row in records)


class TestWithoutTheExtra:
    def test_nothing_of_it_is_imported_to_list_figures(self):
        code = "import sys, bellsketch.cli.reproduce; print(*{'gymnax', 'equinox', 'optax'} & set(sys.modules))"
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert shown.stdout.strip() == ""

    @pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
    def test_the_error_says_what_to_install(self, monkeypatch, tmp_path, module):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(bs.InputError, match=r"equinox, gymnax, optax.*pip install 'bellsketch\[deep\]'"):
            reproduce(module.EXPERIMENT, tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_all_leaves_out_what_cannot_run(self, monkeypatch, tmp_path, capsys):
        deep = dataclasses.replace(FAKE, name="deep", needs=("no_such_package",))
        monkeypatch.setattr("bellsketch.cli.reproduce.EXPERIMENTS", {"deep": deep, "fake": FAKE})
        assert main(["reproduce", "all", "--jobs", "1", "--out", str(tmp_path)]) == 0
        assert (tmp_path / "fake" / "claims.json").exists()
        assert not (tmp_path / "deep").exists()
        assert "deep: left out, as no_such_package is not installed" in capsys.readouterr().out

    def test_a_complete_run_can_still_be_drawn(self, tmp_path):
        reproduce(FAKE, tmp_path, jobs=1)
        assert reproduce(dataclasses.replace(FAKE, needs=("no_such_package",)), tmp_path)
