"""The conditions of a journal, stored in the ``.run`` file beside it."""

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
"""Format version of the journal and of the files beside it."""

LEGIBLE = frozenset({"version", "dedupe", "max_line_bytes", "shard"})
"""Fingerprints that are not hashes."""


class Conditions(msgspec.Struct, kw_only=True):
    """The contents of the ``.run`` file."""

    fingerprints: dict[str, str]  # By name; empty if there is no file.
    origins: dict[str, Size]  # Bytes before the first line to read, by key of a followed file.
    earlier: list[Any] = []  # Fingerprints that `force` replaced.
    copies: dict[str, str] = {}  # Key of the original, by the root of the keys of a followed file.
    followed: bool = False  # Whether files were followed.

    def write(self, path: str) -> None:
        """Replace the file at `path`."""
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
    """Return the conditions in the file at `path`; new ones if there is no file."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=Conditions) if data else new_conditions()
    except (ValueError, RecursionError):
        text = "not the .run file of a journal; remove it, or use another journal"
        raise JournalMismatch(f"{path}: {text}") from None


def mismatch(journal: str, kept: Mapping[str, str], now: Mapping[str, str]) -> JournalMismatch:
    """Return the error for a journal that was started under other conditions."""
    if not kept:
        return JournalMismatch(
            f"{journal}: not empty, but its file {journal}.run is missing; "
            "use another file, or resume with --resume=force, in Python Journal(..., force=True)"
        )
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    shown = [f"{name} ({kept.get(name)}, now {now.get(name)})" if name in LEGIBLE else name for name in names]
    return JournalMismatch(
        f"{journal}: was started with another {', another '.join(shown)}; its results and new ones would not "
        "be comparable. Use another journal, or resume with --resume=force, in Python "
        "Journal(..., force=True)",
        names,
    )
