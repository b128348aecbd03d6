import jax
import numpy as np
import pytest

from bellsketch.experiments.walk_through import walk_through


@pytest.mark.parametrize(("name", "share", "error"), [("fourier", 0.70, 1e-4), ("sigmoid", 0.97, 1e-7)])
def test_the_papers_claims(name, share, error):
    run = walk_through(jax.random.key(0), name)
    plane, centre, explained = run.principal_components()
    path, truth = (run.path - centre) @ plane, (run.true_embedding - centre) @ plane
    assert explained > share
    assert run.embedding_sq_error < error
    assert run.embedding_sq_error**0.5 <= run.bound
    # States 1 and 2 are nearer to state 4 than to state 3, as 2 goes to 4 more often.
    distance = np.linalg.norm(run.final[:, None] - run.final, axis=-1)
    assert np.all(distance[:2, 3] < distance[:2, 2])
    assert path.shape == (201, 4, 2)
    np.testing.assert_array_equal(run.path[0], np.tile(run.features(0.0), (4, 1)))
    np.testing.assert_allclose(path[-1], truth, atol=0.01)
