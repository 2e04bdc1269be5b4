"""Plans of several shards: what SISA, S3T and FedCIO train, by hand."""

import itertools
from functools import partial

import numpy as np
import pytest

from fedsgt.errors import InputError
from fedsgt.plans import KINDS, NO_MODULES, Plan, kinds, make
from fedsgt.plans.tree.search import tree

TRAINING = [kind for kind in KINDS if kind != NO_MODULES]


@pytest.fixture(autouse=True)
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "tree", partial(tree, effort=0.01))


def test_sisa_has_one_order_in_each_shard() -> None:
    plan = make("rotations", 5, 1, shards=2)
    assert plan.sequences == ((0, 1, 2), (3, 4))
    assert [module.prefix for module in plan.modules] == [(0,), (0, 1), (0, 1, 2), (3,), (3, 4)]
    assert plan.passes == (1 + 2 + 3 + 1 + 2) / 5


def test_s3t_has_several_orders_in_each_shard() -> None:
    plan = make("rotations", 6, 2, shards=2)
    assert plan.sequences == ((0, 1, 2), (1, 2, 0), (3, 4, 5), (4, 5, 3))
    assert plan.roots == (0, 1, 3, 4)
    assert plan.passes == 4 * 6 / 6


def test_fedcio_has_one_group_in_each_shard() -> None:
    plan = make("rotations", 5, 1, shards=5)
    assert plan.sequences == ((0,), (1,), (2,), (3,), (4,))
    assert plan.passes == 1
    assert plan.deletion_rate() == pytest.approx(11.4167, abs=1e-4)


@pytest.mark.parametrize("kind", TRAINING)
def test_no_sequence_leaves_its_shard_and_every_group_has_its_turn(kind: str) -> None:
    plan = make(kind, 7, 2, shards=3)
    assert plan.kind == kind
    shards = [{0, 1, 2}, {3, 4}, {5, 6}]
    assert all(any(set(path) <= shard for shard in shards) for path in plan.sequences)
    assert set().union(*map(set, plan.sequences)) == set(range(7))


@pytest.mark.parametrize("kind", TRAINING)
def test_every_shard_has_the_passes_over_its_own_data(kind: str) -> None:
    """Alike shards are planned alike, and all together keep within the cost."""
    plan = make(kind, 8, passes=5, shards=2)
    first = [path for path in plan.sequences if path[0] < 4]
    second = [tuple(group - 4 for group in path) for path in plan.sequences if path[0] >= 4]
    assert first == second == list(make(kind, 4, passes=5).sequences)
    assert plan.passes == Plan.of(kind, 4, first).passes <= 5


def test_a_prior_is_cut_with_the_groups() -> None:
    chances = [0.02, 0.08, 0.3, 0.1, 0.3, 0.2]
    plan = make("greedy", 6, 1, prior=chances, shards=2)
    assert plan.sequences == ((0, 1, 2), (3, 5, 4)), "in each shard those hit least come first"
    assert plan.sequences[1] == tuple(
        3 + group for group in make("greedy", 3, 1, prior=np.array(chances[3:]) / 0.6).sequences[0]
    )
    unasked, asked = make("greedy", 4, 1, prior=[0, 0, 0.9, 0.1], shards=2).sequences
    assert (sorted(unasked), asked) == ([0, 1], (3, 2)), "a shard that no request hits has any order"


def test_scores_of_shards_agree_with_all_streams_of_three_requests() -> None:
    plan = make("rotations", 4, 1, shards=2)  # [0, 1] and [2, 3]
    live, alive = [], []
    for stream in itertools.product(range(4), repeat=3):
        depths = [next((d for d, g in enumerate(path) if g in stream), len(path)) for path in plan.sequences]
        live.append(max(depths))
        alive.append(max(depths) > 0)
    assert plan.expected_live(3) == pytest.approx(np.mean(live))
    assert plan.survival(3) == pytest.approx(np.mean(alive))
    assert plan.deletion_rate() == pytest.approx(4 / 2 + 4 / 1), "both first groups"


def test_rounds_are_those_of_the_shards_a_client_is_in() -> None:
    plan = make("rotations", 4, 1, shards=2)
    counts = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]])
    assert plan.client_rounds(counts).tolist() == [2, 1, 2]


def test_progress_goes_on_from_shard_to_shard() -> None:
    shares: list[float] = []
    make("tree", 7, shards=2, progress=shares.append)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.5 <= shares[-1] <= 1


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (5, r"^shards: 5 for 4 groups; at most one for each group$"),
        (0, r"^shards: 0 is too few; at least 1 is needed$"),
        (1.5, r"^shards: 1.5 is not a whole number$"),
    ],
)
def test_shards_that_cannot_be(shards: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("rotations", 4, shards=shards)


def test_passes_are_too_little_for_the_largest_shard_only() -> None:
    assert make("rotations", 5, passes=2, shards=2).passes <= 2
    with pytest.raises(InputError, match=r"^passes: 1.5 is too little; one order of 3 groups takes 2$"):
        make("rotations", 5, passes=1.5, shards=2)
