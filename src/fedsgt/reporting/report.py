"""Gather the facts of a report and write its page.

The figures depend on the live modules. The page therefore names the version of the ledger that it was made
at, is written only if no request came meanwhile, and is destroyed by the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsgt.certificates.certify import certificate_path, read_own_certificate
from fedsgt.certificates.content import Certificate
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
from fedsgt.runs.artefacts import REPORT
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.state import Live
from fedsgt.store import Folder, StoreError

Evaluate = Callable[[RunFolder], object]
REQUESTS_AHEAD = 10
REQUESTS_SCORED = 5  # accuracies ahead are simulated, which takes longer than chances do
CERTIFICATES_SHOWN = 100  # each is read and its signature checked, which takes time
# Most probabilities that are held at once for expected accuracies: 400 MB. Larger runs do without.
MOST_NUMBERS = 50_000_000


@dataclass(frozen=True)
class CheckedCertificate:
    """The certificate of a request, checked against the run's key and ledger."""

    request: PastRequest
    path: Path
    certificate: Certificate | None
    """Content of the certificate; None if it is missing or does not hold."""
    problem: str | None
    """Why the certificate does not hold, if so."""


@dataclass(frozen=True)
class Report:
    """The facts that the page shows."""

    folder: RunFolder
    live: Live
    status: RunStatus
    evaluation: dict[str, Any] | None
    """Content of `evaluation.json`; None if it does not describe the modules that are live now."""
    ahead: list[Estimate | None]
    """Expected accuracy after 1, 2, ... further requests, if something is live; empty if not computed."""
    ahead_strategy: str
    """Strategy whose accuracies `ahead` has; AllSeq for a merged model."""
    certificates: list[CheckedCertificate]
    """Certificates of the last requests."""
    costs: Costs
    comparison: Comparison | None
    """Numbers of this and other runs; None if the run is compared with no other."""
    head: Entry
    """Last entry of the ledger."""
    made: str
    """Time at which the facts were gathered."""

    def to_json(self) -> dict[str, Any]:
        """Return the page's numbers for programs."""
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
    """Write the page and return its path.

    `evaluate` is called if what is live now was not evaluated; without it, the page has the accuracies that
    are there, or none. The run is compared with the runs of `against`, which are remembered; if none are
    named, with those remembered.
    """
    place = _place(folder, output)
    others = named_runs(folder, against) if against else remembered_runs(folder)
    while True:
        found = _settled(folder, evaluate, others)
        data = render_page(found, place.parent).encode()
        # The lock keeps requests out, so the page cannot become out of date between check and writing.
        with folder.publishing() as now:
            if now.position == found.status.position:
                _write(folder, place, data)
                # Remembered only once the page is there: a wrong name must not come back in the next report.
                if against and folder.writable:
                    remember_runs(folder, others)
                return place


def read_report(folder: RunFolder, evaluate: Evaluate | None = None, against: Sequence[Path] = ()) -> Report:
    """Return the facts of a report without writing a page; the arguments are those of `write_report`."""
    others = named_runs(folder, against) if against else remembered_runs(folder)
    found = _settled(folder, evaluate, others)
    if against and folder.writable:
        remember_runs(folder, others)
    return found


def _settled(folder: RunFolder, evaluate: Evaluate | None, others: OtherRuns) -> Report:
    """Gather facts until all of them belong to one version of the ledger."""
    while True:
        before = folder.live()
        try:
            if evaluate is not None and _evaluation(folder, before) is None:
                evaluate(folder)
            found = _gather(folder, evaluate is not None, others)
        except StoreError:
            if folder.live().position == before.position:
                raise
            continue  # a request has destroyed what was being read: begin again without it
        if folder.live().position == found.status.position:
            return found


def _evaluation(folder: RunFolder, live: Live) -> dict[str, Any] | None:
    return current_evaluation(folder, live, module_health(folder, live).prefixes)


def _gather(folder: RunFolder, scored: bool, others: OtherRuns) -> Report:
    """Gather the facts; the caller must check that the ledger has not moved on meanwhile."""
    found = run_status(folder, REQUESTS_AHEAD)
    live = folder.live()
    strategy = folder.config.serving.strategy
    # AllSeq stands in for merged, which averages the same modules and would need a merge for each stream.
    strategy = "all" if strategy == MERGED else strategy
    spent = run_costs(folder, live, found.health.whole)
    return Report(
        folder=folder,
        live=live,
        status=found,
        evaluation=current_evaluation(folder, live, found.prefixes),
        ahead=_accuracy_ahead(folder, live, found, strategy) if scored else [],
        ahead_strategy=strategy,
        certificates=_check_certificates(folder, found.past.requests[-CERTIFICATES_SHOWN:]),
        costs=spent,
        comparison=compare(folder, live, spent, others),
        head=folder.ledger.entries(after=live.position - 1)[0],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _place(folder: RunFolder, output: Path | None) -> Path:
    """Return the path of the page, after checking that it may be written there."""
    if output is None and not folder.writable:
        raise InputError(f"{folder.path}: this user can only read this run; give a file outside with -o")
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
    # A page in the run's folder appears whole or not at all, as all files of a run do.
    if place == folder.path.resolve() / REPORT:
        Folder(folder.path).write(REPORT, data)
    else:
        place.write_bytes(data)


def _accuracy_ahead(folder: RunFolder, live: Live, found: RunStatus, strategy: str) -> list[Estimate | None]:
    """Return expected accuracies, from the probabilities that the evaluation keeps beside the modules."""
    from fedsgt.runs.records import load_test
    from fedsgt.serving.evaluation import Evaluator, score

    test = load_test(folder.config, live.description.labels)
    if found.exhausted or len(found.live_modules) * len(test) * live.description.labels > MOST_NUMBERS:
        return []
    with Evaluator(folder, test) as evaluator:
        predicted = evaluator.probabilities(live, found.live_modules, lambda share: None)

    def accuracy(left: Sequence[tuple[int, ...]]) -> float | None:
        measured = score(strategy, predicted, left, test.labels)
        return None if measured is None else measured.accuracy

    return expected_accuracy(found.prefixes, request_chances(live), REQUESTS_SCORED, accuracy)


def _check_certificates(folder: RunFolder, requests: Sequence[PastRequest]) -> list[CheckedCertificate]:
    # Certificates are compared with the ledger too: one of another ledger with this key is signed as well.
    hashes = {entry.position: entry.hash for entry in folder.ledger.entries()}
    return [_check(folder, request, hashes) for request in requests]


def _check(folder: RunFolder, request: PastRequest, hashes: Mapping[int, str]) -> CheckedCertificate:
    """Check a signature, and that the certificate belongs to this request and this ledger."""
    path = certificate_path(folder, request.position)
    if not path.exists():
        return CheckedCertificate(request, path, None, "not there yet")
    try:
        certificate = read_own_certificate(folder, path)
        if certificate.run != folder.description.id or certificate.request.position != request.position:
            raise InputError(f"{path}: the certificate of another request")
        for entry in (certificate.request, certificate.completion):
            if hashes.get(entry.position) != entry.ledger_hash:
                raise InputError(f"{path}: the ledger has another entry at position {entry.position}")
    except InputError as error:
        return CheckedCertificate(request, path, None, str(error).removeprefix(f"{path}: "))
    return CheckedCertificate(request, path, certificate, None)
