"""Results of DQN Zoo beside ours."""

import tarfile

import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
from bellsketch.experiments.report.dqn_zoo import read_dqn_zoo
from bellsketch.experiments.report.page import write_report
from bellsketch.experiments.report.results import suite_results
from bellsketch.experiments.report.scores import final_scores, find_scale
from made_up_suite import GAMES_HERE, NAMES, verdicts


class TestDQNZoo:
    @pytest.fixture
    def table(self):
        rows = [
            {"environment_name": game, "seed": seed, "frame": 1_000_000 * i, "eval_episode_return": 10.0 * i + seed}
            for game in GAMES_HERE
            for seed in (1, 2)
            for i in range(13)
        ]
        return pd.DataFrame(rows).assign(train_frame_rate=900.0, iteration=0, eval_num_episodes=7)

    def test_nothing_in_common(self, table, results, tmp_path):
        table.assign(environment_name="zaxxon").to_csv(tmp_path / "dqn.csv")
        with pytest.raises(bs.InputError, match="no game in common"):
            results.beside(read_dqn_zoo(tmp_path / "dqn.csv"))
        table.to_csv(tmp_path / "dqn.csv")
        both = results.beside(read_dqn_zoo(tmp_path / "dqn.csv"))
        with pytest.raises(bs.InputError, match="is there already"):
            both.beside(read_dqn_zoo(tmp_path / "dqn.csv"))

    @pytest.mark.parametrize("kind", ["file", "directory", "archive"])
    def test_beside_ours(self, table, results, tmp_path, kind):
        file = tmp_path / "zoo" / "qrdqn.csv"
        file.parent.mkdir()
        table.to_csv(file)
        path = {"file": file, "directory": file.parent, "archive": tmp_path / "results.tar.gz"}[kind]
        if kind == "archive":
            with tarfile.open(path, "w:gz") as archive:
                archive.add(file, "qrdqn.csv")
        both = results.beside(read_dqn_zoo(path))
        name = "qrdqn (DQN Zoo)"
        assert both.names == [*NAMES, name]
        # Ours end at 10M, so do theirs: evaluations at 10M only are in the last tenth.
        np.testing.assert_allclose(both.final(name, "pong"), [101.0, 102.0])
        assert both.complete() == GAMES_HERE
        assert verdicts(both)[0]["mean-qr-dqn"].detail == verdicts(results)[0]["mean-qr-dqn"].detail

    def test_what_it_lacks_is_not_held_against_ours(self, table, directory, tmp_path):
        table[(table["environment_name"] == "pong") & (table["seed"] == 1)].to_csv(tmp_path / "dqn.csv")
        alone = suite_results(directory)
        both = alone.beside(read_dqn_zoo(tmp_path / "dqn.csv"))
        assert both.complete() == GAMES_HERE
        assert verdicts(both)[0].keys() == verdicts(alone)[0].keys()
        assert list(final_scores(both, find_scale(both), GAMES_HERE)) == NAMES

    def test_drawn(self, table, directory, tmp_path):
        table.to_csv(tmp_path / "dqn.csv")
        page = write_report(directory, tmp_path / "report", (tmp_path / "dqn.csv",)).read_text()
        assert "dqn (DQN Zoo)" in page

    def test_bad_input(self, tmp_path, table):
        with pytest.raises(bs.InputError, match="no such file"):
            read_dqn_zoo(tmp_path / "none.csv")
        with pytest.raises(bs.InputError, match="has no CSV file in it"):
            read_dqn_zoo(tmp_path)
        table.drop(columns="frame").to_csv(tmp_path / "dqn.csv")
        with pytest.raises(bs.InputError, match=r"dqn\.csv has no column 'frame'"):
            read_dqn_zoo(tmp_path / "dqn.csv")
        broken = {
            "": "cannot be read as a table",
            "environment_name,seed,frame,eval_episode_return\npong,0,many,3\n": "has text among its frames",
            "environment_name,seed,frame,eval_episode_return\npong,0,0,3\n": "no frames of training",
        }
        for text, message in broken.items():
            (tmp_path / "dqn.csv").write_text(text)
            with pytest.raises(bs.InputError, match=message):
                read_dqn_zoo(tmp_path / "dqn.csv")
        (tmp_path / "results.tar.gz").write_bytes(b"no archive")
        with pytest.raises(bs.InputError, match="is no archive"):
            read_dqn_zoo(tmp_path / "results.tar.gz")
