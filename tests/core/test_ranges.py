"""The return range, and the paper's margins."""

import numpy as np
import pytest

from bellsketch.core.errors import InputError
from bellsketch.core.ranges import ReturnRange


def test_expand_widens_both_ends_by_a_share_of_the_width():
    wide = ReturnRange(-1, 3).expand(0.25)
    assert (wide.low, wide.high, wide.width) == (-2, 4, 6)


def test_points_run_from_end_to_end():
    np.testing.assert_array_equal(ReturnRange(-1, 3).points(5), [-1, 0, 1, 2, 3])
    np.testing.assert_array_equal(ReturnRange(-1, 3).points(1), [1])


def test_grid_is_uniform_and_a_fifth_wider_on_either_side():
    grid = ReturnRange(0, 10).grid(71)
    np.testing.assert_allclose(grid.locations, np.arange(-20, 121, 2) / 10, atol=1e-13)
    np.testing.assert_array_equal(grid.probabilities, np.full(71, 1 / 71))


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, np.inf), (np.nan, 1)])
def test_what_is_no_interval_raises(low, high):
    with pytest.raises(InputError, match="low < high"):
        ReturnRange(low, high)


def test_too_few_points_raise():
    with pytest.raises(InputError, match="got 0"):
        ReturnRange(0, 1).points(0)
    with pytest.raises(InputError, match="num_points=1"):
        ReturnRange(0, 1).grid(1)
