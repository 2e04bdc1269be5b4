"""An estimate is a number that says how sure it is."""

import copy
import pickle

import pytest

from fedsgt.plans import Estimate


def test_it_is_a_number() -> None:
    assert Estimate(2.5, 0.1) + 1 == 3.5
    assert Estimate(2.5) == 2.5
    assert f"{Estimate(2.5, 0.1):.2f}" == "2.50"


def test_without_an_error_it_is_exact() -> None:
    assert Estimate(2.5).exact
    assert Estimate(2.5).stderr == 0
    assert not Estimate(2.5, 1e-9).exact


@pytest.mark.parametrize("show", [str, repr])
def test_only_an_inexact_one_shows_its_error(show: type[str]) -> None:
    assert show(Estimate(2.5)) == "2.5"
    assert show(Estimate(2.123456, 0.0123)) == "2.1235±0.01"


def test_copies_keep_the_error() -> None:
    estimate = Estimate(2.5, 0.25)
    for twin in (copy.copy(estimate), pickle.loads(pickle.dumps(estimate))):
        assert twin == estimate
        assert twin.stderr == 0.25
