"""Reports, from runs that were made up: every number on the page can be worked out by hand."""

import dataclasses
import json
import shutil
import statistics

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
from bellsketch.cli import main
from bellsketch.deep.environments.games import GAMES
from bellsketch.experiments.report.page import write_report
from bellsketch.experiments.report.results import suite_results
from bellsketch.experiments.report.scores import (
    advantages,
    aggregate_curve,
    aggregates,
    final_scores,
    find_scale,
    human_scores,
    mean_score,
    median_score,
    optimality_gap,
)
from bellsketch.experiments.report.verdicts import BETTER
from bellsketch.experiments.suite.directory import SuiteDirectory
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_table
from made_up_suite import GAMES_HERE, SCORE, SPREAD, made_up, verdicts


class TestHumanScores:
    def test_all_games(self):
        table = human_scores()
        assert set(table.index) == set(GAMES)
        assert (table["human"] > table["random"]).all()

    def test_known_ones(self):
        assert human_scores().loc["breakout"].tolist() == [1.7, 30.5]
        assert human_scores().loc["pong"].tolist() == [-20.7, 14.6]


class TestScores:
    def test_normalised(self, results):
        scores = final_scores(results, find_scale(results), GAMES_HERE)
        expected = SCORE["iqn"] + SPREAD * np.array([-1.0, 0.0, 1.0])
        np.testing.assert_allclose(scores["iqn"], np.tile(expected[:, None], (1, 3)), rtol=1e-6)

    def test_final_score_is_the_mean_of_the_last_tenth(self, results):
        rows = results.records
        frames = results.last_frame
        more = rows[(rows["frames"] == frames) & (rows["kind"] == "evaluation")]
        later = more.assign(frames=int(0.95 * frames), mean_return=more["mean_return"] + 10)
        changed = dataclasses.replace(results, records=pd.concat([rows, later]))
        np.testing.assert_allclose(changed.final("dqn", "pong"), results.final("dqn", "pong") + 5)

    def test_aggregates_by_hand(self):
        scores = np.array([[0.0, 2.0, 5.0], [1.0, 0.0, 3.0]])  # [s, k]
        assert mean_score(scores) == pytest.approx(11 / 6)
        assert median_score(scores) == pytest.approx(statistics.median([0.5, 1.0, 4.0]))
        assert optimality_gap(scores) == pytest.approx((1 + 1 + 0 + 0 + 0 + 0) / 6)

    def test_intervals_hold_the_truth_and_shrink_with_seeds(self, tmp_path):
        widths = []
        for seeds in (3, 12):
            results = suite_results(made_up(tmp_path / str(seeds), seeds=seeds))
            found = aggregates(final_scores(results, find_scale(results), GAMES_HERE))
            estimate = found["interquartile mean"]["c51"]
            assert estimate.low < SCORE["c51"] < estimate.high
            widths.append((estimate.high - estimate.low) / (SPREAD * (seeds - 1)))
        assert widths[1] < 0.7 * widths[0]

    def test_curve(self, results):
        frames, curve = aggregate_curve(results, find_scale(results), GAMES_HERE, "dqn", median_score)
        assert len(frames) == 10
        np.testing.assert_allclose(curve.value, SCORE["dqn"] * np.arange(1, 11) / 10, rtol=1e-5)

    def test_advantage_and_its_standard_error(self, results):
        table = advantages(results, find_scale(results), "sketch_dqn", "dqn")
        np.testing.assert_allclose(table["advantage"], 0.6, rtol=1e-5)
        # Seeds are −0.05, 0 and 0.05 off: a variance of 0.0025 each, over 3 seeds, twice.
        np.testing.assert_allclose(table["error"], np.sqrt(2 * 0.0025 / 3), rtol=1e-5)

    def test_minatar_is_normalised_by_dqn(self, tmp_path):
        results = suite_results(made_up(tmp_path, ["Breakout-MinAtar", "Asterix-MinAtar"], {"dqn": 5.0, "iqn": 9.0}))
        scale = find_scale(results)
        scores = final_scores(results, scale, list(results.environments))
        assert scores["dqn"].mean(axis=0) == pytest.approx([1.0, 1.0])
        random = 0.38
        assert scores["iqn"].mean(axis=0)[0] == pytest.approx((9.0 - random) / (5.0 - random), rel=1e-6)

    def test_others_are_not_normalised(self, tmp_path):
        assert find_scale(suite_results(made_up(tmp_path, ["CartPole-v1", "pong"]))) is None


class TestMissing:
    def test_only_whole_games_are_compared(self, tmp_path):
        results = suite_results(made_up(tmp_path, missing={("iqn", "pong", 1)}))
        assert results.complete() == ["breakout", "space_invaders"]
        assert results.complete(["dqn", "c51"]) == GAMES_HERE
        assert (results.done("iqn", "pong"), results.done("dqn", "pong")) == (2, 3)

    def test_a_run_under_way_has_no_final_score(self, directory):
        job = directory.jobs[0]
        file = directory.run_path(job) / "evaluations.csv"
        pd.read_csv(file).iloc[:9].to_csv(file, index=False)
        results = suite_results(directory)
        assert results.done(job.setting, job.config.environment) == 2

    def test_page_says_so(self, tmp_path):
        directory = made_up(tmp_path, missing={("iqn", "pong", seed) for seed in range(3)})
        page = write_report(directory, tmp_path / "report").read_text()
        assert ">missing<" in page
        assert "2 of 3 games have all of their runs" in page
        assert "42 of 45 jobs are done" in page

    def test_no_game_is_whole(self, tmp_path):
        directory = made_up(tmp_path, missing={("iqn", game, 0) for game in GAMES_HERE})
        page = write_report(directory, tmp_path / "report").read_text()
        assert "no game yet in which all settings have all of their runs" in page
        assert (tmp_path / "report" / "curves.png").exists()
        assert not (tmp_path / "report" / "aggregates.png").exists()

    def test_nothing_yet(self, tmp_path):
        suite = read_table({"agents": ["dqn"], "environments": ["pong"]}, PRESETS)
        with pytest.raises(bs.InputError, match="has no records yet"):
            write_report(SuiteDirectory(tmp_path, suite), tmp_path / "report")

    def test_minatar_without_all_of_dqn(self, tmp_path):
        """Others are done in a game in which the unit of scores is not known yet."""
        games = ["Breakout-MinAtar", "Asterix-MinAtar"]
        scores = {"dqn": 5.0, "sketch_dqn": 9.0, "c51": 3.0}
        directory = made_up(tmp_path, games, scores, missing={("dqn", games[1], 0)})
        page = write_report(directory, tmp_path / "report").read_text()
        assert "1 of 2 games have all of their runs" in page

    def test_runs_that_end_without_an_episode_are_done(self, directory):
        job = directory.jobs[0]
        path = directory.run_path(job)
        for each in directory.jobs:
            (directory.run_path(each) / "evaluations.csv").unlink()
        table = pd.read_csv(path / "records.csv")
        extra = table.iloc[[-2]].assign(frames=int(0.97 * table["frames"].iloc[-1]))
        table.loc[9, "mean_return"] = np.nan
        pd.concat([table.iloc[:-1], extra, table.iloc[-1:]]).to_csv(path / "records.csv", index=False)
        results = suite_results(directory)
        assert results.kind == "training"
        assert results.done(job.setting, job.config.environment) == 3

    def test_settings_may_end_at_different_frames(self, tmp_path):
        """More environments side by side make a few frames more."""
        settings = [{"name": "many", "agent": "c51", "num_environments": 4096}]
        scores = {"dqn": 1.0, "many": 2.0}
        directory = made_up(tmp_path, ["pong"], scores, agents=["dqn"], settings=settings, frames=300_000)
        results = suite_results(directory)
        assert len(set(results.frames.values())) == 2
        assert results.complete() == ["pong"]

    def test_a_line_that_is_being_written(self, directory):
        file = directory.run_path(directory.jobs[0]) / "evaluations.csv"
        whole = suite_results(directory)
        file.write_text(file.read_text() + "0,1000")
        pd.testing.assert_frame_equal(suite_results(directory).records, whole.records)


class TestVerdicts:
    def test_the_papers_order_holds(self, results):
        claims, missing = verdicts(results)
        # IQN is better everywhere here, which that claim denies.
        assert [name for name, claim in claims.items() if not claim.holds] == ["games-better"]
        assert {"mean-c51", "median-qr-dqn", "mean-iqn", "games-dqn", "games-better", "speed"} <= set(claims)
        assert claims["mean-qr-dqn"].measured == pytest.approx(0.2, abs=0.1)
        assert claims["speed"].measured == pytest.approx(400 / 350)
        assert any("improve from 101 to 201" in line for line in missing)

    def test_and_does_not_where_it_does_not(self, tmp_path):
        poor = SCORE | {"sketch_dqn": 0.9}
        claims, _ = verdicts(suite_results(made_up(tmp_path, list(BETTER), poor)))
        for name in ("mean-c51", "median-c51", "mean-dqn", "mean-iqn", "games-dqn", "games-better"):
            assert not claims[name].holds, name

    def test_a_difference_within_the_spread_is_none(self, tmp_path):
        close = SCORE | {"sketch_dqn": 1.42}
        claims, _ = verdicts(suite_results(made_up(tmp_path, ["pong"], close)))
        assert not claims["mean-qr-dqn"].holds

    def test_one_seed_says_nothing(self, tmp_path):
        claims, missing = verdicts(suite_results(made_up(tmp_path, seeds=1)))
        assert not claims
        assert "run at least two" in missing[0]

    def test_sweep(self, tmp_path):
        scores = {f"{family} m={num}": 0.0 for family in ("sigmoid", "gaussian") for num in (101, 201)}
        scores |= {"sigmoid m=201": 2.0, "sigmoid m=101": 1.5, "gaussian m=101": 1.0, "gaussian m=201": 1.0}
        settings = [
            {"name": name, "agent": "sketch_dqn", "features": name.split()[0], "num": int(name.split("=")[1])}
            for name in scores
        ]
        results = suite_results(made_up(tmp_path, ["pong", "breakout"], scores, agents=[], settings=settings))
        claims, _ = verdicts(results)
        assert claims["sigmoid-gaussian"].holds
        assert claims["more-sigmoids"].measured == pytest.approx(0.5, abs=0.15)
        assert claims["more-gaussians"].measured == pytest.approx(0.0, abs=1e-6)
        assert claims["more-gaussians"].holds

    def test_an_agent_with_options_of_its_own_is_not_the_papers(self, tmp_path):
        settings = [{"name": "iqn N=8", "agent": "iqn", "num": 8}]
        scores = {"sketch_dqn": 1.0, "iqn N=8": 5.0}
        results = suite_results(made_up(tmp_path, ["pong"], scores, agents=["sketch_dqn"], settings=settings))
        claims, missing = verdicts(results)
        assert "mean-iqn" not in claims
        assert any("against iqn" in line for line in missing)

    def test_not_the_papers_games(self, tmp_path):
        results = suite_results(made_up(tmp_path, ["Breakout-MinAtar"], {"dqn": 5.0, "sketch_dqn": 9.0}))
        assert verdicts(results)[0]["mean-dqn"].where == "ours"


class TestPage:
    def test_files(self, directory, tmp_path):
        before = plt.get_fignums()
        assert main(["report", str(directory.path)]) == 0
        out = directory.path / "report"
        assert {file.name for file in out.iterdir()} == {
            "index.html",
            "claims.json",
            *(f"{name}.png" for name in ("aggregates-over-frames", "aggregates", "advantage", "curves")),
        }
        claims = json.loads((out / "claims.json").read_text())
        assert {claim["id"] for claim in claims} >= {"suite.mean-c51", "suite.speed"}
        assert plt.get_fignums() == before

    def test_names_are_text_and_not_markup(self, tmp_path):
        scores = {"<script>alert(1)</script>": 1.0, "dqn": 0.5}
        settings = [{"name": name, "agent": "dqn", "huber": 2.0 + i} for i, name in enumerate(scores)]
        directory = made_up(tmp_path, ["pong"], scores, agents=[], settings=settings)
        assert "<script>" not in write_report(directory, tmp_path / "report").read_text()

    def test_in_a_browser(self, directory, tmp_path):
        """All pictures are drawn, nothing is fetched, and the console stays empty."""
        playwright = pytest.importorskip("playwright.sync_api")
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            pytest.skip("no Chromium here")
        page_file = write_report(directory, tmp_path / "report")
        with playwright.sync_playwright() as driver:
            opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = opened.new_page()
            said, asked = [], []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(page_file.as_uri())
            widths = page.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
            claims = page.eval_on_selector_all("#claims tr", "rows => rows.length")
            title, verdict = page.title(), page.inner_text("#claims tr:nth-child(2) td:nth-child(5)")
            opened.close()
        assert len(widths) == 4
        assert min(widths) > 300
        assert (title, verdict, said) == ("made-up – bellsketch", "yes", [])
        assert claims > 8
        assert [url for url in asked if not url.startswith(("data:", page_file.as_uri()))] == []


class TestFigure:
    @pytest.mark.slow
    def test_a_figure_from_its_cells(self, tmp_path):
        suite = read_table({"experiment": "anchor-range", "scale": "quick"}, PRESETS)
        directory = SuiteDirectory(tmp_path / "suite", suite)
        directory.claim().release()
        first, *rest = directory.jobs
        first.run(directory.run_path(first), 1.0)
        page = write_report(directory, tmp_path / "report").read_text()
        assert f"cell {rest[0].name}: is missing" in page
        for job in rest:
            job.run(directory.run_path(job), 1.0)
        page = write_report(directory, tmp_path / "report").read_text()
        assert "is missing" not in page
        assert (tmp_path / "report" / "figure.png").exists()
        assert json.loads((tmp_path / "report" / "claims.json").read_text())
