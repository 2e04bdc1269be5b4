"""Tasks that need torch. A session calls them in a process that has the execution profile.

Each takes the state of its session first, and `tell` for events or shares of the work. Arguments and results
can be pickled: they may come from another process.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedsgt.api.session import State, Tell
from fedsgt.config import Config
from fedsgt.data import Record
from fedsgt.data.sources.memory import GivenRecords
from fedsgt.runs.folder import RunFolder, open_run
from fedsgt.unlearning.request import Deletion

# Each task imports torch itself: these functions are also named in processes that do without it.
if TYPE_CHECKING:
    from fedsgt.reporting.impact import Impact
    from fedsgt.reporting.report import Report
    from fedsgt.serving.evaluation import Evaluation
    from fedsgt.serving.predictor import Predictions, Predictor
    from fedsgt.unlearning.outgoing import Outgoing
    from fedsgt.unlearning.rejoin import Joined


def train(state: State, config: Config, path: Path, given: GivenRecords | None, *, tell: Tell) -> None:
    """Train the run in this folder, on this machine; deletions that were cut short are completed first."""
    from fedsgt.build.client_access import LOCAL
    from fedsgt.build.given_clients import GivenClients
    from fedsgt.build.train import train as build_run
    from fedsgt.unlearning.recovery import recover

    build_run(config, path, tell, recover, LOCAL if given is None else GivenClients(given))


def evaluate(state: State, path: Path, *, tell: Tell) -> Evaluation:
    """Measure the accuracy of every live prefix and of every strategy."""
    from fedsgt.serving.evaluation import evaluate as score_run

    return score_run(_folder(state, path), tell)


def predict(
    state: State,
    path: Path,
    records: Sequence[Record],
    strategy: str | None,
    agreement: bool,
    *,
    tell: Tell,
) -> Predictions:
    """Predict with the modules that are live now."""
    return _predictor(state, path, strategy).predict(records, agreement)


def impact(state: State, path: Path, deletions: Sequence[Deletion], *, tell: Tell) -> Impact:
    """Preview deletions, with accuracies."""
    from fedsgt.reporting.impact import impact as preview

    return preview(_folder(state, path), deletions, accuracy=True, progress=tell)


def renew_heads(state: State, path: Path, outgoing: Sequence[Outgoing], *, tell: Tell) -> int:
    """Make the statistics that are missing, from those that deletions have ended where that is cheaper."""
    from fedsgt.unlearning.renewal import renew

    folder = _folder(state, path)
    return sum(renew(folder, one, tell) for one in (*outgoing, None))


def rejoin(
    state: State,
    path: Path,
    client: str,
    source: Path | GivenRecords,
    slices: int,
    groups: int,
    *,
    tell: Tell,
) -> Joined:
    """Take a client back with new records."""
    from fedsgt.unlearning.rejoin import rejoin as take_in

    return take_in(open_run(path), client, source, slices, groups, tell)


def export(
    state: State,
    path: Path,
    sequence: int,
    depth: int | None,
    output: Path | None,
    heads: Literal["statistics", "trained"] | None = None,
    *,
    tell: Tell,
) -> Path:
    """Write a sequence's live modules as one adapter of PEFT."""
    from fedsgt.serving.export import export_sequence

    return export_sequence(_folder(state, path), sequence, depth, output, heads)


def write_report(
    state: State, path: Path, output: Path | None, against: Sequence[Path], *, tell: Tell
) -> Path:
    """Write the report's page; what is live is evaluated if it was not."""
    from fedsgt.reporting.report import write_report as write

    folder = _folder(state, path)
    return write(folder, output, _measure(folder, tell), against)


def read_report(state: State, path: Path, against: Sequence[Path], *, tell: Tell) -> dict[str, Any]:
    """Return the numbers of the report; what is live is evaluated if it was not."""
    from fedsgt.reporting.report import read_report as read

    folder = _folder(state, path)
    found: Report = read(folder, _measure(folder, tell), against)
    return found.to_json()


def drop_dead(state: State, *, tell: Tell) -> None:
    """Drop modules that a deletion has hit from the memory of this process."""
    for predictor in state.get("predictors", {}).values():
        predictor.refresh()


def _measure(folder: RunFolder, tell: Tell) -> Any:
    """Return a function that evaluates the run; None where nothing can be written."""
    from fedsgt.serving.evaluation import evaluate as score_run

    return (lambda one: score_run(one, tell)) if folder.writable else None


def _folder(state: State, path: Path) -> RunFolder:
    """Return the run, opened once a session, unless another run has taken its place since."""
    known: RunFolder | None = state.get("folder")
    if known is None or known.path != path:
        state.clear()
        state["folder"] = known = open_run(path)
    return known


def _predictor(state: State, path: Path, strategy: str | None) -> Predictor:
    from fedsgt.serving.predictor import Predictor

    folder = _folder(state, path)
    kept: dict[str, Predictor] = state.setdefault("predictors", {})
    name = folder.config.serving.strategy if strategy is None else strategy
    if name not in kept:
        kept.clear()  # one model in memory is enough
        kept[name] = Predictor(folder, strategy)
    return kept[name]
