"""One page on a run: what it is, what is live, what was deleted, what it cost, and what to expect.

Its figures depend on the live modules, so it names the ledger's version it was made at, and is written only
if no request came meanwhile; the next request destroys it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsgt.certificates.certify import certificate_path
from fedsgt.certificates.content import Certificate
from fedsgt.certificates.keys import PublicKey
from fedsgt.certificates.signatures import read_certificate
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import Entry
from fedsgt.plans import MERGED, Estimate
from fedsgt.reporting.comparison import (
    Comparison,
    OtherRuns,
    compare,
    named_runs,
    remember_runs,
    remembered_runs,
)
from fedsgt.reporting.costs import Costs, run_costs
from fedsgt.reporting.forecast import expected_accuracy, request_chances
from fedsgt.reporting.history import PastRequest
from fedsgt.reporting.page import render_page
from fedsgt.reporting.status import RunStatus, current_evaluation, run_status
from fedsgt.runs.artefacts import PUBLIC_KEY, REPORT
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.store import Folder, StoreError

Evaluate = Callable[[RunFolder], object]
REQUESTS, REQUESTS_SCORED, CERTIFICATES = 10, 5, 100
# Probabilities that are held at once for expected accuracies; larger runs do without.
MOST_NUMBERS = 50_000_000


@dataclass(frozen=True)
class CheckedCertificate:
    """A request's certificate, and what checking it against the run's key and ledger gave."""

    request: PastRequest
    path: Path
    certificate: Certificate | None
    problem: str | None


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    folder: RunFolder
    live: Live
    status: RunStatus
    evaluation: dict[str, Any] | None
    """None if there is none of the modules that are live now."""
    ahead: list[Estimate | None]
    """Expected accuracy after 1, 2, ... further requests, if something is live; empty if not computed."""
    ahead_strategy: str
    certificates: list[CheckedCertificate]
    """Of the last requests."""
    costs: Costs
    comparison: Comparison | None
    """None if the run is compared with no other."""
    head: Entry
    made: str

    def to_json(self) -> dict[str, Any]:
        """The page's numbers, for programs."""
        return {
            "run": str(self.folder.path.resolve()),
            "made": self.made,
            "status": self.status.to_json(),
            "evaluation": self.evaluation,
            "expected_accuracy": [None if value is None else float(value) for value in self.ahead],
            "costs": self.costs.to_json(),
            "comparison": None if self.comparison is None else self.comparison.to_json(),
        }


def write_report(
    folder: RunFolder,
    output: Path | None = None,
    evaluate: Evaluate | None = None,
    against: Sequence[Path] = (),
) -> Path:
    """Write the page and say where; `evaluate` is called if there is no evaluation of what is live now.

    Without it the page has the accuracies that are there already, or none. The runs that it is compared with
    are remembered; without any, those remembered are shown.
    """
    place = _place(folder, output)
    others = named_runs(folder, against) if against else remembered_runs(folder)
    while True:
        found = _settled(folder, evaluate, others)
        data = render_page(found, place.parent).encode()
        with folder.publishing() as now:
            if now.position == found.status.position:
                _write(folder, place, data)
                if against:
                    remember_runs(folder, others)
                return place


def read_report(folder: RunFolder, evaluate: Evaluate | None = None, against: Sequence[Path] = ()) -> Report:
    """The same facts without a page."""
    others = named_runs(folder, against) if against else remembered_runs(folder)
    found = _settled(folder, evaluate, others)
    if against:
        remember_runs(folder, others)
    return found


def _settled(folder: RunFolder, evaluate: Evaluate | None, others: OtherRuns) -> Report:
    """The facts of one version of the ledger."""
    while True:
        before = folder.live()
        try:
            if evaluate is not None and current_evaluation(folder, before) is None:
                evaluate(folder)
            found = gather(folder, evaluate is not None, others)
        except StoreError:
            if folder.live().position == before.position:
                raise
            continue  # a request has destroyed what was being read
        if folder.live().position == found.status.position:
            return found


def gather(folder: RunFolder, scored: bool, others: OtherRuns) -> Report:
    """The facts; whoever shows them makes sure that the ledger has not moved on meanwhile."""
    found = run_status(folder, REQUESTS)
    live = folder.live()
    strategy = folder.config.serving.strategy
    strategy = "all" if strategy == MERGED else strategy
    spent = run_costs(folder, live, folder.present())
    return Report(
        folder=folder,
        live=live,
        status=found,
        evaluation=current_evaluation(folder, live),
        ahead=_ahead(folder, live, found, strategy) if scored else [],
        ahead_strategy=strategy,
        certificates=_checked(folder, found.past.requests[-CERTIFICATES:]),
        costs=spent,
        comparison=compare(folder, live, spent, others),
        head=folder.ledger.entries(after=live.position - 1)[0],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _place(folder: RunFolder, output: Path | None) -> Path:
    place = (output or folder.path / REPORT).resolve()
    inside = folder.path.resolve()
    if inside in place.parents and place != inside / REPORT:
        raise InputError(
            f"{output}: in the run's folder a later deletion destroys only {REPORT}; give a file outside"
        )
    if place.is_dir() or not place.parent.is_dir():
        problem = "is a folder" if place.is_dir() else f"the folder {place.parent} does not exist"
        raise InputError(f"{output}: {problem}; give the file to write")
    return place


def _write(folder: RunFolder, place: Path, data: bytes) -> None:
    if place == folder.path.resolve() / REPORT:
        Folder(folder.path).write(REPORT, data)
    else:
        place.write_bytes(data)


def _ahead(folder: RunFolder, live: Live, found: RunStatus, strategy: str) -> list[Estimate | None]:
    """From the probabilities of test records that the evaluation has kept beside the live modules."""
    from fedsgt.runs.records import load_test
    from fedsgt.serving.evaluation import Evaluator, score

    test = load_test(folder.config, live.description.labels)
    if found.exhausted or len(found.live_nodes) * len(test) * live.description.labels > MOST_NUMBERS:
        return []
    with Evaluator(folder, test) as evaluator:
        predicted = evaluator.probabilities(live, found.live_nodes, lambda share: None)

    def accuracy(left: Sequence[tuple[int, ...]]) -> float | None:
        measured = score(strategy, predicted, left, test.labels)
        return None if measured is None else measured.accuracy

    return expected_accuracy(found.prefixes, request_chances(live), REQUESTS_SCORED, accuracy)


def _checked(folder: RunFolder, requests: Sequence[PastRequest]) -> list[CheckedCertificate]:
    hashes = {entry.position: entry.hash for entry in folder.ledger.entries()}
    return [_one_checked(folder, request, hashes) for request in requests]


def _one_checked(folder: RunFolder, request: PastRequest, hashes: Mapping[int, str]) -> CheckedCertificate:
    path = certificate_path(folder, request.position)
    if not path.exists():
        return CheckedCertificate(request, path, None, "not there yet")
    try:
        certificate = read_certificate(path, PublicKey.read(folder.path / PUBLIC_KEY))
        if certificate.run != folder.description.id or certificate.request.position != request.position:
            raise InputError(f"{path}: the certificate of another request")
        for entry in (certificate.request, certificate.completion):
            if hashes.get(entry.position) != entry.ledger_hash:
                raise InputError(f"{path}: the ledger has another entry at position {entry.position}")
    except InputError as error:
        return CheckedCertificate(request, path, None, str(error).removeprefix(f"{path}: "))
    return CheckedCertificate(request, path, certificate, None)
