"""A run from Python: `fedsgt.open_run` and the `Run` that it returns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from fedsgt.api import tasks
from fedsgt.api.arguments import check_text, deletions_of, paths_of, whole_number
from fedsgt.api.results.deletions import Preview, Receipt
from fedsgt.api.results.plan import PlanTree
from fedsgt.api.results.proof import Audit, Verification
from fedsgt.api.results.serving import Evaluation, Predictions
from fedsgt.api.results.state import ClientInfo, Clients, Forecast, Status
from fedsgt.api.session import Session, check_torch, has_torch
from fedsgt.api.train import AnyPath, Training, TrainingProgress, given_path, listener_of, train_run
from fedsgt.config import Config
from fedsgt.errors import InputError
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.folder import open_run as open_folder
from fedsgt.runs.records_left import records_left
from fedsgt.unlearning.request import Deletion

if TYPE_CHECKING:
    from fedsgt.reporting.accuracy import AccuracyChange
    from fedsgt.unlearning.outgoing import Outgoing
    from fedsgt.unlearning.recovery import Recovery
    from fedsgt.unlearning.rejoin import Joined
    from fedsgt.unlearning.unlearn import Receipt as FullReceipt

MOST_OUTGOING = 8  # deletions whose statistics are held in memory until new ones are made
Progress: TypeAlias = Callable[[float], None] | None
"""Function that is called with the share of the work that is done, from 0 to 1."""


def open_run(path: AnyPath, *, session: Session | None = None, training: Training | None = None) -> Run:
    """Open the run in this folder; `fedsgt.InputError` says what is wrong if there is none."""
    place = given_path(path, "path")
    try:
        return Run(open_folder(place), session, training)
    except OSError as error:  # such as a name that is too long, or a folder that may not be looked into
        raise InputError(f"{place}: cannot be opened ({error.strerror})") from None


class Run:
    """A trained run: predict, evaluate, delete, prove, retrain.

    Every method looks at the ledger first, so deletions by other processes count at once. Work that needs
    torch is done in a helper process, unless this process has the execution profile; `close`, or the end of a
    `with` block, ends that process.
    """

    def __init__(
        self, folder: RunFolder, session: Session | None = None, training: Training | None = None
    ) -> None:
        self.folder = folder
        """The run's folder, as the rooms below know it; what it offers may change with any version."""
        self.training = training
        """Result of the training that this object came from; None if the run was opened."""
        self._session = session or Session()
        self._session.state.clear()  # of another run, if it had one before
        self._session.state["folder"] = folder
        self._outgoing: list[Outgoing] = []
        """Statistics that deletions by this object have ended, until new ones are made."""

    # --- what it is

    @property
    def path(self) -> Path:
        """Folder of the run."""
        return self.folder.path

    @property
    def config(self) -> Config:
        """Configuration that the run was made with."""
        return self.folder.config

    @property
    def clients(self) -> Clients:
        """Clients with their records, slices and groups, and what is left of them."""
        live = self.folder.live()
        described = live.description
        return Clients(
            tuple(
                ClientInfo(
                    name=entry.name,
                    records=sum(entry.records),
                    left=sum(records_left(live, number)),
                    slices=len(entry.slices),
                    groups=tuple(sorted(set(described.groups_of[number]))),
                    remote=entry.node is not None,
                )
                for number, entry in enumerate(described.clients)
            )
        )

    @property
    def plan(self) -> PlanTree:
        """Sequences of the run, with the part of each that is live."""
        window = self.folder.config.training.window
        return PlanTree.of(self.status().detail, self.folder.live().description, window)

    @property
    def problems(self) -> list[str]:
        """Modules that are missing, damaged or not destroyed, in words; none of them is served."""
        from fedsgt.runs.health import module_health, problem_lines

        return problem_lines(module_health(self.folder, self.folder.live()).problems)

    def status(self, requests: int = 10) -> Status:
        """Return what is live, which requests came, and how long the run will last."""
        from fedsgt.reporting.status import run_status

        return Status.of(run_status(self.folder, whole_number(requests, "requests")))

    def forecast(self, requests: int = 10) -> Forecast:
        """Return the expected service after each of so many further requests."""
        return Forecast.of(self.status(requests).detail)

    # --- predictions

    def predict(self, inputs: Any, *, strategy: str | None = None, agreement: bool = False) -> Predictions:
        """Predict with the modules that are live now.

        `inputs` is one input or several: texts; images as paths, bytes, pictures of Pillow or numpy arrays of
        uint8; tuples where a record has several inputs; or a table (pandas, pyarrow, datasets, list of dicts)
        with the run's input columns. `strategy` is all, min, long or merged. With `agreement`, `merged` is
        compared with AllSeq.
        """
        from fedsgt.api.inputs import records_of

        check_text(strategy, "strategy")
        records = records_of(inputs, self.config)
        self._renew_outgoing()
        found = self._session.call(tasks.predict, self.path, records, strategy, agreement)
        return Predictions.of(found, self._label_names())

    def predict_test(
        self, limit: int | None = None, *, strategy: str | None = None, agreement: bool = False
    ) -> Predictions:
        """Predict the run's own test records, or the first `limit` of them."""
        from fedsgt.runs.records import load_test

        check_text(strategy, "strategy")
        test = load_test(self.config, self.folder.description.labels)
        records = test.records[: None if limit is None else whole_number(limit, "limit")]
        self._renew_outgoing()
        found = self._session.call(tasks.predict, self.path, records, strategy, agreement)
        return Predictions.of(found, self._label_names(), [record.label for record in records])

    def evaluate(self, *, progress: Progress = None) -> Evaluation:
        """Measure the accuracy of every live module and of every strategy on the test records."""
        self._renew_outgoing()
        found = self._session.call(tasks.evaluate, self.path, tell=progress or _silent)
        return Evaluation.of(found, self.config.serving.strategy)

    # --- deletions

    def preview(
        self,
        client: str | None = None,
        *,
        records: Iterable[str] | None = None,
        slices: Iterable[int] | int | None = None,
        everything: bool = False,
        deletions: Sequence[Deletion] | None = None,
        accuracy: bool = True,
        progress: Progress = None,
    ) -> Preview:
        """Return what a deletion would do, and change nothing; the arguments are those of `unlearn`.

        Without `accuracy` no model is needed, and the answer comes at once.
        """
        wanted = deletions_of(client, records, slices, everything, deletions)
        # Without torch a preview is still worth having, just without accuracies.
        if accuracy and has_torch():
            found = self._session.call(tasks.impact, self.path, wanted, tell=progress or _silent)
        else:
            from fedsgt.reporting.impact import impact

            found = impact(self.folder, wanted, accuracy=False)
        return Preview.of(found)

    def unlearn(
        self,
        client: str | None = None,
        *,
        records: Iterable[str] | None = None,
        slices: Iterable[int] | int | None = None,
        everything: bool = False,
        deletions: Sequence[Deletion] | None = None,
        key: str | None = None,
        progress: Progress = None,
    ) -> Receipt:
        """Delete records, slices or everything of a client: modules that saw them stop serving at once.

        When this returns, the deletion is in force for good, and what depended on the records is destroyed;
        `Receipt.pending` says what is not done yet. An error means that it is not in force, except for
        `fedsgt.OutcomeUnknown`. A request that is repeated with the same `key` gets the first answer.
        `deletions` has several at once. Retraining is not started: see `retrain`. Heads that are solved from
        statistics do without the client's until new ones are made, by `renew_heads` or with the next
        prediction.
        """
        from fedsgt.reporting.accuracy import accuracy_after, known_accuracy
        from fedsgt.unlearning.outgoing import Outgoing
        from fedsgt.unlearning.unlearn import Stopped, unlearn

        wanted = deletions_of(client, records, slices, everything, deletions)
        check_text(key, "key")
        self.folder.check_writable()
        # Requests that were cut short are in force already, and are completed before another begins.
        self.recover()
        before = known_accuracy(self.folder)
        outgoing = Outgoing()
        answer = unlearn(self.folder, wanted, key, progress or _silent, outgoing)
        if self.config.heads.solve and self.config.data.partition != "remote":
            # The oldest are dropped, as they take memory: what they stand for is then made anew.
            self._outgoing = [*self._outgoing, outgoing][-MOST_OUTGOING:]
        try:
            self._session.tell_all(tasks.drop_dead)
            if len(answer.groups) > 1:  # what was expected is of one group
                before = replace(before, expected=None)
            return self.receipt(answer, accuracy_after(self.folder, before))
        except (KeyboardInterrupt, SystemExit):
            # The deletion is in force, so that no stop may look as if it were not.
            raise Stopped(answer) from None

    def renew_heads(self, *, progress: TrainingProgress = None) -> int:
        """Make the statistics that are missing or damaged, from which heads are solved; return how many.

        Predictions do so by themselves after a deletion by the same object. Other processes, and clients
        with machines of their own, need this call.
        """
        from fedsgt.reporting.accuracy import accuracy_after
        from fedsgt.runs.statistics import discard_damaged

        self.folder.check_writable()
        self.recover()
        outgoing, self._outgoing, before = self._outgoing, [], self.folder.live().position
        if not outgoing:  # a prediction after a deletion does not wait until all statistics are read
            discard_damaged(self.folder)
        if self.config.data.partition == "remote":
            from fedsgt.federation.server.tasks import renew_remotely

            return renew_remotely(self.config, self.path, listener_of(progress))
        made: int = self._session.call(tasks.renew_heads, self.path, outgoing, tell=listener_of(progress))
        # Other heads serve now, or the same ones at another position of the ledger: the accuracy stays known.
        if made or self.folder.live().position != before:
            accuracy_after(self.folder, patient=True)
        return made

    def _renew_outgoing(self) -> None:
        """Make new statistics in place of those that deletions by this object have ended.

        A prediction goes on without them if that fails; `status` then says how many are missing.
        """
        if self._outgoing and self.folder.writable:
            try:
                self.renew_heads(progress=False)
            except InputError as error:
                warnings.warn(f"{self.path}: statistics are missing: {error}", stacklevel=3)

    def recover(self) -> Recovery:
        """Complete the deletions that were cut short, and return what was done and what could not be."""
        from fedsgt.unlearning.recovery import recover

        return recover(self.folder)

    # --- training

    def retrain(self, *, if_due: bool = False, progress: TrainingProgress = None) -> Training | None:
        """Train dead modules again on the retained records; live ones are kept, and serving goes on.

        With `if_due`, only if the run's policy (`unlearning.retrain`) asks for it; None if it does not.
        """
        self.folder.check_writable()
        self.recover()
        if if_due and self.retraining_due() is None:
            return None
        found = train_run(self._session, self.config, self.path, None, progress)
        self._reopen()
        return found

    def retraining_due(self, *, progress: Progress = None) -> str | None:
        """Return in words why the run's policy asks for retraining now; None if it does not."""
        from fedsgt.reporting.accuracy import known_accuracy
        from fedsgt.unlearning.retrain import due

        def accuracy() -> float:  # measured only if the policy asks for it, and if it is not known
            found = known_accuracy(self.folder).served or self.evaluate(progress=progress).accuracy
            return 0.0 if found is None else found.accuracy

        return due(self.folder, self.folder.live(), accuracy)

    def rejoin(
        self,
        client: str,
        data: Any,
        *,
        slices: int = 1,
        groups: int = 1,
        progress: TrainingProgress = None,
    ) -> Joined:
        """Take a client back with new records, in new groups on top of what is live; live modules stay.

        `data` is the path of a file, or records in memory as `train` takes them, which are then kept in the
        run's folder.
        """
        check_text(client, "client")
        self.folder.check_writable()
        self.recover()
        joined: Joined = self._session.call(
            tasks.rejoin,
            self.path,
            client,
            self._new_records(data),
            whole_number(slices, "slices"),
            whole_number(groups, "groups"),
            tell=listener_of(progress),
        )
        self._reopen()
        return joined

    # --- proof

    def verify(
        self, sample: int | None = None, *, seed: int | None = None, progress: Progress = None
    ) -> Verification:
        """Train served modules again from retained records, in a fresh process, and compare every bit."""
        from fedsgt.proof.verify import verify

        if sample is not None:
            whole_number(sample, "sample")
        # Bytes of a request that was cut short would fail the verification. Where nothing can be written, the
        # verification names the request instead.
        if self.folder.writable:
            self.recover()
        rebuild = None
        if self.config.data.partition == "remote":
            from fedsgt.files.optional import check_flower

            check_flower()
            from fedsgt.federation.server.tasks import rebuild_remotely

            rebuild = rebuild_remotely(self.config)
        else:
            check_torch()
        return Verification.of(verify(self.folder, sample, seed, progress or _silent, rebuild=rebuild))

    def audit(self) -> Audit:
        """Return every file of the run with what it depends on, and whether that is deleted."""
        from fedsgt.proof.audit import audit

        return Audit.of(audit(self.folder))

    # --- pages and exports

    def report(
        self,
        output: AnyPath | None = None,
        *,
        evaluate: bool = True,
        against: Sequence[AnyPath] = (),
        progress: Progress = None,
    ) -> Path:
        """Write one HTML page about the run, by default into its folder, and return the page's path."""
        place = None if output is None else given_path(output, "output")
        others = paths_of(against)
        if evaluate:
            told = progress or _silent
            written: Path = self._session.call(tasks.write_report, self.path, place, others, tell=told)
            return written
        from fedsgt.reporting.report import write_report

        return write_report(self.folder, place, None, others)

    def report_json(
        self, *, evaluate: bool = True, against: Sequence[AnyPath] = (), progress: Progress = None
    ) -> dict[str, Any]:
        """Return the numbers of the report's page for programs, and write no page."""
        others = paths_of(against)
        if evaluate:
            told = progress or _silent
            found: dict[str, Any] = self._session.call(tasks.read_report, self.path, others, tell=told)
            return found
        from fedsgt.reporting.report import read_report

        return read_report(self.folder, None, others).to_json()

    def export(
        self,
        sequence: int = 0,
        *,
        depth: int | None = None,
        output: AnyPath | None = None,
        heads: Literal["statistics", "trained"] | None = None,
    ) -> Path:
        """Write a sequence's live modules as one stock PEFT adapter, and return its folder.

        `heads` says which head it gets, by default the one that serves, where the model's own can be it.
        """
        if heads not in (None, "statistics", "trained"):
            raise InputError(f"heads is {heads!r}; allowed: 'statistics' or 'trained'")
        place = None if output is None else given_path(output, "output")
        for name, value in (("sequence", sequence), ("depth", depth)):
            if value is not None and type(value) is not int:
                raise InputError(f"{name} is {value!r}; allowed: a whole number")
        written: Path = self._session.call(tasks.export, self.path, sequence, depth, place, heads)
        return written

    # --- the object itself

    def close(self) -> None:
        """End the helper process, if there is one; the next call that needs it starts another."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Run {str(self.path)!r}: {repr(self.status()).removeprefix('<Status: ')}"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

    def _label_names(self) -> list[str] | None:
        # Asked of the state in force, as a later training may have replaced the description.
        return self.folder.live().description.label_names

    def receipt(self, answer: FullReceipt, change: AccuracyChange | None = None) -> Receipt:
        """Return the answer to a deletion that `fedsgt.unlearning` has carried out."""
        from fedsgt.unlearning.changes import client_shares

        live = self.folder.live()
        request = next(entry for entry in live.requests if entry.position == answer.position)
        return Receipt.of(answer, client_shares(live, request.body), change)

    def _new_records(self, data: Any) -> Any:
        if isinstance(data, str | PathLike):
            return given_path(data, "data")
        from fedsgt.data.sources.memory import given_records
        from fedsgt.runs.records import own_columns

        return given_records(data, own_columns(self.config), self.config.model.task)

    def _reopen(self) -> None:
        """Read the run again after a training, which may have given it another description."""
        self._session.state.clear()
        self._session.state["folder"] = self.folder = open_folder(self.path)


def _silent(share: float) -> None:
    """Ignore the share."""
