"""Suites from presets, tables and files."""

import dataclasses
import tomllib

import pytest

import bellsketch as bs
from bellsketch.deep.environments.games import GAMES
from bellsketch.experiments.suite.presets import PRESETS
from bellsketch.experiments.suite.reading import read_file, read_table
from bellsketch.experiments.suite.suite import FigureGrid, Resources

SMALL = {"agents": ["dqn", "sketch_dqn"], "environments": ["Catch-bsuite", "CartPole-v1"], "seeds": 3}


def jobs(**changes):
    return read_table(SMALL | changes, PRESETS).jobs()


class TestPresets:
    @pytest.mark.parametrize(
        ("name", "num"),
        [("atari57", 57 * 5 * 3), ("atari-sweep", 57 * 12 * 3), ("minatar", 5 * 5 * 5), ("tabular-full", 14 * 9 * 4)],
    )
    def test_numbers_of_jobs(self, name, num):
        assert len(PRESETS[name].jobs()) == num

    def test_the_papers_protocol(self):
        job = next(job for job in PRESETS["atari57"].jobs() if job.name == "pong--sketch_dqn--2")
        assert (job.config.frames, job.config.seed, job.config.options.num) == (200_000_000, 2, 401)
        assert (job.config.loop.batch_size, job.config.loop.replay_capacity) == (32, 1_000_000)
        assert {job.config.environment for job in PRESETS["atari57"].jobs()} == set(GAMES)

    def test_sweep_of_features(self):
        configs = {job.setting: job.config.options for job in PRESETS["atari-sweep"].jobs()}
        options = configs["gaussian m=101 slope=5"]
        assert (options.features, options.num, options.slope_factor) == ("gaussian", 101, 5.0)

    @pytest.mark.parametrize("name", PRESETS)
    def test_survives_as_a_table(self, name):
        suite = PRESETS[name]
        again = read_table(suite.table(), PRESETS)
        assert again.jobs() == suite.jobs()
        assert again.resources == suite.resources


class TestTable:
    def test_grid(self):
        names = [job.name for job in jobs()]
        assert len(names) == len(set(names)) == 12
        assert names[:3] == ["Catch-bsuite--dqn--0", "Catch-bsuite--sketch_dqn--0", "CartPole-v1--dqn--0"]

    def test_seeds_are_different_runs(self):
        assert {job.config.seed for job in jobs(seeds=[4, 7])} == {4, 7}

    def test_seeds_side_by_side(self):
        found = jobs(seeds=4, seeds_per_job=2)
        assert [(job.config.seed, job.config.seeds) for job in found if job.name.startswith("Catch-bsuite--dqn")] == [
            (0, 2),
            (2, 2),
        ]

    def test_options_of_all_and_of_one(self):
        found = jobs(
            options={"learning_rate": 0.5}, settings=[{"agent": "sketch_dqn", "num": 7, "learning_rate": 0.25}]
        )
        rates = {job.setting: job.config.learner.learning_rate for job in found}
        assert rates == {"dqn": 0.5, "sketch_dqn": 0.5, "sketch_dqn num=7 learning_rate=0.25": 0.25}

    def test_groups_of_environments(self):
        assert {job.config.environment for job in jobs(environments=["minatar", "Catch-bsuite"])} == {
            *(f"{game}-MinAtar" for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")),
            "Catch-bsuite",
        }

    def test_extends_a_preset(self):
        suite = read_table({"extends": "atari57", "agents": ["iqn"], "seeds": 1, "options": {"threads": 2}}, PRESETS)
        assert len(suite.jobs()) == 57
        config = suite.jobs()[0].config
        assert (config.agent, config.host.threads, config.options.bfloat16) == ("iqn", 2, True)
        assert suite.resources == PRESETS["atari57"].resources

    def test_figure(self):
        suite = read_table({"experiment": "fig4", "scale": "quick"}, PRESETS)
        assert suite.grid == FigureGrid("fig4", "quick")
        assert {job.cell["environment"] for job in suite.jobs()}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"seed": 3}, "unknown key in a suite 'seed'. Did you mean 'seeds'"),
            ({"agents": ["sketch-dqn"]}, "unknown agent 'sketch-dqn'. Did you mean 'sketch_dqn'"),
            ({"agents": "dqn"}, "write a list"),
            ({"agents": []}, "settings: there are none"),
            ({"environments": []}, "environments: there are none"),
            ({"seeds": 0}, "seeds: there are none"),
            ({"seeds": "three"}, "seeds='three': write how many"),
            ({"seeds": [0, -1]}, "write how many"),
            ({"frames": "many"}, "frames='many': write a number"),
            ({"frames": 1.5}, "frames=1.5: write a whole number"),
            ({"preset": 3}, "preset=3: write a text"),
            ({"options": 3}, "options=3: write a table"),
            ({"environments": 3}, "environments=3: write a list"),
            ({"agents": [3]}, "agents=[3]: write a list"),
            ({"settings": 3}, "settings=3: write [[settings]]"),
            ({"seeds_per_job": 2}, "seeds_per_job=2: must divide the number of seeds, which is 3"),
            ({"seeds": [0, 2], "seeds_per_job": 2}, "must follow each other"),
            ({"environments": ["Catch-bsuite", "Catch-bsuite"]}, "environments: 'Catch-bsuite' is there twice"),
            ({"settings": [{"agent": "dqn", "name": "dqn"}]}, "'dqn' is there twice"),
            ({"settings": [{"num": 3}]}, "names no agent"),
            ({"options": {"batchsize": 3}}, "Did you mean 'batch_size'"),
            ({"options": {"learning_starts": 10**9}}, "learning starts only after"),
            ({"resources": {"gpu": 1}}, "unknown key in resources 'gpu'. Did you mean 'gpus'"),
            ({"resources": {"gpus": -1}}, "resources.gpus=-1.0: must not be negative"),
            ({"resources": {"gpus": 1.5}}, "must be a whole number"),
            ({"resources": 3}, "write a table"),
            ({"checkpoint_seconds": 0}, "checkpoint_seconds=0.0: must be positive"),
            ({"extends": "atari58"}, "Did you mean 'atari57'"),
            ({"experiment": "fig5"}, "unknown key"),
            ({"extends": ["atari57"]}, "unknown preset in extends"),
            ({"environments": ["pongg"]}, "unknown environment 'pongg'. Did you mean 'pong'"),
            ({"seeds": True}, "seeds=True: write how many"),
            ({"seeds": [1, 1]}, "seeds=[1, 1]: one is there twice"),
            ({"name": ["a"]}, "name=['a']: write a text"),
            ({"frames": float("inf")}, "frames=inf: write a number"),
            ({"resources": {"cores": 0}}, "resources.cores=0.0: a job needs a part of one"),
            ({"options": {"frames": 3}}, "'frames' is no option of a run"),
            ({"settings": [{"agent": "dqn", "name": "a", "seed": 3}]}, "'seed' is no option of a run"),
            ({"options": {"learner": 3}}, "learner=3: pass LearnerConfig"),
            ({"options": {"learning_rate": "fast"}}, "learning_rate='fast': pass a number"),
            ({"options": {"batch_size": 2.5}}, "batch_size=2.5: pass a whole number"),
            ({"options": {"small": 1}}, "small=1: pass true or false"),
            ({"options": {"rewards": 1.0}}, "rewards=1.0: pass several numbers or None"),
        ],
    )
    def test_bad_input(self, changes, message):
        with pytest.raises(bs.InputError) as raised:
            jobs(**changes)
        assert message in str(raised.value)

    def test_unknown_figure(self):
        with pytest.raises(bs.InputError, match=r"unknown experiment 'fig5'\. Did you mean 'fig4'"):
            read_table({"experiment": "fig5"}, PRESETS)

    @pytest.mark.parametrize("left_out", ["agents", "environments"])
    def test_what_is_missing(self, left_out):
        with pytest.raises(bs.InputError, match=f"{left_out}: is missing; write for example"):
            read_table({key: value for key, value in SMALL.items() if key != left_out}, PRESETS)


class TestFile:
    def test_is_a_table(self, tmp_path):
        (tmp_path / "mine.toml").write_text('agents = ["dqn"]\nenvironments = ["pong"]\n[options]\nsmall = true\n')
        suite = read_file(tmp_path / "mine.toml", PRESETS)
        assert (suite.name, [job.name for job in suite.jobs()]) == ("mine", ["pong--dqn--0"])

    def test_errors_name_the_file(self, tmp_path):
        (tmp_path / "bad.toml").write_text("agents = [")
        with pytest.raises(bs.InputError, match=r"bad\.toml is not TOML"):
            read_file(tmp_path / "bad.toml", PRESETS)
        (tmp_path / "bad.toml").write_text('agent = ["dqn"]')
        with pytest.raises(bs.InputError, match=r"bad\.toml: unknown key in a suite 'agent'"):
            read_file(tmp_path / "bad.toml", PRESETS)

    def test_the_one_in_the_documentation(self, request):
        suite = read_file(request.config.rootpath / "docs" / "suites" / "minatar-cpu.toml", PRESETS)
        assert len(suite.jobs()) == 50
        text = (request.config.rootpath / "docs" / "suites" / "minatar-cpu.toml").read_text()
        assert tomllib.loads(text)["name"] == suite.name


def test_resources_in_words():
    assert str(Resources()) == "1 core"
    assert str(Resources(2, 0.5, 8)) == "2 cores, 0.5 GPU, 8 GB of memory"
    assert str(dataclasses.replace(Resources(), gpus=1)) == "1 core, 1 GPU"
