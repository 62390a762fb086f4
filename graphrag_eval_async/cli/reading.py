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
from graphrag_eval_async.sinks import write_reject
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.records import Reason, Reject
    from graphrag_eval_async.sinks import LineFile
    from graphrag_eval_async.sources import JsonlFiles


class RejectedLines:
    """Lines that are no results.

    Attributes:
        file: takes them whole, if there is one.
        counts: how many there are, by reason.
        listed: the first of them as text, unless a file takes them.
    """

    def __init__(self, file: LineFile | None) -> None:
        self.file = file
        self.counts: Counter[Reason] = Counter()
        self.listed: list[str] = []

    def add(self, path: str, rejected: Reject) -> None:
        """Take a line of what was given as `path`."""
        name = rejected.path or path
        self.counts[rejected.reason] += 1
        if self.file is not None:
            write_reject(self.file, rejected, file=name)
        elif len(self.listed) < LISTED_REJECTS:
            self.listed.append(f"{name}: {rejected}")
        if rejected.content is not None and not isinstance(rejected.content, bytes):
            rejected.content.close()


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
        self._max_line_bytes = max_line_bytes
        opened = [(path, read_jsonl(path), add) for path, add in sources]
        with ExitStack() as files:
            file = files.enter_context(open_rejects(rejects, interrupts)) if rejects else None
            self._rejected = RejectedLines(file)
            self.rejected, self.listed = self._rejected.counts, self._rejected.listed
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
                partial(self._rejected.add, path),
                max_line_bytes=self._max_line_bytes,
                spool=self._rejected.file is not None,
                advance=advance,
            )
