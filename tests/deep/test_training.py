"""Training runs: what is recorded and when, that they repeat, and how they fail."""

import dataclasses
import importlib.machinery
import itertools
import sys
import time
import types

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.deep import trackers
from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.config import (
    AgentConfig,
    EvaluationConfig,
    LearnerConfig,
    LoopConfig,
    TrainingConfig,
)
from bellsketch.deep.loops.loop import LoopState
from bellsketch.deep.playing import ACTIONS
from bellsketch.deep.presets import PRESETS, preset_for
from bellsketch.deep.progress import describe, progress_line
from bellsketch.deep.run import EVALUATION, make_config, run_training, train
from bellsketch.deep.setup import check_memory, set_up
from bellsketch.deep.training import Plan, Progress, training

pytestmark = pytest.mark.usefixtures("quick_compiles")

RECORDS = ["seed", "frames", "updates", "epsilon", "episodes", "mean_return", "loss"]
EVALUATIONS = ["seed", "frames", "episodes", "mean_return", "mean_length"]


def tables(setup):
    """All records and all evaluations."""
    progress = list(training(setup))
    return [row for p in progress for row in p.records], [row for p in progress for row in p.evaluations]


@pytest.fixture(scope="module")
def together():
    """Seeds 0 and 1."""
    return run_training(tiny.setup(seeds=2), progress=False)


class TestRecords:
    def test_of_two_seeds(self, together):
        records = together.records
        assert list(records) == RECORDS
        assert records["seed"].tolist() == [0, 1] * 6
        frames = np.array([100, 280, 460, 640, 820, 1000])
        for seed in (0, 1):
            rows = records[records["seed"] == seed]
            assert rows["frames"].tolist() == frames.tolist()
            assert rows["updates"].tolist() == ((frames - 100) // 4).tolist()
            np.testing.assert_allclose(rows["epsilon"], 1 - 0.99 * np.clip((frames - 100) / 500, 0, 1), atol=1e-6)
            # Of four environments an episode ends at every tenth step, the ninth the first time.
            assert rows["episodes"].cumsum().tolist() == (4 * ((frames // 4 + 1) // 10)).tolist()
            assert np.isnan(rows["loss"].iloc[0])  # nothing was learnt by then
            assert (rows["loss"].iloc[1:] > 0).all()
            wins = rows["episodes"] * (rows["mean_return"] + 1) / 2
            np.testing.assert_allclose(wins, np.round(wins), atol=1e-4)

    def test_evaluations(self, together):
        evaluations = together.evaluations
        assert list(evaluations) == EVALUATIONS
        assert evaluations["seed"].tolist() == [0, 1, 0, 1]
        assert evaluations["frames"].tolist() == [640, 640, 1000, 1000]
        assert evaluations["episodes"].tolist() == [4] * 4
        assert evaluations["mean_length"].tolist() == [9.0] * 4
        assert evaluations["mean_return"].between(-1, 1).all()

    def test_the_same_configuration_gives_the_same(self, together):
        records, evaluations = tables(tiny.setup(seeds=2))
        assert str(records) == str(together.records.to_dict("records"))
        assert str(evaluations) == str(together.evaluations.to_dict("records"))

    @pytest.mark.parametrize("seed", [0, 1])
    def test_seeds_together_are_seeds_alone(self, together, seed):
        """Until a difference in rounding, of sums over more or fewer seeds, changes what is done."""
        for p, i in zip(training(tiny.setup(seed=seed)), range(3), strict=False):
            (expected,) = together.records[together.records["seed"] == seed].iloc[i : i + 1].to_dict("records")
            assert p.records[0] == pytest.approx(expected, rel=1e-4, nan_ok=True)

    def test_no_evaluation(self):
        records, evaluations = tables(tiny.setup(evaluations=0, frames=300))
        assert (len(records), evaluations) == (6, [])


class TestRun:
    def test_networks_are_the_last(self, together):
        assert together.frames == 1000
        assert together.networks.head.weight.shape[0] == 2
        state = together.setup.runner.init(together.setup.keys)
        assert not np.array_equal(together.networks.head.weight, state.learner.network.head.weight)

    def test_evaluations_repeat(self, together):
        assert together.evaluate().returns.shape == (2, 4)
        one, again, other = (together.evaluate(30, seed=seed) for seed in (0, 0, 1))
        assert one.returns.shape == (2, 30)
        assert one.finished.all()
        np.testing.assert_array_equal(one.returns, again.returns)
        assert np.all(np.any(one.returns != other.returns, axis=1))

    @pytest.mark.parametrize(
        ("options", "message"), [({"num_episodes": 0}, "num_episodes=0"), ({"epsilon": 1.5}, r"epsilon=1\.5")]
    )
    def test_evaluations_that_make_no_sense(self, together, options, message):
        with pytest.raises(bs.InputError, match=message):
            together.evaluate(**options)

    def test_learning_curves(self, together):
        (axis,) = together.plot().axes
        assert axis.get_title() == "Catch-bsuite"
        shown, evaluated = axis.lines
        np.testing.assert_array_equal(shown.get_xdata(), [100, 280, 460, 640, 820, 1000])
        np.testing.assert_array_equal(evaluated.get_xdata(), [640, 1000])
        np.testing.assert_allclose(
            shown.get_ydata(), together.records.groupby("frames")["mean_return"].mean(), atol=1e-6
        )

    def test_from_python(self, tmp_path, together):
        run = train("dqn", "Catch-bsuite", seeds=2, out=tmp_path / "run", progress=False, **tiny.OPTIONS)
        assert run.frames == 1000
        pd.testing.assert_frame_equal(run.records, together.records, rtol=1e-12)  # from its files
        pd.testing.assert_frame_equal(run.evaluations, together.evaluations, rtol=1e-12)
        for a, b in zip(jax.tree.leaves(run.networks), jax.tree.leaves(together.networks), strict=True):
            np.testing.assert_array_equal(a, b)


class TestPlan:
    @hypothesis.given(
        small=st.integers(1, 8),
        factor=st.integers(1, 5),
        swapped=st.booleans(),
        starts=st.integers(0, 200),
        learning=st.integers(1, 2_000),
        records=st.integers(1, 120),
        evaluations=st.integers(0, 30),
    )
    def test_arithmetic(self, small, factor, swapped, starts, learning, records, evaluations):
        environments, period = (small * factor, small) if swapped else (small, small * factor)
        loop = LoopConfig(num_environments=environments, update_period=period, learning_starts=starts)
        evaluation = EvaluationConfig(evaluations=evaluations)
        warm_up = -(-starts // environments) * environments
        config = TrainingConfig(
            "dqn", "Catch-bsuite", warm_up + learning, records=records, loop=loop, evaluation=evaluation
        )
        plan = Plan(config)
        indices = range(plan.num_records)
        ends = [plan.config.warm_up * loop.num_environments + plan.iterations_at(i) * loop.steps for i in indices]
        assert all(a < b for a, b in itertools.pairwise(ends))
        assert loop.learning_starts <= ends[0] < loop.learning_starts + loop.num_environments
        assert ends[-1] == plan.total_steps
        assert config.frames <= plan.total_steps < config.frames + loop.steps + loop.num_environments
        assert [plan.index(end) for end in ends] == [i + 1 for i in indices]
        assert plan.num_records <= config.records + 1
        evaluated = [i for i in indices if plan.evaluates(i)]
        assert len(evaluated) == min(config.evaluation.evaluations, plan.num_records - 1)
        assert not evaluated or evaluated[-1] == plan.num_records - 1
        updates = plan.config.iterations * loop.updates
        assert updates * loop.update_period == plan.total_steps - ends[0]

    @pytest.mark.slow
    def test_nothing_at_random(self, tmp_path):
        """A record of nothing at all comes first, and a run that goes on from there does not make it again."""
        setup = tiny.setup(learning_starts=0, frames=360, records=2, evaluations=0)
        run = run_training(setup, tmp_path, progress=False)
        assert run.records["frames"].tolist() == [0, 180, 360]
        assert run.records["epsilon"].tolist() == [1.0, 0.6436, 0.2872]


class TestFailure:
    @pytest.fixture(scope="class")
    @classmethod
    def failed(cls, tmp_path_factory):
        """Catch pays −1, 0 and 1."""
        out = tmp_path_factory.mktemp("failed")
        setup = tiny.setup("sketch_dqn", rewards=(0.0, 1.0), return_low=-1.0, seed=3, num=51)
        with pytest.raises(bs.MissingRewardError) as caught:
            run_training(setup, out, progress=False, checkpoint_seconds=0.0)
        return setup, out, str(caught.value)

    def test_an_unlisted_reward_is_named(self, failed):
        _, out, message = failed
        assert message.startswith("seed 3, frame 1")
        assert "the environment paid -1, for which the agent has no coefficients (rewards as given" in message
        assert "Nothing was learnt from that batch. Pass --rewards with all of them, or --reward-interval" in message
        assert f"The batch is in {out / 'failure.npz'}; the last good checkpoint is at frame 100." in message

    def test_its_batch_is_kept(self, failed):
        setup, out, _ = failed
        with np.load(out / "failure.npz") as batch:
            assert set(batch) == {"observation", "action", "reward", "discount", "next_observation"}
            assert batch["reward"].shape == (64,)
            assert -1.0 in batch["reward"]
            assert setup.agent.unknown_rewards(batch["reward"], batch["discount"]).any()
            assert batch["observation"].any(axis=(1, 2)).all()

    def test_the_last_good_checkpoint_is_kept(self, failed):
        setup, out, message = failed
        assert Checkpoints(out / "checkpoints").steps() == [100]
        assert (out / "records.csv").read_text().count("\n") == 2
        with pytest.raises(bs.MissingRewardError) as caught:  # it goes on from there, and there it is again
            run_training(setup, out, progress=False)
        assert str(caught.value) == message

    @pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")
    def test_observations_that_are_not_finite(self, tmp_path):
        setup = tiny.setup(environment="gym:Broken-v0", discount=0.99)
        with pytest.raises(bs.DivergenceError, match=r"seed 0, frame 1\d\d: the loss or a parameter would") as caught:
            run_training(setup, tmp_path, progress=False)
        assert "look at the rewards and observations in the batch" in str(caught.value)
        assert "there is no checkpoint yet" in str(caught.value)
        with np.load(tmp_path / "failure.npz") as batch:
            assert np.isinf(batch["observation"]).any() or np.isinf(batch["next_observation"]).any()
        assert not (tmp_path / "run.lock").exists()

    @pytest.mark.slow
    def test_divergence(self):
        with pytest.raises(bs.DivergenceError, match="smaller --learning-rate"):
            list(training(tiny.setup(learning_rate=1e30)))


class TestConfig:
    def test_options_land_where_they_belong(self):
        config = make_config(
            "c51", "Catch-bsuite", frames=9_000, seeds=3, seed=5, risk="cvar:0.1", records=7, num=21, double=True,
            learning_rate=0.5, batch_size=16, discount=0.9, evaluations=3, return_high=4.0, rewards=(0.0, 1.0),
        )  # fmt: skip
        small = PRESETS["small"]
        assert (config.agent, config.environment, config.frames, config.seeds) == ("c51", "Catch-bsuite", 9_000, 3)
        assert (config.seed, config.risk, config.records) == (5, "cvar:0.1", 7)
        assert (config.options.num, config.options.double) == (21, True)
        assert config.learner == dataclasses.replace(small.learner, learning_rate=0.5)
        assert config.loop == dataclasses.replace(small.loop, batch_size=16, discount=0.9)
        assert config.evaluation == EvaluationConfig(evaluations=3)
        assert (config.returns.return_high, config.returns.rewards) == (4.0, (0.0, 1.0))

    def test_whole_parts_may_be_given(self):
        config = make_config("dqn", "Catch-bsuite", learner=LearnerConfig(adam_epsilon=0.1), learning_rate=0.5)
        assert config.learner == LearnerConfig(adam_epsilon=0.1, learning_rate=0.5)

    @pytest.mark.parametrize(
        ("environment", "preset"),
        [
            ("ALE/Pong-v5", "paper"),
            ("gym:ALE/Pong-v5", "paper"),
            ("video_pinball", "paper"),
            ("Breakout-MinAtar", "minatar"),
            ("CartPole-v1", "small"),
            ("gym:CartPole-v1", "small"),
        ],
    )
    def test_presets(self, environment, preset):
        assert preset_for(environment) == preset
        config = make_config("dqn", environment)
        expected = PRESETS[preset]
        assert (config.frames, config.learner, config.loop) == (expected.frames, expected.learner, expected.loop)
        assert config.options == AgentConfig()
        assert make_config("sketch_dqn", environment).options == expected.sketch
        assert make_config("dqn", environment, preset="paper").learner == LearnerConfig()

    def test_the_papers_values(self):
        config = make_config("sketch_dqn", "pong")
        assert (config.frames, config.learner.learning_rate, config.loop.replay_capacity) == (200_000_000, 5e-5, 10**6)
        assert (config.loop.batch_size, config.loop.update_period, config.loop.discount) == (32, 4, 0.99)
        assert (config.loop.frame_skip, config.loop.reward_clip) == (4, 1.0)
        agent = set_up(config).agent
        anchors, slope = agent.decoder.features.anchors, agent.decoder.features.slope
        assert (anchors[0], anchors[-1], anchors.size, slope) == pytest.approx((-12, 12, 401, 10))
        assert agent.report.coefficient_error == pytest.approx(1.76e-4, rel=0.05)  # as the authors' code has it

    def test_plain_values_and_back(self):
        config = tiny.config("sketch_dqn", rewards=(0.0, 1.0), reward_interval=(-1.0, 1.0))
        assert TrainingConfig.from_plain(config.plain()) == config

    def test_lists_and_numbers_of_numpy(self):
        given = {"rewards": [0.0, 1.0], "frames": np.int64(2_000), "learning_rate": np.float32(0.5)}
        config = make_config("dqn", "Catch-bsuite", **given)
        assert (config.returns.rewards, config.frames, config.learner.learning_rate) == ((0.0, 1.0), 2_000, 0.5)
        assert TrainingConfig.from_plain(config.plain()) == config

    def test_options_of_an_environment(self):
        options = ("map_name=8x8", "is_slippery=false")
        setup = tiny.setup("dqn", "FrozenLake-v1", environment_options=options, rewards=(0.0, 1.0))
        assert setup.config.host.arguments == {"map_name": "8x8", "is_slippery": False}
        assert setup.runner.loop.space.observation_shape == (64,)
        setup.runner.init(setup.keys)
        assert all(len(led) == 1 for led in setup.runner.environments._vector.envs[0].unwrapped.P[0].values())
        setup.runner.close()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"lerning_rate": 1}, "unknown option of the configuration 'lerning_rate'. Did you mean 'learning_rate'"),
            ({"preset": "smal"}, "Did you mean 'small'"),
            ({"frames": 1_000}, "frames=1000: learning starts only after 1000 of them"),
            ({"frames": 0}, "frames=0: must be positive"),
            ({"seed": -1}, "seed=-1"),
            ({"seed": 2**31}, "seed=2147483648"),
            ({"seeds": 0}, "seeds=0"),
            ({"records": 0}, "records=0"),
            ({"num_environments": 3}, "num_environments=3 and update_period=4: one must be a multiple"),
            ({"discount": 1.1}, r"discount=1\.1"),
            ({"discount": 0.0}, r"discount=0\.0"),
            ({"exploration_final": 2.0}, "exploration_final"),
            ({"learning_starts": -1}, "learning_starts=-1"),
            ({"evaluation_episodes": 0}, "evaluation_episodes=0"),
            ({"evaluation_epsilon": -0.1}, "evaluation_epsilon"),
            ({"evaluations": -1}, "evaluations=-1"),
            ({"learning_rate": float("nan")}, "learning_rate=nan"),
            ({"learning_rate": float("inf")}, "learning_rate=inf: must be positive, and finite"),
            ({"frames": 1e4}, r"frames=10000\.0: pass a whole number"),
            ({"frames": 2**31}, r"frames=2,147,483,648: a run has at most 2,147,483,6\d\d"),
            ({"seeds": 2.0}, r"seeds=2\.0: pass a whole number"),
            ({"records": "10"}, "records='10': pass a whole number"),
            ({"risk": 3}, "risk=3: pass a text"),
            ({"learner": 3}, r"learner=3: pass LearnerConfig\(…\)"),
            ({"threads": -1}, "threads=-1: must not be negative"),
            ({"environment_options": ("map_name",)}, "environment_options='map_name': write NAME=VALUE"),
            ({"learning_rate_final": 1.0}, r"learning_rate_final=1\.0: must lie in \[0, learning_rate=0\.001\]"),
            ({"num": 0}, "num=0"),
            ({"num_steps": 0}, "num_steps=0"),
            ({"slope_factor": 0.0}, "slope_factor"),
        ],
    )
    def test_what_makes_no_sense(self, options, message):
        with pytest.raises(bs.InputError, match=message):
            make_config("dqn", "Catch-bsuite", **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"agent": "sketch_dqm"}, "Did you mean 'sketch_dqn'"),
            ({"environment": "Catch-bsuit"}, "Did you mean 'Catch-bsuite'"),
            ({"risk": "cvar:0.1"}, "DQN knows means only"),
            ({"features": "gaussian"}, "features='gaussian': dqn has no such option"),
            ({"exact": True}, "exact=True: is for games of Atari, not for 'Catch-bsuite'; leave it out"),
            ({"small": True}, r"small=True: networks for observations of shape \(10, 5\) are small already"),
            ({"asynchronous": True}, "asynchronous=True: is for Gymnasium's environments"),
            ({"environment_options": ("a=1",)}, "environment_options=.'a': 1.: is for Gymnasium's environments"),
            ({"environment": "pong", "environment_options": ("a=1",)}, "environment_options.* is for Gymnasium's"),
            (
                {"environment": "FrozenLake-v1", "environment_options": ("mapname=8x8",)},
                "environment_options=.'mapname': '8x8'.: 'FrozenLake-v1' does not take them .*unexpected",
            ),
        ],
    )
    def test_what_does_not_exist(self, options, message):
        with pytest.raises(bs.InputError, match=message):
            tiny.setup(**options)

    def test_a_replay_that_does_not_fit(self):
        with pytest.raises(bs.AllocationError, match=r"a replay of 1,000,000,000,000 steps.*smaller --replay-capacity"):
            run_training(tiny.setup(replay_capacity=10**12), progress=False)

    def test_the_largest_that_is_offered_fits(self, monkeypatch):
        monkeypatch.setattr("bellsketch.deep.setup.available_bytes", lambda: 10_000_000)
        with pytest.raises(bs.AllocationError, match="the largest that fits has") as problem:
            check_memory(tiny.setup(replay_capacity=200_000))
        largest = int(str(problem.value).split("fits has ")[1].split(";")[0].replace(",", ""))
        check_memory(tiny.setup(replay_capacity=largest))
        with pytest.raises(bs.AllocationError):
            check_memory(tiny.setup(replay_capacity=largest + 4))


def progress(**changes):
    records = [
        {"seed": 4, "mean_return": 1.0, "loss": 0.5, "epsilon": 0.25, "episodes": 3},
        {"seed": 5, "mean_return": 2.0, "loss": 0.25, "epsilon": 0.25, "episodes": 2},
    ]
    values = {"records": records, "evaluations": [], "frames_per_second": 12_345.6} | changes
    return Progress(1_500, 200_000, **values, state=object.__new__(LoopState))


class TestProgress:
    def test_line(self):
        line = describe(progress())
        assert line == "1.5k/200k frames 12.3k/s  return 1.5  loss 0.375  ε 0.25"

    def test_line_of_what_is_not_known_yet(self):
        rows = progress().records
        rows[0]["mean_return"] = float("nan")
        assert "return 2 " in describe(progress(records=rows))
        rows[1]["mean_return"] = float("nan")
        assert "return – " in describe(progress(records=rows))

    def test_is_shown_on_stderr_or_not_at_all(self, capsys):
        for shown in (True, False):
            with progress_line(shown) as show:
                show(progress())
            out, err = capsys.readouterr()
            assert out == ""
            assert ("1.5k/200k" in err) == shown


class TestTrackers:
    def test_scalars(self):
        found = trackers.scalars(progress(evaluations=[{"seed": 4, "mean_return": 7.0}]))
        assert found["mean_return/seed_4"] == 1.0
        assert found["loss/seed_5"] == 0.25
        assert found["evaluation/seed_4"] == 7.0
        assert found["frames_per_second"] == 12_345.6
        assert len(found) == 2 * 4 + 1 + 1

    @pytest.mark.parametrize("module", ["tensorboardX", "wandb"])
    def test_what_is_not_installed(self, module, monkeypatch, tmp_path):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        make = {
            "tensorboardX": lambda: trackers.tensorboard_tracker(tmp_path),
            "wandb": lambda: trackers.wandb_tracker(tiny.config(), tmp_path),
        }
        with pytest.raises(bs.InputError, match=f"pip install {module}"):
            make[module]()

    def test_tensorboard(self, tmp_path):
        pytest.importorskip("tensorboardX")
        track = trackers.tensorboard_tracker(tmp_path / "run" / "tensorboard")
        assert not list(tmp_path.iterdir())  # the run has yet to claim it
        track(progress())
        track(progress())
        (file,) = (tmp_path / "run" / "tensorboard").iterdir()
        deadline = time.monotonic() + 10  # another thread writes it, a little later
        while b"mean_return/seed_4" not in file.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def test_wandb(self, monkeypatch, tmp_path):
        """With something in its place: it may not be installed, and would ask for an account."""
        started, logged = [], []

        def init(**given):
            started.append(given)
            return types.SimpleNamespace(log=lambda values, step: logged.append((values, step)))

        fake = types.ModuleType("wandb")
        fake.init, fake.__spec__ = init, importlib.machinery.ModuleSpec("wandb", None)
        monkeypatch.setitem(sys.modules, "wandb", fake)
        config = tiny.config()
        track = trackers.wandb_tracker(config, tmp_path)
        assert not started  # nor anything written: the run has yet to claim its directory
        assert not list(tmp_path.iterdir())
        track(progress())
        track(progress(frames_per_second=1.0))
        (given,) = started
        name = (tmp_path / "wandb_id").read_text()
        assert given == {
            "project": "bellsketch",
            "config": config.plain(),
            "dir": str(tmp_path),
            "resume": "allow",
            "id": name,
        }
        assert name
        assert [step for _, step in logged] == [1_500, 1_500]
        assert logged[0][0] == trackers.scalars(progress())
        assert logged[1][0]["frames_per_second"] == 1.0
        trackers.wandb_tracker(config, tmp_path)(progress())  # of a run that goes on
        assert started[1] == given


def test_five_seeds_have_the_keys_of_each():
    setup = set_up(make_config("dqn", "Catch-bsuite", seeds=5, seed=3))
    keys = [jax.random.key_data(jax.random.key(seed)) for seed in range(3, 8)]
    np.testing.assert_array_equal(jax.random.key_data(setup.keys), keys)


def test_actions_and_evaluations_have_keys_that_no_split_gives():
    """Environments and training split theirs."""
    key = jax.random.key(0)
    folded = [jax.random.key_data(jax.random.fold_in(key, number)).tolist() for number in (ACTIONS, EVALUATION)]
    given = jax.random.key_data(jax.random.split(key, 10_000)).tolist()
    assert folded[0] != folded[1]
    assert not any(each in given for each in folded)
