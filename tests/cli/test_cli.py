import inspect
import json
import re
import shlex
import shutil
import subprocess

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

import bellsketch as bs
from bellsketch.cli import COMMANDS, _load, _parse, main
from bellsketch.experiments.catalogue import EXPERIMENTS

KEYS = {
    "environment", "features", "num_features", "intercept", "method", "mean", "max_regression_error", "operator_norm",
    "spectral_radius",
}  # fmt: skip
TRUTH_KEYS = {"embedding_sq_error", "cramer", "cramer_projection"}


def solve_json(capsys, *arguments):
    assert main(["solve", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_of_a_solution(capsys):
    record = solve_json(capsys, "random_chain", "--num-features", "30")
    assert set(record) >= KEYS
    assert not TRUTH_KEYS & set(record)
    np.testing.assert_allclose(record["mean"], bs.environments.make("random_chain").value, atol=1e-3)
    assert set(record["certificate"]) >= {"bound", "rho", "norm", "epsilon", "reason"}


def test_json_with_truth_in_both_decodings(capsys):
    fine = solve_json(capsys, "tree", "--truth")
    anchors = solve_json(capsys, "tree", "--truth", "--decode", "anchors", "--num-features", "20")
    assert set(fine) >= KEYS | TRUTH_KEYS
    assert fine["embedding_sq_error"] <= 1e-8
    assert 1 <= anchors["cramer"] / anchors["cramer_projection"] <= 1.05


def test_the_papers_form_on_the_cycle_warns(capsys):
    arguments = ("cycle", "--intercept", "none", "--method", "iterate", "--iterations", "200", "--truth", "--json")
    assert main(["solve", *arguments]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["embedding_sq_error"] > 1
    assert "warning:" in err
    assert "homogeneous" in err


def test_options_reach_the_solver(capsys):
    record = solve_json(
        capsys, "rowland23", "--features", "erf", "--num-features", "25", "--slope-factor", "0.5", "--ridge", "1e-6",
        "--discount", "0.5", "--intercept", "penalised", "--method", "iterate", "--iterations", "50",
    )  # fmt: skip
    expected = bs.environments.make("rowland23", 0.5).value
    np.testing.assert_allclose(record["mean"], expected, atol=0.05)
    assert record["features"] == "erf"
    assert record["discount"] == 0.5


DEAL = """
discount = 0.5
[states.deal.actions.safe]
reward = 1
[states.deal.actions.bold]
reward = { values = [0, 3] }
"""


def test_distributions_as_a_file(tmp_path, capsys):
    file = tmp_path / "new" / "returns.csv"
    assert main(["solve", "tree", "--num-features", "20", "--distributions", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    table = pd.read_csv(file)
    assert (table["probability"] > 0).all()
    by_state = table.assign(part=table["return"] * table["probability"]).groupby("state")[["probability", "part"]].sum()
    np.testing.assert_allclose(by_state["probability"], 1.0, atol=1e-6)
    np.testing.assert_allclose(by_state["part"], found["mean"], atol=1e-2)


def test_a_picture_of_no_kind_is_an_error_before_anything_is_computed(tmp_path, capsys):
    assert main(["solve", "nowhere.toml", "--plot", str(tmp_path / "x.foo")]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "its ending says what kind of picture it is; choose one of" in error


def test_the_best_policy_is_shown(capsys, tmp_path):
    deal = tmp_path / "deal.toml"
    deal.write_text(DEAL)
    record = solve_json(capsys, str(deal), "--policy", "optimal")
    assert record["actions"] == ["bold"]
    np.testing.assert_allclose(record["mean"], [1.5], atol=1e-3)
    assert "action" not in record["answers"]
    assert main(["solve", str(deal), "--policy", "optimal", "--risk", "exceeds:0.5"]) == 0
    shown = capsys.readouterr().out
    assert "safe" in shown
    assert "of what is still to come" in shown


def test_table_and_picture(capsys, tmp_path):
    picture = tmp_path / "deep" / "tree.png"
    assert main(["solve", "tree", "--truth", "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "certified" in out
    assert "█" in out
    assert "2.250" in out
    assert matplotlib.image.imread(picture).std() > 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["slove", "tree"], "unknown command 'slove'. Did you mean 'solve'"),
        (["solve", "randm_chain"], "Did you mean 'random_chain'"),
        (["solve", "tree", "--features", "sigmod"], "Did you mean 'sigmoid'"),
        (["solve", "tree", "--discount", "1"], "discount=1"),
        (["solve", "tree", "--num-features", "0"], "num_features=0"),
        (["reproduce", "fig5"], "Did you mean 'fig4'"),
        (["reproduce"], "one of fig2, fig2-sigmoid, fig4,"),
        (["reproduce", "fig4", "--scale", "medium"], "scale='medium'"),
        (["reproduce", "fig4", "--jobs", "0"], "jobs=0"),
        (["bench", "nonsense"], "unknown benchmark 'nonsense'. Known: "),
        (["bench", "tabula"], "Did you mean 'tabular'"),
        (["bench", "tabular", "--scale", "medium"], "scale='medium'"),
    ],
)
def test_errors_are_one_line_on_stderr(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["solve", "tree", "--num-feature", "3"], "--num-features"),
        (["train", "dqn", "pong", "--num-step", "3"], "--num-steps"),
        (["doctor", "--jsn"], "--json"),
    ],
)
def test_unknown_options_suggest_the_nearest(capsys, arguments, nearest):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert re.search(rf"Perhaps you meant.*{nearest}\b", shown, re.DOTALL)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_works(capsys, name):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    shown = " ".join(re.sub(r"\x1b\[[\d;]*m|[│╭╮╰╯]", "", capsys.readouterr().out).split())
    assert re.search(f"Examples?: bellsketch {name}", shown)
    docstring = inspect.cleandoc(_load(name).__doc__)
    examples = " ".join(docstring.partition("Example")[2].partition(":")[2].split()).split("; ")
    for example in examples:
        assert example.startswith(f"bellsketch {name}")
        assert isinstance(_parse(shlex.split(example)[1:]), _load(name))


def test_without_arguments_it_shows_its_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 0
    assert set(COMMANDS) <= set(capsys.readouterr().out.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(capsys, shell):
    with pytest.raises(SystemExit):
        main(["--tyro-print-completion", shell])
    script = capsys.readouterr().out
    assert all(word in script for word in (*COMMANDS, "num-features", "krylov"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("so", ["solve"]), ("solve tree --num-f", ["--num-features"]), ("solve tree --decode ", ["fine", "anchors"])],
)
def test_bash_completes(capsys, tmp_path, typed, offered):
    with pytest.raises(SystemExit):
        main(["--tyro-print-completion", "bash"])
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    words = " ".join(f"'{word}'" for word in ["bellsketch", *typed.split(" ")])
    code = f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _tyro_bellsketch"
    done = subprocess.run(["bash", "-c", code + "; echo ${COMPREPLY[@]}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


def test_demo(capsys, tmp_path):
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert "certified bound" in capsys.readouterr().out
    assert matplotlib.image.imread(tmp_path / "walk_through.png").shape[0] > 500


def test_compare(capsys, tmp_path):
    arguments = ["compare", "sutton_barto18", "--num", "6", "--out", str(tmp_path)]
    assert main([*arguments, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["environment"], record["num"]) == ("sutton_barto18", 6)
    rows = {row["method"]: row for row in record["methods"]}
    assert {"sketch (fine)", "sketch (anchors)", "categorical", "quantile", "expectile", "moments", "Dirac"} <= set(
        rows
    )
    for row in rows.values():
        assert {"cramer", "wasserstein", "mean_error", "setup_seconds", "seconds_per_iteration", "iterations"} <= set(
            row
        )
    assert rows["Dirac"]["cramer"] > rows["sketch (fine)"]["cramer"]
    assert rows["Dirac"]["mean_error"] < 1e-9
    assert matplotlib.image.imread(tmp_path / "sutton_barto18.png").std() > 0.01


@pytest.mark.slow
def test_compare_shows_a_table_and_a_sweep(capsys, tmp_path):
    assert main(["compare", "directed_chain", "--num", "4", "--sweep", "3", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "directed_chain, 3 numbers per state" in out
    assert "directed_chain, 4 numbers per state" in out
    assert main(["compare", "directed_chain", "--num", "0", "--out", str(tmp_path)]) == 2


def test_reproduce_lists_all_figures(capsys):
    assert main(["reproduce", "--list"]) == 0
    shown = capsys.readouterr().out.split()
    assert set(EXPERIMENTS) <= set(shown)


@pytest.mark.slow
def test_reproduce_shows_claims_and_where_things_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "runs" / "quick" / "fig2"
    for _ in range(2):  # the second time it is only drawn again
        assert main(["reproduce", "fig2", "--jobs", "1"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        claims = json.loads((out / "claims.json").read_text(encoding="utf-8"))
        verdicts = [word for word in shown.split() if word in ("yes", "no")]
        assert verdicts == ["yes" if claim["holds"] else "no" for claim in claims]
        assert "claims: runs/quick/fig2" in shown
    assert matplotlib.image.imread(out / "figure.png").std() > 0.01


def test_an_interrupted_reproduction_says_what_is_kept(capsys, monkeypatch):
    def stopped(experiment, out, *, report, **kwargs):
        report(2, 8)
        report(3, 8)
        raise KeyboardInterrupt

    monkeypatch.setattr("bellsketch.cli.running.reproduce", stopped)
    assert main(["reproduce", "fig4", "--out", "here"]) == 130
    out, err = capsys.readouterr()
    assert "stopped: 3 of 8 parts kept in here; the same command continues" in " ".join((out + err).split())
    assert "Traceback" not in err


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"bellsketch {bs.__version__}"


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (OSError(-2, "Name or service not known"), "error: [Errno -2] Name or service not known"),
        (
            PermissionError(13, "Permission denied", "/away"),
            "error: [Errno 13] Permission denied: '/away'; check the path, its permissions and the space left",
        ),
    ],
)
def test_paths_are_blamed_for_what_is_wrong_with_them_only(capsys, monkeypatch, problem, said):
    def fail():
        raise problem

    monkeypatch.setattr("bellsketch.cli._parse", lambda _: fail)
    assert main(["demo"]) == 2
    assert " ".join(capsys.readouterr().err.split()) == said
