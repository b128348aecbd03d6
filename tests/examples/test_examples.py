"""Every example runs, and draws something."""

import ast
import runpy
from pathlib import Path

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("plot_*.py"))
SMALLER = {
    "plot_baselines": {"numbers": (10, 20)},
    "plot_certificates": {"numbers": (8, 10, 12)},
    "plot_choosing_features": {"numbers": (8, 13), "slopes": (0.5, 1.0)},
    "plot_sketch_td": {"steps": 4_000},
    "plot_minatar": {
        "frames": 500, "num": 21, "records": 3, "learning_starts": 100, "replay_capacity": 1_000,
        "num_environments": 4, "batch_size": 16,
    },
}  # fmt: skip
"""Arguments of those that would take long."""

SLOW = ("plot_inventory", "plot_machine_maintenance", "plot_mean_and_risk_disagree", "plot_minatar")
"""They take five seconds or more, whatever their arguments; the site, which is built wherever tests run, has them."""


@pytest.mark.usefixtures("quick_compiles")
@pytest.mark.filterwarnings("ignore::bellsketch.core.errors.BellsketchWarning")
@pytest.mark.parametrize(
    "file",
    [pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stem in SLOW)) for file in EXAMPLES],
)
def test_example(file):
    figure = runpy.run_path(str(file))["main"](**SMALLER.get(file.stem, {}))
    try:
        assert isinstance(figure, Figure)
        assert figure.axes
        for axis in figure.axes:
            assert axis.has_data() or axis.get_label() == "<colorbar>", axis.get_title()
            assert all(np.isfinite(line.get_xydata()).all() for line in axis.lines)
        figure.canvas.draw()
        assert np.asarray(figure.canvas.buffer_rgba())[..., :3].std() > 10
    finally:
        plt.close(figure)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_form(file):
    """Short, said what one sees, and saving a picture of its own name if it is run."""
    text = file.read_text()
    assert len(text.splitlines()) < 100
    tree = ast.parse(text)
    assert len(ast.get_docstring(tree)) > 150
    last = ast.unparse(tree.body[-1])
    assert last.startswith("if __name__ == '__main__':")
    assert f"main().savefig('{file.stem.removeprefix('plot_')}.png'" in last


@pytest.mark.slow
def test_run_as_a_script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(next(file for file in EXAMPLES if file.stem == "plot_own_features")), run_name="__main__")
    plt.close("all")
    assert matplotlib.image.imread(tmp_path / "own_features.png").std() > 0.05
