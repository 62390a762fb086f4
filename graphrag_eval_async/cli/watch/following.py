"""Which logs are followed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NamedTuple

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources import follow_jsonl
from graphrag_eval_async.sources.rotation import former_names

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from graphrag_eval_async.cli.outputs import Outputs
    from graphrag_eval_async.sources import Follower


class Following(NamedTuple):
    """What the options say; times in seconds."""

    paths: Sequence[str]
    start: Literal["beginning", "end"]
    poll_interval: float
    idle_timeout: float | None

    def check(self, outputs: Outputs) -> None:
        """See that the logs can be followed beside what is written.

        Raises:
            UsageError: standard input or output is asked for, or what is written would be read again.
        """
        if "-" in self.paths:
            raise UsageError("standard input cannot be followed; evaluate reads it")
        if "-" in {outputs.results, outputs.rejects}:
            raise UsageError("standard output is for the view: -o and --rejects need files")
        for written in outputs.read_again():
            for path in self.paths:
                if os.path.normpath(path) in map(os.path.normpath, former_names(written)):
                    raise UsageError(f"{written!r} is a name for the log {path!r} once it is rotated")

    def follow(self, stop: asyncio.Event) -> Follower:
        """What follows the logs until `stop` is set."""
        return follow_jsonl(
            self.paths,
            start=self.start,
            poll_interval=self.poll_interval,
            idle_timeout=self.idle_timeout,
            stop=stop,
        )
