import pytest

from bellsketch.experiments.report.results import suite_results
from made_up_suite import made_up


@pytest.fixture
def directory(tmp_path):
    return made_up(tmp_path)


@pytest.fixture
def results(directory):
    return suite_results(directory)
