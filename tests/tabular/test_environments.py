import numpy as np
import pytest

import bellsketch as bs
from cases import model


def test_all_names_can_be_made_and_discounts_changed():
    assert len(bs.environments.NAMES) == 14
    for name in bs.environments.NAMES:
        assert bs.environments.make(name, 0.5).discount == 0.5
        assert model(name).discount == 0.9


@pytest.mark.parametrize(
    ("name", "value"),
    [  # by hand
        ("directed_chain", 0.9 ** np.arange(4, -1, -1)),
        ("tree", [0.9 * (5 + 0.9 * 0) / 2, 5, 0, -10, 10]),
        ("cycle", 0.9 ** np.array([0, 4, 3, 2, 1]) / (1 - 0.9**5)),
        ("sutton_barto18", [0.675, 0.75]),
        # loopy tree: V1 = 0.45 (V2 + V3), V2 = 5 + 0.9 V1, V3 = 0
        ("loopy_tree", [2.25 / (1 - 0.405), 5 + 0.9 * 2.25 / (1 - 0.405), 0, -10, 10]),
        # loopy fork: V1 = 0.81 (1/3 + 0.9 V1), as the mean reward of states 3 and 4 is 2/3 − 1/3
        ("loopy_fork", [0.27 / (1 - 0.729), 0.3 / (1 - 0.729), -1 + 0.243 / 0.271, 1 + 0.243 / 0.271]),
    ],
)
def test_values_by_hand(name, value):
    np.testing.assert_allclose(model(name).value, value, atol=1e-12)


def test_random_chain_by_hand():
    """V satisfies V_k = 0.45 (V_{k−1} + V_{k+1}) inside, with reward 1 at the last state and 0 beyond both ends."""
    v = np.concatenate([[0.0], model("random_chain").value, [0.0]])
    np.testing.assert_allclose(v[1:-1], 0.45 * (v[:-2] + v[2:]) + (np.arange(10) == 9), atol=1e-12)


def test_gaussian_variants_keep_means_and_add_unit_variance():
    for name in bs.environments.NAMES:
        if not name.endswith("_gaussian"):
            continue
        plain, gaussian = model(name.removesuffix("_gaussian")), model(name)
        np.testing.assert_allclose(gaussian.value, plain.value)
        assert {r.variance for r in gaussian.rewards if r.mean != 0} == {1.0}
        assert [r.mean for r in gaussian.rewards if r.is_deterministic] == [0.0]


def test_unknown_names():
    with pytest.raises(bs.UnknownNameError, match=r"'randm_chain'.*Did you mean 'random_chain'.*Known: cycle, "):
        bs.environments.make("randm_chain")
    with pytest.raises(bs.UnknownNameError):
        bs.environments.make("rowland23_gaussian")
