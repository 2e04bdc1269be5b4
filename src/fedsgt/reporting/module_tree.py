"""The tree of a run's modules: its rows, for any drawing, and the SVG of the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedsgt.plans.plan import Prefix
from fedsgt.reporting.status import RunStatus
from fedsgt.words import counted

MOST_MODULES, DEEPEST = 1500, 50  # a larger drawing is slow to open and helps nobody
ROW_HEIGHT, COLUMN_WIDTH, LABEL_WIDTH = 26, 34, 74
NODE_WIDTH, NODE_HEIGHT = 26, 20


@dataclass(frozen=True)
class TreeRow:
    """One path from a root to a leaf."""

    sequence: int
    """Number of the first sequence that is this path."""
    path: Prefix
    start: int
    """Number of its modules that stand in rows above."""
    more: tuple[bool, ...]
    """Whether, for each of its modules, another child of the same parent follows in a row below."""


def tree_rows(sequences: Iterable[Sequence[int]]) -> list[TreeRow]:
    """Return the rows from top to bottom: each module once, branches below the place where they part.

    Rows follow the order of the sequences as far as branches stay together.
    """
    number: dict[Prefix, int] = {}
    children: dict[Prefix, list[Prefix]] = {(): []}
    for index, order in enumerate(sequences):
        path = tuple(order)
        number.setdefault(path, index)
        for depth in range(1, len(path) + 1):
            if path[:depth] not in children:
                children[path[:depth]] = []
                children[path[: depth - 1]].append(path[:depth])
    found: list[TreeRow] = []
    above: Prefix = ()
    for leaf in _leaves(children):
        more = tuple(children[leaf[:depth]][-1] != leaf[: depth + 1] for depth in range(len(leaf)))
        found.append(TreeRow(number[leaf], leaf, _shared(above, leaf), more))
        above = leaf
    return found


def _leaves(children: dict[Prefix, list[Prefix]]) -> Iterator[Prefix]:
    """Walk depth first, without recursion: a sequence may be longer than Python's stack is deep."""
    # Reversed, because the last one waiting is taken first.
    waiting = children[()][::-1]
    while waiting:
        node = waiting.pop()
        if not children[node]:
            yield node
        waiting += children[node][::-1]


def _shared(one: Prefix, other: Prefix) -> int:
    """Return the number of modules that two paths have in common."""
    pairs = zip(one, other, strict=False)
    return next((depth for depth, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def draw_tree(status: RunStatus) -> tuple[str, int]:
    """Draw a row for each sequence; return the SVG, and the number of rows that are left out.

    The page's style sheet has the colours of the states. All texts are numbers, so nothing needs escaping.
    """
    rows = tree_rows(status.sequences)
    depth = min(DEEPEST, max((len(row.path) for row in rows), default=1))  # a plan may have no sequence
    # At least ten rows, however deep the tree is.
    drawn = rows[: max(10, MOST_MODULES // depth)]
    at: dict[Prefix, int] = {}
    edges, nodes = list[str](), list[str]()
    for line, row in enumerate(drawn):
        y = ROW_HEIGHT * line + ROW_HEIGHT // 2
        live = len(status.prefixes[row.sequence])
        nodes.append(f'<text x="0" y="{y + 4}">{row.sequence}: {live}/{len(row.path)}</text>')
        for prefix in _new_in(row):
            at[prefix] = y
            edges.append(_edge(prefix, at))
            nodes.append(_node(prefix, y, status.state(prefix)))
        if len(row.path) > depth:
            nodes.append(f'<text x="{LABEL_WIDTH + depth * COLUMN_WIDTH}" y="{y + 4}">…</text>')
    width, height = LABEL_WIDTH + (depth + 1) * COLUMN_WIDTH, ROW_HEIGHT * len(drawn)
    modules, sequences = counted(status.modules, "module"), counted(len(rows), "sequence")
    label = f"{status.live_counts.modules} of {modules} live in {sequences}"
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        # Edges come first, so that nodes are drawn over their ends.
        f'aria-label="{label}">{"".join(edges)}{"".join(nodes)}</svg>',
        len(rows) - len(drawn),
    )


def _new_in(row: TreeRow) -> list[Prefix]:
    """Return the modules that no row above has drawn."""
    return [row.path[: depth + 1] for depth in range(row.start, min(len(row.path), DEEPEST))]


def _left(depth: int) -> int:
    return LABEL_WIDTH + (depth - 1) * COLUMN_WIDTH


def _edge(prefix: Prefix, at: dict[Prefix, int]) -> str:
    if len(prefix) == 1:
        return ""
    start, end = _left(len(prefix) - 1) + NODE_WIDTH, _left(len(prefix))
    middle = start + (end - start) // 2
    return f'<path class="edge" d="M{start} {at[prefix[:-1]]}H{middle}V{at[prefix]}H{end}"/>'


def _node(prefix: Prefix, y: int, state: str) -> str:
    x, top = _left(len(prefix)), y - NODE_HEIGHT // 2
    size = f'width="{NODE_WIDTH}" height="{NODE_HEIGHT}"'
    # Dead modules are struck out too: not everybody can tell the colours apart.
    struck = f'<path d="M{x + 2} {y}h{NODE_WIDTH - 4}"/>' if state == "dead" else ""
    return (
        f'<g class="node {state}"><rect x="{x}" y="{top}" {size} rx="4"/>'
        f'<text x="{x + NODE_WIDTH // 2}" y="{y + 4}">{prefix[-1]}</text>{struck}</g>'
    )
