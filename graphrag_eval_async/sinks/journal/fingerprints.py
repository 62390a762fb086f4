"""Under which conditions a journal was begun, in a file beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from graphrag_eval_async.errors import JournalError, JournalMismatch
from graphrag_eval_async.sinks.append_file import sync_directory

FORMAT = 1
"""Of the journal and of the files beside it."""


class RunFile:
    """What stands beside a journal: fingerprints by name, and where the reading of files began.

    Attributes:
        origins: by the key of a followed file, the bytes of it that came before the journal was begun.
        copies: by what is the same in all keys of a followed file, the key of the one that it is a copy of.
        followed: whether files were followed before.
    """

    def __init__(self, path: str, *, fresh: bool) -> None:
        """Read the file, if it is there and not, with `fresh`, left over from a journal that is gone.

        Raises:
            JournalError: it cannot be read.
        """
        self._path = path
        self._kept: dict[str, Any] = {}
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise JournalError(f"{path}: cannot be read: {error.strerror}") from error
        if data and not fresh:
            self._kept = _read(path, data)
        self.origins: dict[str, int] = self._kept.get("origins", {})
        self.copies: dict[str, str] = self._kept.get("copies", {})
        self.followed = bool(self._kept.get("followed"))

    def check(self, journal: str, fingerprints: Mapping[str, str], *, begun: bool, force: bool) -> None:
        """See that a journal goes on under the conditions under which it was begun, and keep them.

        Args:
            journal: its path.
            fingerprints: of the conditions now.
            begun: whether there is anything in it.
            force: whether to go on under others.

        Raises:
            JournalMismatch: these are others.
            JournalError: they cannot be kept.
        """
        kept = self._kept.get("fingerprints")
        now = {"format": str(FORMAT), **fingerprints}
        if kept == now:
            return
        if begun and not force:
            raise _mismatch(journal, self._path, kept, now)
        earlier = [*self._kept.get("earlier", []), kept] if begun and kept else []
        self._kept |= {"fingerprints": now, "origins": self.origins, "earlier": earlier}
        self._write()

    def note(self, origins: Mapping[str, int], copies: Mapping[str, str]) -> None:
        """Keep which files are copies, and where the reading began of those of which that is not known yet.

        Raises:
            JournalError: it cannot be kept.
        """
        self.origins = {**origins, **self.origins}
        self.copies = {**self.copies, **copies}
        self._kept |= {"origins": self.origins, "copies": self.copies, "followed": True}
        self._write()

    def _write(self) -> None:
        draft = Path(f"{self._path}.tmp")
        try:
            with draft.open("wb") as file:
                file.write(orjson.dumps(self._kept, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            sync_directory(self._path)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {error.strerror}") from error


def _read(path: str, data: bytes) -> dict[str, Any]:
    try:
        kept = orjson.loads(data)
        are_right = (
            isinstance(kept["fingerprints"], Mapping)
            and all(type(offset) is int for offset in kept["origins"].values())
            and all(type(original) is str for original in kept.get("copies", {}).values())
        )
        if are_right:
            return {"earlier": [], **kept}
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise JournalMismatch(f"{path}: is not what stands beside a journal; remove it, or use another journal")


def _mismatch(
    journal: str, beside: str, kept: Mapping[str, str] | None, now: Mapping[str, str]
) -> JournalMismatch:
    if kept is None:
        return JournalMismatch(
            f"{journal}: there is something in it, but not {beside}, which stands beside every journal; "
            "use another file, or go on with --resume=force, in Python Journal(..., force=True)"
        )
    names = [name for name in {**kept, **now} if kept.get(name) != now.get(name)]
    versions = f"version ({kept.get('version')}, now {now.get('version')})"
    shown = [versions if name == "version" else name for name in names]
    return JournalMismatch(
        f"{journal}: was begun under another {', another '.join(shown)}; its results and new ones could not "
        "be compared. Use another journal, or go on with --resume=force, in Python Journal(..., force=True)",
        names,
    )
