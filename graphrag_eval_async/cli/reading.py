"""Reading the results that ``aggregate`` and ``compare`` are about."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.batch import read_results
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import open_rejects
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import LISTED_REJECTS
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.records import Reason, Reject
    from graphrag_eval_async.sources import JsonlFiles


class Reading:
    """Reads sources to their end, one after the other.

    Attributes:
        ending: how that ended.
        rejected: how many lines are no results, by reason.
        listed: the first of these lines as text, unless a file takes them.
    """

    def __init__(
        self,
        sources: Sequence[tuple[str, Callable[[dict[str, Any]], object]]],
        interrupts: Interrupts,
        *,
        rejects: str | None,
        max_line_bytes: int,
    ) -> None:
        """Read; a source is a path, and what takes its results.

        Raises:
            UsageError: the file `rejects` cannot be opened.
        """
        self.rejected: Counter[Reason] = Counter()
        self.listed: list[str] = []
        self._max_line_bytes = max_line_bytes
        opened = [(path, read_jsonl(path), add) for path, add in sources]
        with ExitStack() as files:
            self._file = files.enter_context(open_rejects(rejects, interrupts)) if rejects else None
            with progress(*(source for _, source, _ in opened)) as advance:
                self.ending = run_to_end(self._read(opened, advance), interrupts)

    async def _read(
        self,
        sources: Iterable[tuple[str, JsonlFiles, Callable[[dict[str, Any]], object]]],
        advance: Callable[[], object],
    ) -> None:
        for path, source, add in sources:
            await read_results(
                source,
                add,
                partial(self._reject, path),
                max_line_bytes=self._max_line_bytes,
                spool=self._file is not None,
                advance=advance,
            )

    def _reject(self, path: str, rejected: Reject) -> None:
        name = rejected.path or path
        self.rejected[rejected.reason] += 1
        if self._file is not None:
            self._file(rejected, file=name)
        elif len(self.listed) < LISTED_REJECTS:
            self.listed.append(f"{name}: {rejected}")
        if rejected.content is not None and not isinstance(rejected.content, bytes):
            rejected.content.close()
