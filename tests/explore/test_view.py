"""What the page shows, without a page."""

import dataclasses
import io

import matplotlib.image
import matplotlib.pyplot as plt
import numpy as np
import pytest

import bellsketch as bs
from bellsketch.explore.pictures import draw_errors, draw_operator, draw_returns, numbers_table, paragraph, png
from bellsketch.explore.settings import Settings
from bellsketch.explore.view import BACKUPS, features_of, look, problem

pytestmark = pytest.mark.usefixtures("quick_compiles")


@pytest.fixture(scope="module")
def view():
    return look(Settings("loopy_fork", num_features=20))


def pixels(figure):
    return matplotlib.image.imread(io.BytesIO(png(figure, dpi=50)))


class TestNumbers:
    """Against ``solve`` with the same settings, and against definitions."""

    def test_of_solve(self, view):
        returns = problem("loopy_fork").returns
        expected = bs.solve(
            bs.environments.make("loopy_fork"), num_features=20, return_range=(returns.low, returns.high)
        )
        np.testing.assert_allclose(view.solution.sketch, expected.sketch, atol=1e-10)
        assert view.certificate.bound == pytest.approx(expected.certificate.bound, rel=1e-3)
        assert f"{expected.certificate.bound:.1e}" in view.verdict()

    def test_range_of_returns(self):
        truth, returns = problem("tree").truth.distribution, problem("tree").returns
        assert (returns.low, returns.high) == (truth.locations.min(), truth.locations.max())

    def test_errors(self, view):
        truth = bs.ground_truth(bs.environments.make("loopy_fork"))
        errors = np.linalg.norm(view.solution.sketch - truth.embedding(view.solution.features), axis=1)
        np.testing.assert_allclose(view.embedding_errors, errors, rtol=1e-6)
        assert errors.max() <= view.certificate.bound
        numbers = view.numbers()
        assert numbers["largest embedding error ‖U − U^π‖"] == f"{errors.max():.1e}"
        distance = bs.cramer(view.solution.distributions, truth.distribution).max()
        assert numbers["Cramér distance of the worst drawn"] == f"{distance:.1e}"
        assert numbers["spectral radius"] == f"{view.solution.operator.spectral_radius():.3f}"

    def test_path_leads_to_the_fixed_point(self, view):
        distance = np.abs(view.path - view.solution.sketch).max(axis=(1, 2))
        assert len(distance) == BACKUPS + 1
        np.testing.assert_allclose(view.path[0], np.tile(view.solution.features(0.0), (4, 1)))
        assert distance[-1] < 0.02 * distance[0]

    def test_certificate_holds_for_others(self):
        view = look(Settings("cycle", "gaussian", 8))
        assert view.embedding_errors.max() <= view.certificate.bound

    def test_what_the_truth_is_off_by_is_no_error(self):
        """Polynomials are exact here, and the truth is on a grid: it is off by more than the bound."""
        view = look(Settings("loopy_fork", "polynomial", 8))
        assert view.problem.truth.method == "grid"
        assert view.certificate.bound < view.embedding_errors.max() < view.resolution
        assert view.numbers()["largest embedding error ‖U − U^π‖"] == "below 1e-06, what the truth is off by"


class TestFeatures:
    def test_defaults_are_those_of_the_library(self):
        returns = bs.ReturnRange(-1.0, 3.0)
        for family in bs.FAMILIES:
            if family == "polynomial":  # which is scaled to the regression's range by default
                continue
            ours = features_of(Settings(family=family, num_features=7), returns)
            z = np.linspace(-2.0, 4.0, 50)
            np.testing.assert_allclose(ours(z), bs.make_features(family, returns, 7)(z), atol=1e-12)

    def test_slope_does_not_follow_the_anchors(self):
        returns = bs.ReturnRange(0.0, 2.0)
        features = features_of(Settings(slope_factor=3.0, anchors=(0.25, 0.5), num_features=3), returns)
        np.testing.assert_allclose(features.anchors, [0.5, 0.75, 1.0])
        assert features.slope == pytest.approx(3.0 * 5 * 4.0 / 2.0)


class TestNotes:
    def test_nothing_to_say(self, view):
        assert view.notes == ()

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (Settings("tree", anchors=(0.0, 0.5)), "Widen the anchors"),
            (Settings("tree", num_features=20, slope_factor=0.1, ridge=1e-3), "of 20 directions"),
            (Settings("cycle", num_features=10, intercept="none"), "never terminates"),
            (Settings("loopy_fork", "polynomial", 3, anchors=(2.0, 2.5), ridge=1e-3, intercept="none"), "not converge"),
        ],
    )
    def test_something_to_say(self, settings, words):
        assert any(words in note for note in look(settings).notes)

    def test_a_slope_for_features_that_have_none(self):
        with pytest.raises(
            bs.InputError, match="fourier features have no slope: set it back to a factor of 1, whose log₁₀ is 0"
        ):
            look(Settings("tree", "fourier", slope_factor=2.0))

    def test_a_sketch_that_cannot_be_decoded(self, view, monkeypatch):
        class Broken:
            def __call__(self, sketch):
                raise bs.DivergenceError("no")

        import bellsketch.explore.view as module

        solved = dataclasses.replace(view.solution)
        object.__setattr__(solved, "decoder", Broken())
        monkeypatch.setattr(module, "solve", lambda *_, **__: solved)
        shown = look(Settings("loopy_fork", num_features=20))
        assert shown.imputed is None
        assert "No distributions can be read off" in shown.notes[0]
        assert "Cramér distance of the worst drawn" not in shown.numbers()
        assert pixels(draw_returns(shown)).std() > 0.05

    @pytest.mark.parametrize("family", ["sigmoid", "fourier", "polynomial"])
    def test_one_feature(self, family):
        view = look(Settings("rowland23", family, 1))
        for draw in (draw_operator, draw_returns, draw_errors):
            assert pixels(draw(view)).std() > 0.02


class TestPictures:
    def test_content(self, view):
        operator, returns, errors = draw_operator(view), draw_returns(view), draw_errors(view)
        heat = next(axis for axis in operator.axes if axis.get_title().startswith("the operator")).images[0]
        np.testing.assert_array_equal(heat.get_array(), view.solution.operator.dense())
        spectrum = next(axis for axis in operator.axes if axis.get_title().startswith("eigenvalues"))
        assert sum(len(line.get_xdata()) for line in spectrum.lines) == 80
        state = next(axis for axis in returns.axes if axis.get_title().startswith("state 0"))
        truth, sketch = (line.get_ydata() for line in state.lines)
        np.testing.assert_allclose(truth, view.true_distributions[0].cdf(state.lines[0].get_xdata()), atol=1e-12)
        assert 0 < np.abs(truth - sketch).max() < 0.1
        assert errors.axes[0].lines[0].get_ydata()[0] == view.certificate.bound

    def test_another_m_is_another_picture(self, view):
        other = look(Settings("loopy_fork", num_features=21))
        for draw in (draw_operator, draw_returns, draw_errors):
            assert np.abs(pixels(draw(view)) - pixels(draw(other))).max() > 0.1

    def test_nothing_is_left_open(self, view):
        before = plt.get_fignums()
        png(draw_returns(view))
        assert plt.get_fignums() == before


def test_text_is_no_markup(view):
    assert numbers_table(view).count("<span>") == 2 * len(view.numbers())
    assert paragraph("<script>", "problem") == "<p id='problem'>&lt;script&gt;</p>"
