"""Gather the facts of a report and write its page.

The figures depend on the live modules. The page therefore names the version of the ledger that it was made
at, is written only if no request came meanwhile, and is destroyed by the next request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsgt.certificates.certify import certificate_path, read_own_certificate
from fedsgt.certificates.content import Certificate
from fedsgt.errors import InputError
from fedsgt.ledger.ledger import Entry
from fedsgt.reporting.comparison import (
    Comparison,
    OtherRuns,
    compare,
    named_runs,
    remember_runs,
    remembered_runs,
)
from fedsgt.reporting.costs import Costs, run_costs
from fedsgt.reporting.history import PastRequest
from fedsgt.reporting.page import render_page
from fedsgt.reporting.status import RunStatus, run_status
from fedsgt.runs.artefacts import REPORT
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.health import module_health
from fedsgt.runs.state import Live
from fedsgt.serving.accuracy import scored_as
from fedsgt.serving.evaluation import current_evaluation
from fedsgt.store import Folder, StoreError

Evaluate = Callable[[RunFolder], object]
REQUESTS_AHEAD = 10
CERTIFICATES_SHOWN = 100  # each is read and its signature checked, which takes time


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
    certificates: list[CheckedCertificate]
    """Certificates of the last requests."""
    costs: Costs
    comparison: Comparison | None
    """Numbers of this and other runs; None if the run is compared with no other."""
    head: Entry
    """Last entry of the ledger."""
    time: datetime
    """Time at which the facts were gathered."""

    @property
    def made(self) -> str:
        """Return that time in words."""
        return self.time.strftime("%Y-%m-%d %H:%M UTC")

    def to_json(self) -> dict[str, Any]:
        """Return the page's numbers for programs."""
        found = self.status.evaluation
        return {
            "run": str(self.folder.path.resolve()),
            "made": self.made,
            "status": self.status.to_json(),
            "evaluation": None if found is None else found.to_json(),
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
            if evaluate is not None and not _is_measured(folder, before):
                evaluate(folder)
            found = _gather(folder, others)
        except StoreError:
            if folder.live().position == before.position:
                raise
            continue  # a request has destroyed what was being read: begin again without it
        if folder.live().position == found.status.position:
            return found


def _is_measured(folder: RunFolder, live: Live) -> bool:
    """Whether there is an evaluation of what is live that has all that the page shows."""
    found = current_evaluation(folder, live, module_health(folder, live).prefixes)
    if found is None or not found.strategies:
        return found is not None
    # Without torch `merged` is not scored. The strategy in use may be another than at the evaluation, and
    # those of older versions expect nothing.
    strategy = folder.config.serving.strategy
    return strategy in found.strategies and found.expected_strategy == scored_as(strategy)


def _gather(folder: RunFolder, others: OtherRuns) -> Report:
    """Gather the facts; the caller must check that the ledger has not moved on meanwhile."""
    found = run_status(folder, REQUESTS_AHEAD)
    live = folder.live()
    spent = run_costs(folder, live, found.health.whole)
    return Report(
        folder=folder,
        live=live,
        status=found,
        certificates=_check_certificates(folder, found.past.requests[-CERTIFICATES_SHOWN:]),
        costs=spent,
        comparison=compare(folder, live, spent, others),
        head=folder.ledger.entries(after=live.position - 1)[0],
        time=datetime.now(UTC),
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
    if output is not None and not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InputError(f"{output}: cannot be written (no right to); give another file")
    return place


def _write(folder: RunFolder, place: Path, data: bytes) -> None:
    # A page in the run's folder appears whole or not at all, as all files of a run do.
    if place == folder.path.resolve() / REPORT:
        Folder(folder.path).write(REPORT, data)
    else:
        place.write_bytes(data)


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
