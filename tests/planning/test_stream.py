"""Streams of slices and whole clients, against every stream that can happen."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsgt.errors import InputError
from fedsgt.planning.purpose import Purpose
from fedsgt.planning.stream import Counts, Stream, group_prior, run_stream, simulate_stream
from fedsgt.plans import NO_MODULES, Estimate, Plan, rotations
from fedsgt.plans.tree.search import tree
from fedsgt.theory import deletion_rate_clients, survival_clients

COUNTS: Counts = np.array([[1, 1, 0, 0], [0, 2, 1, 0], [0, 0, 1, 1], [1, 0, 0, 3]], dtype=np.int64)
EVEN = [Fraction(1, 4)] * 4
UNEVEN = [Fraction(1, 10), Fraction(2, 10), Fraction(3, 10), Fraction(4, 10)]
PLANS = [
    rotations(4),
    rotations(4, 2),
    tree(4, effort=0.02),
    Plan.of("stubs", 4, [(2,), (0, 3), (0, 2, 1)]),
]
State = tuple[frozenset[int], frozenset[int]]  # who left, and which groups were hit


def live(paths: Iterable[Sequence[int]], hit: Iterable[int]) -> int:
    gone = set(hit)
    return max(next((at for at, group in enumerate(path) if group in gone), len(path)) for path in paths)


def after_each(
    counts: Counts, kinds: Sequence[bool], prior: Sequence[Fraction]
) -> Iterator[dict[State, Fraction]]:
    """The chance of every state, request by request."""
    states: dict[State, Fraction] = {(frozenset(), frozenset()): Fraction(1)}
    yield states
    for whole_client in kinds:
        following: dict[State, Fraction] = defaultdict(Fraction)
        for (left, hit), chance in states.items():
            asking = sum(prior[client] for client in range(len(prior)) if client not in left)
            for client in set(range(len(prior))) - left:
                drawn, row = chance * prior[client] / asking, counts[client].tolist()
                held = frozenset(group for group, slices in enumerate(row) if slices)
                if whole_client:
                    following[left | {client}, hit | held] += drawn
                    continue
                for group in held:
                    following[left, hit | {group}] += drawn * Fraction(row[group], sum(row))
        states = following
        yield states


def brute(
    plan: Plan, counts: Counts, stream: Stream, prior: Sequence[Fraction] = EVEN
) -> tuple[list[float], list[float]]:
    lives, alive = [], []
    for states in after_each(counts, stream.kinds(), prior):
        kept = [(live(plan.sequences, hit), chance) for (_, hit), chance in states.items()]
        lives.append(float(sum(groups * chance for groups, chance in kept)))
        alive.append(float(sum(chance for groups, chance in kept if groups)))
    return lives, alive


def within(found: Sequence[Estimate], expected: Sequence[float]) -> bool:
    return all(abs(one - other) <= 5 * one.stderr for one, other in zip(found, expected, strict=True))


def random_counts(clients: int, slices: int, groups: int, rng: np.random.Generator) -> Counts:
    counts = np.zeros((clients, groups), dtype=np.int64)
    dealt = rng.permutation(np.arange(clients * slices) % groups)
    np.add.at(counts, (np.repeat(np.arange(clients), slices), dealt), 1)
    return counts


@pytest.mark.parametrize("prior", [None, (0.1, 0.2, 0.3, 0.4)])
def test_a_slice_is_drawn_by_its_client_and_then_evenly(prior: tuple[float, ...] | None) -> None:
    chances = (0.25,) * 4 if prior is None else prior
    expected = [
        sum(chance * row[group] / row.sum() for chance, row in zip(chances, COUNTS, strict=True))
        for group in range(4)
    ]
    found = group_prior(COUNTS, None if prior is None else np.array(prior))
    assert found.tolist() == pytest.approx(expected)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize("prior", [None, (0.1, 0.2, 0.3, 0.4)])
def test_slices_alone_are_independent_requests(plan: Plan, prior: tuple[float, ...] | None) -> None:
    curves = run_stream(plan, COUNTS, Stream(25, 0, prior))
    chances = group_prior(COUNTS, None if prior is None else np.array(prior))
    assert curves.live == pytest.approx(plan.expected_live(range(26), chances), abs=1e-12)
    assert curves.alive == pytest.approx(plan.survival(range(26), chances), abs=1e-12)
    assert all(value.exact for value in (*curves.live, *curves.alive))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
def test_whole_clients_alone_equal_every_order_of_leaving(plan: Plan) -> None:
    curves = run_stream(plan, COUNTS, Stream(4, 4))
    orders = list(permutations(range(4)))
    for left in range(5):
        kept = [
            live(plan.sequences, np.flatnonzero(COUNTS[list(order[:left])].sum(axis=0))) for order in orders
        ]
        assert curves.live[left] == pytest.approx(sum(kept) / len(orders), abs=1e-12)
        assert curves.alive[left] == pytest.approx(sum(map(bool, kept)) / len(orders), abs=1e-12)
        assert curves.live[left].exact


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.kind)
@pytest.mark.parametrize(("requests", "whole"), [(1, 1), (3, 1), (4, 2), (5, 3), (6, 4), (6, 1), (5, 0)])
def test_mixed_streams_equal_enumeration(plan: Plan, requests: int, whole: int) -> None:
    stream = Stream(requests, whole)
    curves = run_stream(plan, COUNTS, stream)
    lives, alive = brute(plan, COUNTS, stream)
    assert curves.live == pytest.approx(lives, abs=1e-12)
    assert curves.alive == pytest.approx(alive, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_mixed_streams_equal_enumeration_on_other_groupings(seed: int) -> None:
    counts = random_counts(4, 2, 5, np.random.default_rng(seed))
    lives, alive = brute(rotations(5, 3), counts, Stream(6, 3))
    curves = run_stream(rotations(5, 3), counts, Stream(6, 3))
    assert curves.live == pytest.approx(lives, abs=1e-12)
    assert curves.alive == pytest.approx(alive, abs=1e-12)


@pytest.mark.parametrize(("clients", "slices", "groups", "heads"), [(3, 2, 3, 3), (2, 3, 3, 2), (4, 1, 4, 4)])
def test_the_mean_over_all_balanced_groupings_is_the_closed_form(
    clients: int, slices: int, groups: int, heads: int
) -> None:
    size, curves = clients * slices // groups, []
    for dealt in product(range(groups), repeat=clients * slices):
        if set(Counter(dealt).values()) == {size} and len(set(dealt)) == groups:
            counts = np.zeros((clients, groups), dtype=np.int64)
            np.add.at(counts, (np.arange(len(dealt)) % clients, np.array(dealt)), 1)
            curves.append(run_stream(rotations(groups, heads), counts, Stream(clients, clients)))
    rate = deletion_rate_clients(clients, slices, groups, heads)
    assert np.mean([curve.rate for curve in curves]) == pytest.approx(float(rate))
    for left in range(clients + 1):
        alive = float(survival_clients(clients, slices, groups, heads, left))
        assert np.mean([curve.alive[left] for curve in curves]) == pytest.approx(alive, abs=1e-12)


@pytest.mark.parametrize(("slices", "printed"), [(2, 7.92), (5, 4.76), (10, 2.95)])
def test_random_groupings_come_near_the_closed_form(slices: int, printed: float) -> None:
    rng = np.random.default_rng(slices)
    counts = [random_counts(10, slices, 10, rng) for _ in range(150)]
    rates = [run_stream(rotations(10), each, Stream(10, 10)).rate for each in counts]
    expected = float(deletion_rate_clients(10, slices, 10, 10))
    assert round(expected, 2) == printed
    assert abs(np.mean(rates) - expected) < 5 * np.std(rates) / np.sqrt(len(rates))


@pytest.mark.parametrize(("requests", "whole"), [(8, 0), (4, 4), (9, 3)])
def test_simulation_agrees_with_the_exact_curves(requests: int, whole: int) -> None:
    plan, stream = rotations(4), Stream(requests, whole)
    exact, found = run_stream(plan, COUNTS, stream), simulate_stream(plan, COUNTS, stream, None)
    assert within(found.live, exact.live)
    assert within(found.alive, exact.alive)
    assert found.live[0].exact
    assert all(value.stderr > 0 for value in found.live[1:])


@pytest.mark.parametrize(("requests", "whole"), [(3, 1), (4, 4), (6, 3)])
def test_whole_clients_under_an_uneven_prior_are_simulated(requests: int, whole: int) -> None:
    plan, stream = rotations(4, 3), Stream(requests, whole, tuple(map(float, UNEVEN)))
    curves = run_stream(plan, COUNTS, stream)
    assert all(value.stderr > 0 for value in (*curves.live[1:], *curves.alive[1:]))
    lives, alive = brute(plan, COUNTS, stream, UNEVEN)
    assert within(curves.live, lives)
    assert within(curves.alive, alive)
    assert run_stream(plan, COUNTS, stream) == curves


def test_those_left_are_drawn_by_their_own_shares_when_nearly_all_the_chance_has_gone() -> None:
    prior = [Fraction(1, 10**9), Fraction(2, 10**9), 1 - Fraction(6, 10**9), Fraction(3, 10**9)]
    plan, stream = rotations(4), Stream(4, 3, tuple(map(float, prior)))
    lives, alive = brute(plan, COUNTS, stream, prior)
    curves = run_stream(plan, COUNTS, stream)
    assert within(curves.live, lives)
    assert within(curves.alive, alive)


def test_an_even_prior_needs_no_simulation() -> None:
    plain = run_stream(rotations(4), COUNTS, Stream(6, 3))
    assert run_stream(rotations(4), COUNTS, Stream(6, 3, (0.25,) * 4)) == plain
    assert plain.live[-1].exact


def test_more_than_twenty_groups_are_simulated() -> None:
    counts = random_counts(6, 4, 24, np.random.default_rng(1))
    curves = run_stream(rotations(24), counts, Stream(6, 6))
    assert [value.stderr > 0 for value in curves.live] == [False] + [True] * 6
    assert curves.alive[6] == 0.0
    assert curves.live[1] > curves.live[2]


def test_nobody_else_is_hit_when_only_some_may_ask() -> None:
    counts: Counts = np.eye(4, dtype=np.int64)
    curves = run_stream(rotations(4), counts, Stream(2, 2, (0.0, 0.5, 0.5, 0.0)))
    assert curves.live[2] == 2.0
    assert curves.alive[2] == 1.0


@given(requests=st.integers(0, 40), data=st.data())
def test_whole_clients_are_spread_evenly(requests: int, data: st.DataObject) -> None:
    whole = data.draw(st.integers(0, requests))
    kinds = Stream(requests, whole).kinds()
    assert len(kinds) == requests
    assert sum(kinds) == whole
    at = [-1, *(index for index, leaves in enumerate(kinds) if leaves)]
    gaps = [after - before for before, after in pairwise(at)]
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_no_request_leaves_everything_live() -> None:
    curves = run_stream(rotations(4), COUNTS, Stream(0))
    assert curves.live == [4.0]
    assert curves.alive == [1.0]


def test_curves_only_fall() -> None:
    curves = run_stream(rotations(4), COUNTS, Stream(12, 4))
    for curve in (curves.live, curves.alive):
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(curve))
    assert curves.alive[-1] == 0.0


@pytest.mark.parametrize(
    ("requests", "whole", "message"),
    [
        (-1, 0, "requests: -1 is negative; at least 0"),
        (3, -1, "client requests: -1 is not from 0 to 3 (all requests)"),
        (3, 4, "client requests: 4 is not from 0 to 3 (all requests)"),
    ],
)
def test_impossible_numbers_are_refused(requests: int, whole: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Stream(requests, whole)
    assert str(caught.value) == message


@pytest.mark.parametrize(("prior", "most"), [(None, 4), ((0.0, 0.5, 0.5, 0.0), 2)])
def test_more_clients_than_can_leave_are_refused(prior: tuple[float, ...] | None, most: int) -> None:
    with pytest.raises(InputError, match=f"^client requests: 5, but only {most} clients can leave$"):
        run_stream(rotations(4), COUNTS, Stream(9, 5, prior))


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ((0.5, 0.5), "prior: 2 values for 4 clients; give one for each client"),
        ((0.5, 0.5, 0.5, 0.5), "prior: the values sum to 2; they must sum to 1"),
        (
            (0.5, 1.0, -0.5, 0.0),
            "prior: [0.5, 1.0, -0.5, 0.0] holds a value that is negative or not finite",
        ),
    ],
)
def test_a_prior_that_is_none_is_named(prior: tuple[float, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        run_stream(rotations(4), COUNTS, Stream(3, 0, prior))
    assert str(caught.value) == message


def test_the_stream_of_a_purpose() -> None:
    made = partial(Stream.for_purpose, requests=30, clients=11, prior=None)
    assert made(Purpose.RECORDS) == Stream(30)
    assert made(Purpose.CLIENTS) == Stream(5, 5)
    assert made(Purpose.BOTH) == Stream(30, 5)
    assert made(Purpose.BOTH, requests=2) == Stream(5, 5)
    prior = (0.5, 0.25, 0.25, *[0.0] * 8)
    assert made(Purpose.CLIENTS, prior=prior) == Stream(1, 1, prior)


@pytest.mark.parametrize("groups", [4, 25])
def test_a_plan_without_modules_is_never_alive(groups: int) -> None:
    counts = np.ones((3, groups), dtype=np.int64)
    curves = run_stream(Plan.of(NO_MODULES, groups, ()), counts, Stream(4, 2))
    assert sum(curves.alive) == sum(curves.live) == 0
    assert len(curves.alive) == len(curves.live) == 5
    assert all(value.exact for value in (*curves.alive, curves.rate))
