"""Settings by purpose: what they withstand, and that no group is one client's alone."""

from __future__ import annotations

import pytest

from fedsgt.planning.planner import score_plan
from fedsgt.planning.purpose import COMPANY, MOST_GROUPS, PASSES, Purpose, fewest_clients, setting_for
from fedsgt.planning.stream import Stream
from fedsgt.plans import make, rotations

CLIENTS = (3, 4, 5, 7, 10, 13, 16, 20, 33, 50)


@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("clients", CLIENTS)
def test_every_group_has_company_where_there_are_clients_for_it(purpose: Purpose, clients: int) -> None:
    assert setting_for(purpose, clients).company >= COMPANY
    assert clients < 4 or setting_for(purpose, clients, most_slices=1).company >= COMPANY


@pytest.mark.parametrize("clients", CLIENTS)
def test_a_setting_withstands_what_it_is_for(clients: int) -> None:
    records, whole, both = (setting_for(purpose, clients) for purpose in Purpose)
    assert records.groups >= both.groups >= whole.groups
    assert whole.clients_withstood >= both.clients_withstood
    assert both.clients_withstood > records.clients_withstood or clients < 6


@pytest.mark.parametrize(("clients", "withstood"), [(10, 7.67), (20, 15.3), (50, 21.8)])
def test_both_withstands_slices_as_rotations_and_whole_clients(clients: int, withstood: float) -> None:
    """At ten clients of two groups each, and from twenty on as FedCIO of ten clusters."""
    setting = setting_for(Purpose.BOTH, clients)
    assert setting.groups == MOST_GROUPS
    assert setting.clients_withstood == pytest.approx(withstood, abs=0.05)
    plan = make("tree", setting.groups, passes=PASSES)
    assert plan.passes <= PASSES
    scored = score_plan(plan, setting.counts(), Stream(30))
    assert scored.deletion_rate == pytest.approx(rotations(MOST_GROUPS).deletion_rate())
    assert scored.deletion_rate_clients == setting.clients_withstood


@pytest.mark.parametrize("groups", range(2, MOST_GROUPS + 1))
def test_a_tree_within_the_passes_has_every_group_as_a_root(groups: int) -> None:
    """All figures of a setting rely on it."""
    plan = make("tree", groups, passes=PASSES)
    assert plan.roots == tuple(range(groups))
    assert plan.passes <= PASSES


def test_the_setting_is_said_in_words() -> None:
    assert setting_for(Purpose.CLIENTS, 50).withstands() == (
        "no module is live after about 29.3 deletions of records or slices, or after about 21.8 of 50 "
        "clients left whole"
    )


def test_fewest_clients_counts_clients_and_not_slices() -> None:
    assert fewest_clients(setting_for(Purpose.RECORDS, 10).counts()) == 3
