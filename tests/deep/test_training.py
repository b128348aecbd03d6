"""Training runs: what is recorded and when, that they repeat, and how they fail."""

import itertools
import re

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
import tiny
import toy_environments  # noqa: F401, registers them
from bellsketch.deep.checkpoint import Checkpoints
from bellsketch.deep.config import (
    EvaluationConfig,
    LoopConfig,
    TrainingConfig,
)
from bellsketch.deep.playing import ACTIONS
from bellsketch.deep.run import EVALUATION, make_config, run_training, train
from bellsketch.deep.setup import set_up
from bellsketch.deep.training import Plan, training

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
        too_few = -(-config.iterations // config.records) * config.evaluation.evaluations > config.iterations
        assert plan.num_records <= (2 * config.evaluation.evaluations if too_few else config.records) + 1
        evaluated = [i for i in indices if plan.evaluates(i)]
        assert len(evaluated) == min(config.evaluation.evaluations, config.iterations)
        assert not evaluated or evaluated[-1] == plan.num_records - 1
        updates = plan.config.iterations * loop.updates
        assert updates * loop.update_period == plan.total_steps - ends[0]

    @pytest.mark.parametrize("frames", [1_000_000, 2_000_000, 200_000_000])
    def test_as_many_evaluations_as_the_paper_has(self, frames):
        """With a record for each, though fewer records are asked for."""
        plan = Plan(make_config("dqn", "pong", frames=frames, evaluations=200, records=100))
        assert sum(plan.evaluates(i) for i in range(plan.num_records)) == 200

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

    def test_so_is_a_sum_of_several(self, tmp_path):
        setup = tiny.setup("sketch_dqn", rewards=(0.0, 1.0), return_low=-1.0, seed=3, num=51, num_steps=3)
        with pytest.raises(bs.MissingRewardError) as caught:
            run_training(setup, tmp_path / "run", progress=False)
        paid = re.search(r"3 steps or fewer paid (\S+), for which", str(caught.value)).group(1)
        assert min(abs(float(paid) + 0.99**k) for k in range(3)) < 1e-4
        assert "Pass --rewards with all of those that a single step may pay, or --reward-interval" in str(caught.value)

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
    def test_without_a_directory_the_error_has_the_batch(self):
        setup = tiny.setup(environment="gym:Broken-v0", discount=0.99)
        with pytest.raises(bs.DivergenceError, match="The batch is this error's `batch`") as caught:
            run_training(setup, progress=False)
        batch = caught.value.batch
        assert not np.isfinite(batch.observation).all() or not np.isfinite(batch.next_observation).all()

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

    @pytest.mark.filterwarnings("ignore:.*:UserWarning:gymnasium")
    def test_the_run_stops_long_before_the_next_record(self, monkeypatch):
        monkeypatch.setattr("bellsketch.deep.training.SLICE", 40)
        setup = tiny.setup(environment="gym:Broken-v0", discount=0.99, frames=20_000, records=1)
        advance, slices = setup.runner.advance, []

        def count(state, iterations, stopped):
            slices.append(4 * iterations)
            return advance(state, iterations, stopped)

        monkeypatch.setattr(setup.runner, "advance", count)
        with pytest.raises(bs.DivergenceError, match=r"seed 0, frame 1\d\d: the loss") as caught:
            run_training(setup, progress=False)
        assert not np.isfinite(caught.value.batch.observation + caught.value.batch.next_observation).all()
        assert 0 < sum(slices) <= 100

    @pytest.mark.slow
    def test_divergence(self):
        with pytest.raises(bs.DivergenceError, match="smaller --learning-rate"):
            list(training(tiny.setup(learning_rate=1e30)))


def test_five_seeds_have_the_keys_of_each():
    setup = set_up(make_config("dqn", "Catch-bsuite", seeds=5, seed=3))
    keys = [jax.random.key_data(jax.random.key(seed)) for seed in range(3, 8)]
    np.testing.assert_array_equal(jax.random.key_data(setup.keys), keys)


def test_seeds_one_by_one_have_the_returns_of_seeds_side_by_side():
    """Though they are found by random play."""
    together, alone = (
        set_up(make_config("c51", "GaussianBandit-misc", seeds=seeds, seed=seed)) for seeds, seed in ((3, 0), (1, 2))
    )
    assert "random" in together.returns.source
    assert alone.returns == together.returns


def test_actions_and_evaluations_have_keys_that_no_split_gives():
    """Environments and training split theirs."""
    key = jax.random.key(0)
    folded = [jax.random.key_data(jax.random.fold_in(key, number)).tolist() for number in (ACTIONS, EVALUATION)]
    given = jax.random.key_data(jax.random.split(key, 10_000)).tolist()
    assert folded[0] != folded[1]
    assert not any(each in given for each in folded)
