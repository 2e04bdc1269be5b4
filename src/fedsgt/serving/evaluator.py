"""Computing what live modules say of test records; needs torch for what is not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from fedsgt.data import Dataset, Slice
from fedsgt.plans import MERGED, Prefix, choose
from fedsgt.runs.folder import RunFolder
from fedsgt.runs.state import Live
from fedsgt.runs.statistics import chain_name
from fedsgt.serving.answer import Floats, answer
from fedsgt.serving.kept import Kept, file_of, keep, read_kept
from fedsgt.serving.model import open_model_of

if TYPE_CHECKING:  # torch is imported only when something is computed
    from fedsgt.engine.inprocess import InProcess

Progress: TypeAlias = Callable[[float], None]


class Evaluator:
    """Computes class probabilities and features of the test records, and keeps them beside their modules.

    Worker processes start at the first computation, and end with this context.
    """

    def __init__(self, folder: RunFolder, test: Dataset) -> None:
        self.folder, self.test = folder, test
        self.opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.opened.__exit__(*error)

    def outputs(self, live: Live, prefixes: Iterable[Prefix], progress: Progress) -> dict[Prefix, Kept]:
        """Return the outputs under each of these live prefixes; compute those that are not kept.

        The empty prefix is the bare backbone.
        """
        solve = self.folder.config.heads.solve
        kept = {prefix: read_kept(self.folder, chain_name(live, prefix), self.file) for prefix in prefixes}
        found = {
            prefix: one
            for prefix, one in kept.items()
            if one is not None and (one.features is not None or not solve)
        }
        missing = [prefix for prefix in kept if prefix not in found]
        if missing:
            chains = [live.description.chain(prefix) for prefix in missing]
            for prefix, output in zip(missing, self.engine.outputs(chains, progress), strict=True):
                features = output.features if solve else None
                found[prefix] = Kept(output.probabilities, tuple(self.test.labels), features)
                keep(self.folder, chain_name(live, prefix), self.file, found[prefix])
        return found

    def merged(self, live: Live, prefixes: Iterable[Prefix]) -> Floats | None:
        """Return the probabilities under the average of the live sequences; None if there is none."""
        chosen = choose(MERGED, prefixes)
        if not chosen or self.folder.config.peft.kind == "prefix":  # virtual tokens have no average
            return None
        # The result is not kept: it depends on every live module, so no single module's folder is its place.
        weighted = [(weight, live.description.chain(prefix)) for _, prefix, weight in chosen]
        return answer(MERGED, weighted, self.engine.predict, self.engine.predict_merged)

    @cached_property
    def engine(self) -> InProcess:
        from fedsgt.engine.inprocess import InProcess
        from fedsgt.engine.worker import Setup

        run, labels = self.folder.config, self.folder.description.labels
        model = open_model_of(self.folder)
        records = Slice("test", self.test.records)  # named, so that workers prepare the records only once
        setup = Setup(run, labels, {}, records, self.folder.modules.get, None)
        return self.opened.enter_context(InProcess(setup, model.stack))

    @cached_property
    def file(self) -> str:
        """Name of the files in which the probabilities of these test records are kept."""
        return file_of(self.test, self.folder.description.labels)
