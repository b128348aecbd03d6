"""Configurations: where options land, and what makes no sense."""

import dataclasses

import numpy as np
import pytest

import bellsketch as bs
import tiny
from bellsketch.deep.config import AgentConfig, EvaluationConfig, LearnerConfig, TrainingConfig
from bellsketch.deep.presets import PRESETS, preset_for
from bellsketch.deep.run import make_config, run_training
from bellsketch.deep.setup import check_memory, set_up

pytestmark = pytest.mark.usefixtures("quick_compiles")


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
        assert (config.learner.adam_epsilon, config.learner.max_gradient_norm) == (0.01 / 32, 10.0)
        assert config.learner.target_period * 16 == 40_000  # frames
        assert (config.loop.learning_starts, config.loop.exploration_steps) == (50_000, 1_000_000)
        assert config.loop.exploration_final == 0.01
        assert config.evaluation == EvaluationConfig(evaluation_frames=500_000, evaluation_epsilon=0.001)
        agent = set_up(config).agent
        anchors, slope = agent.decoder.features.anchors, agent.decoder.features.slope
        assert (anchors[0], anchors[-1], anchors.size, slope) == pytest.approx((-12, 12, 401, 10))
        assert agent.report.coefficient_error == pytest.approx(1.76e-4, rel=0.05)  # as the authors' code has it

    @pytest.mark.parametrize(
        ("num", "groups"),
        [(1024, 4), (256, 4), (204, 3), (128, 2), (96, 1), (220, 1), (2, 1)],
    )
    def test_groups(self, num, groups):
        assert make_config("dqn", "pong", num_environments=num).groups == groups
        assert make_config("dqn", "CartPole-v1", num_environments=num).groups == 1

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
        assert all(len(led) == 1 for led in setup.runner.environments[0]._vector.envs[0].unwrapped.P[0].values())
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
            ({"groups": 0}, "groups=0: must be positive"),
            ({"groups": 2}, "groups=2: each is followed by as many updates, and there are 1 after a step of all"),
            (
                {"environment_options": "map_name=8x8"},
                "environment_options='map_name=8x8': pass several texts, such as",
            ),
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
            ({"exact": True}, "exact=True: is for the paper's 57 games of Atari, not for 'Catch-bsuite'; leave it out"),
            ({"small": True}, r"small=True: networks for observations of shape \(10, 5\) are small already"),
            ({"asynchronous": True}, "asynchronous=True: is for Gymnasium's environments"),
            ({"groups": 2, "num_environments": 8}, "groups=2: 'Catch-bsuite' is not on the host; leave it out"),
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

    @pytest.mark.parametrize("asked", [200_000, 10**6, 10**9])
    def test_the_largest_that_is_offered_fits(self, monkeypatch, asked):
        monkeypatch.setattr("bellsketch.deep.setup.available_bytes", lambda: 10_000_000)
        with pytest.raises(bs.AllocationError, match="the largest that fits") as problem:
            check_memory(tiny.setup(replay_capacity=asked))
        largest = int(str(problem.value).split("on the host, has ")[1].split(" steps")[0].replace(",", ""))
        check_memory(tiny.setup(replay_capacity=largest))
        with pytest.raises(bs.AllocationError):
            check_memory(tiny.setup(replay_capacity=largest + 4))
