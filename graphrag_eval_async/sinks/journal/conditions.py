"""Under which conditions a journal was begun: the ``.run`` file beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.errors import JournalError, JournalMismatch
from graphrag_eval_async.sinks.append_file import open_draft, sync_directory
from graphrag_eval_async.sinks.journal.done import Size  # noqa: TC001  (msgspec reads it)

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "2"
"""Of the journal and of the files beside it."""

LEGIBLE = frozenset({"version", "dedupe", "max_line_bytes"})
"""Fingerprints that are no hashes."""


class Conditions(msgspec.Struct, kw_only=True):
    """What the file beside a journal holds."""

    fingerprints: dict[str, str]  # By name; empty if there is no such file.
    origins: dict[str, Size]  # By the key of a followed file, the bytes before the first line to read.
    earlier: list[Any] = []  # Fingerprints that `force` has replaced.
    copies: dict[str, str] = {}  # By the root of the keys of a followed file, the key of its original.
    followed: bool = False  # Whether files were followed.

    def write(self, path: str) -> None:
        """Replace the file at `path`.

        Raises:
            JournalError: it cannot be written.
        """
        draft = f"{path}.tmp"
        try:
            with os.fdopen(open_draft(draft, path), "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
            sync_directory(path)
        except OSError as error:
            raise JournalError(f"{path}: cannot be written: {error.strerror}") from error


def new_conditions() -> Conditions:
    return Conditions(fingerprints={}, origins={})


def read_conditions(path: str) -> Conditions:
    """What the file at `path` holds, if there is one.

    Raises:
        JournalError: it cannot be read.
        JournalMismatch: it is another file.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=Conditions) if data else new_conditions()
    except (ValueError, RecursionError):
        text = "is not what stands beside a journal; remove it, or use another journal"
        raise JournalMismatch(f"{path}: {text}") from None


def mismatch(journal: str, kept: Mapping[str, str], now: Mapping[str, str]) -> JournalMismatch:
    """The error for a journal that was begun under other conditions."""
    if not kept:
        return JournalMismatch(
            f"{journal}: there is something in it, but not {journal}.run, which stands beside every journal; "
            "use another file, or go on with --resume=force, in Python Journal(..., force=True)"
        )
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    shown = [f"{name} ({kept.get(name)}, now {now.get(name)})" if name in LEGIBLE else name for name in names]
    return JournalMismatch(
        f"{journal}: was begun under another {', another '.join(shown)}; its results and new ones could not "
        "be compared. Use another journal, or go on with --resume=force, in Python Journal(..., force=True)",
        names,
    )
