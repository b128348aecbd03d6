"""What pages say is so: code runs, numbers in comments are real, commands exist, messages are those of the code."""

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import bellsketch as bs
from bellsketch import cli
from website import errors_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBERS = re.compile(r"#\s*((?:-?\d[\d.]*(?:e-?\d+)?(?:, )?)+)")
CITATION = re.compile(r"\b([A-Z][a-zé]+)(?: et al\.| (?:&|and) [A-Z]\w+)?(?:, | \()((?:19|20)\d\d)\b")


def blocks(text, kind):
    """The fenced blocks of a language; of none, for an empty word."""
    return [code for word, code in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if word == kind]


def said(line):
    """The numbers that a comment begins with, and half of the last digit of each."""
    found = NUMBERS.search(line)
    numbers = re.findall(r"-?\d[\d.]*(?:e-?\d+)?", found[1]) if found else []
    halves = []
    for number in numbers:
        mantissa, _, exponent = number.partition("e")
        halves.append(0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))
    return [float(number) for number in numbers], halves


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A place with the repository's examples: pages are read in the repository, and write where they are run."""
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(ROOT / "examples")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        pytest.param("docs/explore.md", marks=pytest.mark.slow),
        pytest.param("docs/README.md", marks=pytest.mark.slow),
        pytest.param("docs/getting_started.md", marks=pytest.mark.slow),
        pytest.param("docs/choosing_features.md", marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_code_runs_and_comments_are_true(page):
    names, checked = {}, 0
    for code in blocks((ROOT / page).read_text(encoding="utf-8"), "python"):
        lines = code.splitlines()
        for node in ast.parse(code).body:
            if not isinstance(node, ast.Expr):
                exec(compile(ast.Module([node], []), page, "exec"), names)
                continue
            value = eval(compile(ast.Expression(node.value), page, "eval"), names)
            numbers, halves = said(lines[node.end_lineno - 1][node.end_col_offset :])
            if numbers:
                np.testing.assert_array_less(np.abs(np.ravel(value) - numbers), np.multiply(halves, 1.2), err_msg=code)
                checked += 1
    assert checked or page == "docs/README.md"
    plt.close("all")


def readme_commands():
    lines = [line.partition("  #")[0].strip() for block in blocks(README, "") for line in block.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("bellsketch ")]


def test_there_are_commands():
    assert len(readme_commands()) >= 15


@pytest.mark.parametrize("command", readme_commands())
def test_commands_of_the_readme_are_understood(command):
    _, name, *_ = shlex.split(command)
    assert type(cli._parse(shlex.split(command)[1:])).__name__ == cli.COMMANDS[name]


QUICK = ("solve examples/machine.toml", "doctor")
"""Of the README's commands; the others take longer."""
HOURS = re.compile(r"train sketch_dqn (Breakout|pong)|runs/breakout|explore")
"""Or until they are stopped."""


def takes(command):
    arguments = command.removeprefix("bellsketch ")
    return "seconds" if arguments.startswith(QUICK) else "hours" if HOURS.search(arguments) else "minutes"


def in_order():
    """Lists of commands, each with those that use what it writes."""
    groups = {}
    for command in readme_commands():
        words = shlex.split(command)
        out = words[words.index("--out") + 1] if "--out" in words else command
        used = next((written for written in groups if written in words), out)
        groups.setdefault(used, []).append(command)
    return [group for group in groups.values() if takes(group[0]) != "hours"]


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param(group, marks=() if takes(group[0]) == "seconds" else pytest.mark.slow, id=group[0].split(" --")[0])
        for group in in_order()
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_commands_of_the_readme_work(commands, capsys):
    for command in commands:
        words = shlex.split(command)[1:]
        assert cli.main(words) == 0
        out = capsys.readouterr().out
        if "--json" in words:
            assert json.loads(out)["num_features"] == 100
        else:
            assert out
        for option in ("--plot", "--csv"):
            if option in words:
                assert Path(words[words.index(option) + 1]).stat().st_size > 100


def test_the_model_of_the_page_is_in_the_repository():
    (model,) = blocks((ROOT / "docs" / "models.md").read_text(encoding="utf-8"), "toml")
    assert (ROOT / "examples" / "machine.toml").read_text(encoding="utf-8") == model


@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md", "docs/models.md", "docs/methods/control.md"])
def test_models_that_pages_solve_are_in_the_repository(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"""(?:bellsketch solve |load_\w+\(["'])(\S+\.toml)""", text))
    assert named
    assert all((ROOT / name).is_file() for name in named)


def test_decisions_of_the_page_of_models(monkeypatch):
    monkeypatch.chdir(ROOT)
    (code,) = blocks((ROOT / "docs" / "models.md").read_text(encoding="utf-8"), "python")
    names = {"bs": bs}
    exec(code, names)
    best = names["decisions"].best()
    assert f"decisions.best()  # {best}" in code
    actions = [list(names["decisions"].outcomes[name]) for name in best]
    assert names["control"].policy[0] == actions[0].index(best["working"])


def test_messages_on_the_page_of_errors_are_real():
    page = errors_page.PAGE.read_text(encoding="utf-8")
    assert errors_page.filled(page) == page  # python -m website.errors_page writes it again
    shown = set(re.findall(r"^(\w+(?:Error|Warning)): ", page, re.MULTILINE))
    raised = {"InputError", "UnknownNameError", "MissingRewardError", "ToleranceError", "DivergenceError"}
    assert raised | {"AllocationError", "BellsketchWarning"} == shown
    assert shown | {"BellsketchError"} == {n for n in bs.__all__ if n.endswith(("Error", "Warning"))}
    page = '```python\nbs.solve(mrp, features="sigmod")\n```\n\n```text\nUnknownNameError: something else\n```\n'
    assert "Did you mean 'sigmoid'" in errors_page.filled(page)
    with pytest.raises(ValueError, match="nothing is wrong"):
        errors_page.filled("```python\n1 + 1\n```\n")


def test_every_command_is_on_its_page():
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(cli.COMMANDS)


def test_whoever_is_cited_is_in_the_bibliography():
    listed = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8").split("\n- ")
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    cited = {found for path in pages for found in CITATION.findall(path.read_text(encoding="utf-8"))}
    assert ("Bellemare", "2017") in cited
    missing = {(n, y) for n, y in cited if not any(n in entry and f"({y})" in entry for entry in listed)}
    assert not missing


def test_as_a_module():
    command = [sys.executable, "-m", "bellsketch", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert done.stdout == f"bellsketch {bs.__version__}\n"
