"""The numbers of requests that plans are compared at, and the law of the groups hit."""

import pytest

from fedsgt.plans import rotations
from fedsgt.plans.tree.level_scores import requests_compared, unhit_distribution
from fedsgt.theory import distinct_groups


def test_the_search_watches_at_least_sixty_requests() -> None:
    assert requests_compared(10) == list(range(61))
    assert requests_compared(16)[-1] > 2 * rotations(16).deletion_rate()


def test_unhit_counts_are_the_law_of_the_groups_hit() -> None:
    table = unhit_distribution(5, 7)
    for requests in range(8):
        for hit in range(6):
            assert table[requests, 5 - hit] == pytest.approx(
                float(distinct_groups(5, requests, hit)), abs=1e-15
            )
