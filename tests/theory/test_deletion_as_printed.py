"""The figures that the paper prints, and the corrected ones."""

from fractions import Fraction

import pytest

from fedsgt import theory


def test_deletion_rates() -> None:
    assert float(theory.deletion_rate(10, 10)) == pytest.approx(29.29, abs=0.005)
    assert float(theory.fedcio_deletion_rate(5)) == pytest.approx(11.42, abs=0.005)
    assert theory.deletion_rate(10, 10) / theory.fedcio_deletion_rate(5) > 2.5
    assert float(theory.requests_survived(10, 10)) == pytest.approx(28.29, abs=0.005)


def test_rounds_per_client() -> None:
    assert theory.client_rounds_independent(10, 2) == Fraction(143, 2)
    assert float(theory.client_rounds_independent(10, 5)) == pytest.approx(87.92, abs=0.005)
    assert float(theory.client_rounds_balanced(10, 2, 10)) == pytest.approx(72.37, abs=0.005)
    assert float(theory.client_rounds_balanced(10, 5, 10)) == pytest.approx(88.58, abs=0.005)


def test_rounds_against_fedcios_twelve() -> None:
    # The paper says about 5.9 times; 71.5 / 12 is 5.96.
    assert 5.9 < theory.client_rounds_independent(10, 2, 10) / 12 < 6


def test_matched_budgets() -> None:
    assert float(theory.matched_budget(10, 10)) == pytest.approx(18.18, abs=0.005)
    assert theory.matched_budget_passes(10, 10) == Fraction(20, 11)
    assert theory.passes(10, 10) == 55


@pytest.mark.parametrize(("slices", "rate"), [(2, 7.92), (5, 4.76), (10, 2.95)])
def test_whole_client_requests(slices: int, rate: float) -> None:
    assert float(theory.deletion_rate_clients(10, slices, 10, 10)) == pytest.approx(rate, abs=0.005)


def test_whole_client_requests_of_fedcio() -> None:
    assert float(theory.fedcio_deletion_rate_clients(10, 5)) == pytest.approx(6.94, abs=0.005)


def test_availability() -> None:
    assert theory.survival(10, 10, 16) >= Fraction(9, 10) > theory.survival(10, 10, 17)


def test_median_failing_request_is_the_27th() -> None:
    def failed_by(requests: int) -> Fraction:
        return 1 - theory.survival(10, 10, requests)

    assert failed_by(27) >= Fraction(1, 2) > failed_by(26)


def test_every_public_name_is_there_and_documented() -> None:
    assert theory.__all__ == sorted(theory.__all__)
    for name in theory.__all__:
        assert getattr(theory, name).__doc__
