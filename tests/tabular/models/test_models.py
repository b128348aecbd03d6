"""Models from files, graphs, Gymnasium and logs, against models that were written out by hand."""

import zipfile
from pathlib import Path

import jaxtyping
import networkx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

import bellsketch as bs
from bellsketch.tabular.answers import Questions, answers, bootstrap_answers
from bellsketch.tabular.models.arrays_file import from_networkx, read_npz, save_npz
from bellsketch.tabular.models.gymnasium_table import read_gymnasium
from bellsketch.tabular.models.load import load_log, load_model
from bellsketch.tabular.models.toml_file import read_table

MACHINE = """
discount = 0.9

[states.working.actions.run]
reward = 10
next = { working = 0.8, broken = 0.2 }

[states.working.actions.service]
reward = { distribution = "norm", loc = 7, scale = 1 }
next = { working = 0.95, broken = 0.05 }

[[states.broken.outcomes]]
probability = 0.75
reward = -20
next = "working"

[[states.broken.outcomes]]
probability = 0.25
reward = -50

[policy]
working = "run"
"""


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "machine.toml").write_text(MACHINE)
    return str(tmp_path / "machine.toml")


@pytest.fixture
def untyped(monkeypatch):
    """As users run it: the tests alone look at the types of arguments."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def by_hand(reward, broken):
    """The machine under one action, written out."""
    return bs.MRP.from_outcomes(
        [(0, 1 - broken, reward, 0), (0, broken, reward, 1), (1, 0.75, -20.0, 0), (1, 0.25, -50.0, None)], 0.9
    )


class TestTOML:
    def test_under_its_own_policy(self, machine):
        model = load_model(machine)
        assert model.names == ("working", "broken")
        np.testing.assert_allclose(model.mrp.value, by_hand(10.0, 0.2).value)
        np.testing.assert_allclose(model.mrp.return_variance, by_hand(10.0, 0.2).return_variance)

    def test_under_others(self, machine):
        model = load_model(machine, policy={"working": "service"})
        np.testing.assert_allclose(model.mrp.return_variance, by_hand(scipy.stats.norm(7, 1), 0.05).return_variance)
        mixed = load_model(machine, policy={"working": {"run": 0.25, "service": 0.75}}).mrp
        expected = 0.25 * by_hand(10.0, 0.2).transitions.toarray() + 0.75 * by_hand(7.0, 0.05).transitions.toarray()
        np.testing.assert_allclose(mixed.transitions.toarray(), expected)
        uniform = load_model(machine, policy="uniform").mrp
        np.testing.assert_allclose(uniform.mean_rewards[0], (10 + 7) / 2)

    def test_the_best(self, machine):
        """Run or service, whichever is worth more; a broken machine has no choice."""
        worth = {name: by_hand(*numbers).value[0] for name, numbers in (("run", (10.0, 0.2)), ("service", (7.0, 0.05)))}
        assert worth["service"] > worth["run"]
        model = load_model(machine, policy="optimal")
        assert model.actions == ("service", "")
        np.testing.assert_allclose(model.mrp.value[0], worth["service"])
        assert load_model(machine, policy="optimal", discount=0.0).actions == ("run", "")

    def test_risk_goes_with_the_best(self, machine):
        assert load_model(machine, policy="optimal", risk="exceeds:9", discount=0.0).actions == ("run", "")
        with pytest.raises(bs.InputError, match="pass policy='optimal' with it"):
            load_model(machine, risk="cvar:0.1")
        with pytest.raises(bs.InputError, match="has no actions"):
            load_model("random_chain", risk="cvar:0.1")
        with pytest.raises(bs.InputError, match="Did you mean 'optimal'"):
            load_model(machine, policy="optimum")

    def test_another_discount(self, machine):
        assert load_model(machine, discount=0.5).mrp.discount == 0.5

    @pytest.mark.usefixtures("untyped")
    def test_by_path(self, machine):
        assert load_model(Path(machine)).names == ("working", "broken")
        with pytest.raises(bs.InputError, match="name=3: pass the name"):
            load_model(3)

    @pytest.mark.usefixtures("untyped")
    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (3, "policy=3: pass 'uniform', 'optimal', or"),
            ({"working": 3}, "policy: state 'working' has 3; pass one of its actions, run, service"),
            ({"working": {"run": "x"}}, "policy: the shares of state 'working' contain 'x'"),
            ({"working": {"run": 1.5, "service": -0.5}}, "policy: the shares of state 'working' contain -0.5"),
            ({"working": {"run": 0.4, "service": 0.5}}, "policy: the shares of state 'working' sum to 0.9, not 1"),
            ({"working": {3: 1.0}}, "unknown action of state 'working' '3'"),
            ({3: "run"}, "unknown state in policy '3'"),
        ],
    )
    def test_bad_policy(self, machine, policy, message):
        with pytest.raises(bs.InputError) as raised:
            load_model(machine, policy=policy)
        assert message in str(raised.value)

    def test_rewards(self):
        states = {
            "a": {"reward": {"values": [1, 5], "probabilities": [0.25, 0.75]}},
            "b": {"reward": {"values": [2, 4]}},
        }
        states |= {"c": {"reward": {"distribution": "poisson", "mu": 3}}, "d": {}}
        mrp = read_table({"discount": 0.9, "states": states}).under().mrp
        np.testing.assert_allclose(mrp.value, [4.0, 3.0, 3.0, 0.0], atol=1e-9)
        np.testing.assert_allclose(mrp.return_variance, [3.0, 1.0, 3.0, 0.0], atol=1e-6)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (("discount = 0.9", ""), "discount: is missing"),
            (("discount = 0.9", "discount = 'big'"), "discount='big': write a number"),
            (("discount = 0.9", "discount = 1.5"), "discount=1.5: must lie in"),
            (("discount = 0.9", "gamma = 0.9"), "unknown key in the file 'gamma'"),
            (("working = 0.8", "wroking = 0.8"), "next state of 'working': 'wroking'. Did you mean 'working'"),
            (("working = 0.8", "working = 0.7"), "sum to 0.9, not 1"),
            (("reward = 10", "rewrd = 10"), "Did you mean 'reward'"),
            (("reward = 10", "reward = 'much'"), "states.working.actions.run.reward='much': write a number"),
            (('"norm"', '"normal"'), "unknown distribution in states.working.actions.service.reward 'normal'"),
            (("scale = 1", "sigma = 1"), "norm cannot be made with"),
            (("probability = 0.75", ""), "has no probability"),
            (('working = "run"', 'working = "rnu"'), "Did you mean 'run'"),
            (('working = "run"', 'wroking = "run"'), "unknown state in policy 'wroking'"),
            (('working = "run"', "working = 3"), "policy.working=3: write a table of shares"),
            (('working = "run"', "working = { run = 0.9 }"), "policy: the shares of state 'working' sum to 0.9, not 1"),
            (("working = 0.8, broken = 0.2", "working = 0.9"), "states.working.actions.run.next: the probabilities"
             " sum to 0.9, not 1; where it ends with the rest, write end = 0.1"),
            (("working = 0.8", "working = 0.9"), "sum to 1.1, not 1; divide them by their sum"),
            (("working = 0.8", "working = -0.8"), "states.working.actions.run.next: the probabilities contain -0.8"),
            (("probability = 0.75", "probability = 0.65"), "write [[states.broken.outcomes]] and below it probability ="
             " 0.1"),
            (("[policy]", "[states]\na = 3\n[policy]"), "states.a=3: write [states.a], and below it reward = 1"),
            (("[policy]", "[states.a.actions]\ngo = 3\n[policy]"), "states.a.actions.go=3: write [states.a.actions."),
            (("[policy]", "[states.a]\nactions = 3\n[policy]"), "states.a.actions=3: write [states.a.actions.run]"),
            (("[policy]", "[states.a]\noutcomes = [3]\n[policy]"), "states.a.outcomes has 3 in it: write [[states.a"),
            (("reward = 10", "reward = { values = [1, 2], probabilities = [0.5, 0.4] }"), "run.reward: probabilities"),
            (('working = "run"', ""), "has the actions run, service; say which is taken there"),
            (("[states.working.actions.run]", "[states.working.actions.run"), "is not TOML"),
            (("[policy]", "[states.end]\n[policy]"), "call the state something else"),
        ],
    )  # fmt: skip
    def test_bad_input(self, tmp_path, change, message):
        (tmp_path / "bad.toml").write_text(MACHINE.replace(*change))
        with pytest.raises(bs.InputError) as raised:
            load_model(str(tmp_path / "bad.toml"))
        assert message in str(raised.value)
        assert str(raised.value).startswith(str(tmp_path / "bad.toml"))

    def test_a_policy_that_is_none(self, tmp_path):
        (tmp_path / "bad.toml").write_text("policy = 'run'\n" + MACHINE.partition("[policy]")[0])
        with pytest.raises(bs.InputError, match=r"policy='run': write \[policy\], and below it an action for each"):
            load_model(str(tmp_path / "bad.toml"))

    def test_decisions(self, machine):
        """What is done by number is what is done by name."""
        decisions = bs.load_decisions(machine)
        assert decisions.names == ("working", "broken")
        np.testing.assert_allclose(decisions.mdp.actions[1].value, by_hand(7.0, 0.05).value)
        assert bs.policy_iteration(decisions.mdp).policy[0] == 1
        assert bs.load_decisions(Path(machine), discount=0.5).discount == 0.5
        assert bs.load_decisions("gym:FrozenLake-v1").mdp.num_states == 16
        with pytest.raises(bs.InputError, match="random_chain: has no actions; pass a"):
            bs.load_decisions("random_chain")
        with pytest.raises(bs.InputError, match="there is no such file"):
            bs.load_decisions("nowhere.toml")

    def test_no_such_file(self):
        with pytest.raises(bs.InputError, match="there is no such file"):
            load_model("nowhere.toml")


class TestGymnasium:
    @pytest.mark.parametrize(("name", "num"), [("FrozenLake-v1", 16), ("CliffWalking-v1", 48), ("Taxi-v4", 500)])
    def test_values_by_iterating_its_own_table(self, name, num):
        decisions = read_gymnasium(name, 0.9)
        model = decisions.under("uniform").mrp
        assert model.num_states == num
        import gymnasium

        table = gymnasium.make(name).unwrapped.P
        value = np.zeros(num)
        for _ in range(400):
            backups = [[sum(p * (r + 0.9 * value[y] * (not end)) for p, y, r, end in table[x][a]) for a in table[x]]
                       for x in range(num)]  # fmt: skip
            value = np.array([np.mean(row) for row in backups])
        np.testing.assert_allclose(model.value, value, atol=1e-9)

    def test_without_a_model(self):
        with pytest.raises(bs.InputError, match="has no table of what can happen"):
            load_model("gym:Blackjack-v1", policy="uniform")
        with pytest.raises(bs.InputError, match="gym:Nothing-v7"):
            load_model("gym:Nothing-v7")

    def test_needs_a_policy(self):
        with pytest.raises(bs.InputError, match="say which is taken there"):
            load_model("gym:FrozenLake-v1")


class TestArrays:
    def test_back_and_forth(self, tmp_path):
        mrp = bs.environments.make("random_chain")
        save_npz(tmp_path / "chain.npz", mrp, [f"s{i}" for i in range(mrp.num_states)])
        found = load_model(str(tmp_path / "chain.npz"))
        assert found.names[3] == "s3"
        np.testing.assert_allclose(found.mrp.value, mrp.value)
        assert load_model(str(tmp_path / "chain.npz"), discount=0.5).mrp.discount == 0.5

    def test_dense(self, tmp_path):
        np.savez(tmp_path / "two.npz", transitions=np.eye(2)[::-1], rewards=[1.0, 0.0], discount=0.5)
        np.testing.assert_allclose(read_npz(tmp_path / "two.npz").mrp.value, [4 / 3, 2 / 3])

    def test_bad_input(self, tmp_path):
        np.savez(tmp_path / "no.npz", rewards=[1.0])
        with pytest.raises(bs.InputError, match="has no array 'transitions', only rewards"):
            read_npz(tmp_path / "no.npz")
        (tmp_path / "no.npz").write_bytes(b"nothing")
        with pytest.raises(bs.InputError, match=r"cannot be read as \.npz"):
            read_npz(tmp_path / "no.npz")
        np.savez(tmp_path / "no.npz", transitions=np.eye(2), rewards=[1.0, 0.0], discount=0.5, names=["one"])
        with pytest.raises(bs.InputError, match="1 names for 2 states"):
            read_npz(tmp_path / "no.npz")
        with pytest.raises(bs.InputError, match="write a TOML file"):
            save_npz(tmp_path / "no.npz", bs.environments.make("tree_gaussian"))

    def test_names_are_text(self, tmp_path):
        np.savez(tmp_path / "two.npz", transitions=np.eye(2)[::-1], rewards=[1.0, 0.0], discount=0.5, names=[7, 8])
        assert load_model(str(tmp_path / "two.npz")).names == ("7", "8")

    @pytest.mark.parametrize("names", [["one"], ["one", "one"]])
    def test_names_to_save(self, tmp_path, names):
        model = bs.MRP(np.eye(2), [0.0, 1.0], 0.5)
        with pytest.raises(bs.InputError, match="names: "):
            save_npz(tmp_path / "no.npz", model, names)
        assert not (tmp_path / "no.npz").exists()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"discount": [0.5, 0.5]}, "discount: has shape (2,); save one number"),
            ({"discount": "half"}, "discount: holds <U4; save numbers"),
            ({"discount": 1.5}, "discount=1.5: must lie in"),
            ({"transitions": [["a", "b"], ["c", "d"]]}, "transitions: holds <U1; save numbers"),
            ({"rewards": 1.0}, "rewards: has shape ()"),
            ({"rewards": ["a", "b"]}, "rewards: holds <U1"),
            ({"termination": [0.0, 0.0]}, "unknown key in the file 'termination'. Did you mean 'terminations'?"),
            ({"transitions_data": [1.0], "transitions_indices": [0], "transitions_indptr": [0, 1, 1],
              "transitions_shape": [2, 2]}, "both transitions and transitions_data"),
            ({"names": np.array(["a", 3], dtype=object)}, "names holds objects of Python's"),
            ({"names": [["a", "b"]]}, "shape (1, 2)"),
        ],
    )  # fmt: skip
    def test_bad_arrays(self, tmp_path, change, message):
        np.savez(tmp_path / "no.npz", **{"transitions": np.eye(2), "rewards": [1.0, 0.0], "discount": 0.5} | change)
        with pytest.raises(bs.InputError) as raised:
            load_model(str(tmp_path / "no.npz"))
        assert message in str(raised.value)
        assert str(tmp_path / "no.npz") in str(raised.value)

    @pytest.mark.parametrize("change", [{"indices": [0, 9]}, {"shape": [2]}, {"shape": [0.5, 2.0]}, {"indptr": [0, 7]}])
    def test_bad_sparse(self, tmp_path, change):
        parts = {"data": [1.0, 1.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2]} | change
        arrays = {f"transitions_{key}": value for key, value in parts.items()}
        np.savez(tmp_path / "no.npz", **arrays, rewards=[1.0, 0.0], discount=0.5)
        with pytest.raises(bs.InputError, match=r"no\.npz: transitions: are no sparse matrix"):
            load_model(str(tmp_path / "no.npz"))

    def test_a_matrix_alone(self, tmp_path):
        scipy.sparse.save_npz(tmp_path / "no.npz", scipy.sparse.eye_array(2, format="csr"))
        with pytest.raises(bs.InputError, match=r"write it with bs\.save_npz\(path, bs\.MRP"):
            load_model(str(tmp_path / "no.npz"))

    def test_other_files(self, tmp_path):
        np.save(tmp_path / "an.npy", np.eye(2))
        array = (tmp_path / "an.npy").read_bytes()
        np.savez(tmp_path / "whole.npz", transitions=np.eye(2))
        whole = bytearray((tmp_path / "whole.npz").read_bytes())
        whole[60:90] = bytes(30)
        for content in (b"", array, np.random.default_rng(0).bytes(300), bytes(whole)):
            (tmp_path / "no.npz").write_bytes(content)
            with pytest.raises(bs.InputError, match=r"no\.npz cannot be read as \.npz") as raised:
                load_model(str(tmp_path / "no.npz"))
            assert "pickle" not in str(raised.value)
        with zipfile.ZipFile(tmp_path / "no.npz", "w") as file:
            file.writestr("readme.txt", "nothing")
        with pytest.raises(bs.InputError, match=r"readme\.txt is no array"):
            load_model(str(tmp_path / "no.npz"))


class TestGraph:
    def test_of_networkx(self):
        graph = networkx.DiGraph()
        graph.add_node("a", reward=1.0)
        graph.add_edge("a", "b", probability=0.5)
        graph.add_edge("b", "a", reward=2.0)
        model = from_networkx(graph, 0.5)
        assert model.names == ("a", "b")
        # v(a) = 1 + 0.25 v(b), v(b) = 2 + 0.5 v(a)
        np.testing.assert_allclose(model.mrp.value, [1.5 / 0.875, 2 + 0.75 / 0.875])

    def test_undirected(self):
        with pytest.raises(bs.InputError, match="pass a DiGraph"):
            from_networkx(networkx.Graph(), 0.5)

    def test_equally_likely(self):
        mrp = from_networkx(networkx.DiGraph([(1, 2), (1, 1), (2, 1)]), 0.5).mrp
        np.testing.assert_allclose(mrp.transitions.toarray(), [[0.5, 0.5], [1.0, 0.0]])

    @pytest.mark.parametrize(
        ("edges", "message"),
        [
            ([(1, "1", {})], "the nodes 1 and '1' are both called '1'"),
            ([("a", "b", {"probability": 0.3}), ("a", "c", {})], "edges of node 'a', that to 'c' has no 'probability'"),
            ([("a", "b", {"probability": "x"})], "the edge from 'a' to 'b' has probability='x'"),
            ([("a", "b", {"probability": 0.7}), ("a", "a", {"probability": 0.7})], "state 'a'"),
            ([("a", "b", {"probability": float("nan")})], "state 'a'"),
            ([("a", "end", {})], "call the state something else"),
        ],
    )
    def test_bad_edges(self, edges, message):
        with pytest.raises(bs.InputError) as raised:
            from_networkx(networkx.DiGraph(edges), 0.5)
        assert message in str(raised.value)

    def test_no_graph(self):
        with pytest.raises(bs.InputError, match="is no graph; pass a networkx"):
            from_networkx([("a", "b")], 0.5)

    def test_an_attribute_that_nothing_has(self):
        graph = networkx.DiGraph([("a", "b", {"prob": 0.5})])
        with pytest.raises(bs.InputError, match="Did you mean 'prob'"):
            from_networkx(graph, 0.5, probability="probs")
        with pytest.raises(bs.InputError, match="'gain'"):
            from_networkx(graph, 0.5, reward="gain")


class TestLog:
    @pytest.fixture
    def log(self, tmp_path):
        """Transitions drawn from the machine."""
        rng = np.random.default_rng(0)
        rows = []
        for _ in range(2_000):
            rows.append(("working", 10, rng.choice(["working", "broken"], p=[0.8, 0.2])))
            rows.append(("broken", *[(-20, "working"), (-50, "")][rng.random() < 0.25]))
        pd.DataFrame(rows, columns=["state", "reward", "next_state"]).to_csv(tmp_path / "log.csv", index=False)
        return str(tmp_path / "log.csv")

    def test_frequencies(self, tmp_path):
        (tmp_path / "log.csv").write_text("state,reward,next_state\na,1,a\na,1,b\na,3,b\na,1,b\nb,0,end\nb,4,\n")
        mrp = load_model(str(tmp_path / "log.csv"), discount=0.5).mrp
        np.testing.assert_allclose(mrp.transitions.toarray(), [[0.25, 0.75], [0, 0]])
        np.testing.assert_allclose(mrp.mean_rewards, [1.5, 2.0])
        # P(reward 3, next b) is one of four, which a reward that is independent of the next state would not give.
        o = mrp.outcomes
        assert o.probability[(o.state == 0) & (o.successor == 1)].tolist() == [0.5, 0.25]

    def test_spaces_after_commas(self, tmp_path):
        (tmp_path / "log.csv").write_text("state, reward, next_state\na, 1, b\nb, 2, end\n")
        model = load_model(str(tmp_path / "log.csv"), discount=0.5)
        assert model.names == ("a", "b")
        np.testing.assert_allclose(model.mrp.value, [2.0, 2.0])

    def test_close_to_the_truth_and_its_interval_holds_it(self, log):
        found = load_log(log)
        solution = bs.solve(found.model(0.9).mrp, num_features=30)
        truth = by_hand(10.0, 0.2)
        order = [found.names.index(name) for name in ("working", "broken")]
        low, high = bootstrap_answers(found, solution, num=30)
        table = answers(solution)
        for column, exact in (("mean", truth.value), ("sd", np.sqrt(truth.return_variance))):
            assert np.all(low[column].to_numpy()[order] < exact)
            assert np.all(exact < high[column].to_numpy()[order])
            np.testing.assert_allclose(table[column].to_numpy()[order], exact, atol=2.0)
        assert np.all(low["mean"] < high["mean"])

    def test_lines_that_are_alike_say_nothing_of_the_spread(self, tmp_path):
        """As docs/models.md warns."""
        (tmp_path / "log.csv").write_text("state,reward,next_state\na,1,b\nb,2,\nb,2,\nc,0,\nc,9,\n")
        log = load_log(str(tmp_path / "log.csv"))
        rng = np.random.default_rng(0)
        drawn = np.array([log.resampled(rng, 0.5).mrp.value for _ in range(20)])
        assert np.ptp(drawn, axis=0).tolist() == [0.0, 0.0, 9.0]
        page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
        assert "the interval has width zero, which says that nothing is known" in page

    def test_what_is_never_left(self, tmp_path):
        (tmp_path / "log.csv").write_text("state,reward,next_state\na,1,b\n")
        with pytest.raises(bs.BellsketchWarning, match="no line starts from 'b'"):
            load_model(str(tmp_path / "log.csv"))

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("state,reward\na,1\n", "has no column 'next_state', only state, reward"),
            ("state,reward,next_state\n", "has no transitions"),
            ("state,reward,next_state\na,much,a\n", "line 2 has the reward 'much'"),
            ("state,reward,next_state\n,1,a\n", "line 2 has no state"),
            ("", "cannot be read as a table"),
            ("state,reward,next_state\na,1,a,7\na,1,a\n", "line 2 has more fields"),
            ("state,reward,next_state\na,1,a,7\na,1,a,8\n", "line 2 has more fields"),
            ("state,reward,next_state\na,1,a\na,1,a,8\n", "in line 3, saw 4"),
            ("state;reward;next_state\na;1;a\n", "only state;reward;next_state; separate them by commas"),
            ("state,reward,next_state\na,1,end\nend,5,a\n", "line 3: state 'end': is what comes after the last one"),
        ],
    )
    def test_bad_input(self, tmp_path, text, message):
        (tmp_path / "log.csv").write_text(text)
        with pytest.raises(bs.InputError) as raised:
            load_model(str(tmp_path / "log.csv"))
        assert message in str(raised.value)


class TestAnswers:
    def test_against_the_truth(self):
        mrp = bs.environments.make("random_chain")
        solution = bs.solve(mrp)
        truth = bs.ground_truth(mrp).distribution
        table = answers(solution, Questions(below=0.333, entropic=1.5))
        z, p = truth.locations, truth.probabilities
        np.testing.assert_allclose(table["mean"], (z * p).sum(-1), atol=1e-4)
        np.testing.assert_allclose(table["CVaR 5%"], truth.cvar(0.05), atol=0.05)
        np.testing.assert_allclose(table["P(G < 0.333)"], (p * (z < 0.333)).sum(-1), atol=0.05)
        np.testing.assert_allclose(table["entropic 1.5"], -np.log((p * np.exp(-1.5 * z)).sum(-1)) / 1.5, atol=1e-3)

    def test_bad_input(self):
        with pytest.raises(bs.InputError, match="level 2"):
            Questions(cvar=2.0)
        with pytest.raises(bs.InputError, match="entropic=0"):
            Questions(entropic=0.0)
