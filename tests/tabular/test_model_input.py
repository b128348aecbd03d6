"""Numbering rewards: the fast way for numbers is the general one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bellsketch as bs
from bellsketch.tabular.model_input import _numbered

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1, -1.5, 0.1, 0.1 + 2**-56, True, np.float32(0.1), np.int8(1)]),
    st.integers(-3, 3),
    st.floats(-1e300, 1e300),
)


@given(values=st.lists(NUMBERS, min_size=1, max_size=12), distribution=st.booleans(), as_array=st.booleans())
def test_rewards_are_numbered_in_order_of_appearance(values, distribution, as_array):
    """With a distribution among them, all go the general way, one by one."""
    numbers = {}
    expected = [numbers.setdefault(float(v), len(numbers)) for v in values]  # 0.0 and −0.0 are one key
    given_values = np.array(values, dtype=np.float64) if as_array else values
    if distribution:
        given_values = [*given_values, bs.AtomicDistribution([0.0, 1.0], [0.5, 0.5])]
        expected.append(len(numbers))
    distinct, index = _numbered(given_values)
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_array_equal([r.mean for r in distinct][: len(numbers)], list(numbers))
    assert len(distinct) == len(numbers) + distribution
    assert all(not np.signbit(r.mean) for r in distinct if r.mean == 0)
    assert all(r.is_deterministic for r in distinct[: len(numbers)])


def test_zeros_of_both_signs_are_one_reward_of_a_model():
    mrp = bs.MRP(np.eye(4), [2.0, -0.0, 0.0, 2], 0.9)
    assert [(r.name, r.mean) for r in mrp.rewards] == [("2", 2.0), ("0", 0.0)]
    np.testing.assert_array_equal(mrp.outcomes.reward, [0, 1, 1, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("others", [[1.0], [1.0, bs.AtomicDistribution([0.0, 1.0], [0.5, 0.5])]])
def test_numbers_that_are_not_finite_are_refused_either_way(bad, others):
    with pytest.raises(bs.InputError, match=f"reward {bad}: rewards must be finite"):
        _numbered([*others, bad])


@pytest.mark.parametrize("bad", ["x", "", object])
def test_what_is_no_reward_is_refused(bad):
    with pytest.raises(bs.InputError, match=r"reward .*: expected a number"):
        _numbered([1.0, bad])


@pytest.mark.filterwarnings("ignore:Casting complex values")
def test_complex_numbers_are_refused():
    with pytest.raises(bs.InputError):
        _numbered([1.0, 1j])
    with pytest.raises(bs.InputError):
        _numbered(np.array([1.0, 1j]))
