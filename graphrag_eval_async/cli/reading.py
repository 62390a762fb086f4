"""Results that are read from files, and lines that are none."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.batch import read_results
from graphrag_eval_async.cli.report import LISTED_REJECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.records import Reason, Reject
    from graphrag_eval_async.sinks import RejectsFile
    from graphrag_eval_async.sources import JsonlFiles


class Reading:
    """What was read so far.

    Attributes:
        rejected: how many lines are no results, by reason.
        listed: the first of them as text, where no file takes them.
    """

    def __init__(self, rejects_file: RejectsFile | None, *, max_line_bytes: int) -> None:
        self.rejected: Counter[Reason] = Counter()
        self.listed: list[str] = []
        self._file = rejects_file
        self._max_line_bytes = max_line_bytes

    async def read(
        self,
        sources: Iterable[tuple[str, JsonlFiles, Callable[[dict[str, Any]], object]]],
        advance: Callable[[], object],
    ) -> None:
        """Read sources, one after the other: the name of each, its files, and what takes its results.

        Raises:
            SourceError: a file cannot be read.
        """
        for name, source, add in sources:
            await read_results(
                source,
                add,
                partial(self._reject, name),
                max_line_bytes=self._max_line_bytes,
                spool=self._file is not None,
                advance=advance,
            )

    def _reject(self, source: str, rejected: Reject) -> None:
        name = rejected.path or source
        self.rejected[rejected.reason] += 1
        if self._file is not None:
            self._file(rejected, file=name)
        elif len(self.listed) < LISTED_REJECTS:
            self.listed.append(f"{name}: {rejected}")
        if rejected.content is not None and not isinstance(rejected.content, bytes):
            rejected.content.close()
