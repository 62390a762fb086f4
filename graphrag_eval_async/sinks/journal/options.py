"""Where a journal is, how it is kept, and under which conditions it was begun."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from graphrag_eval_async.errors import JournalError, JournalMismatch, UsageError
from graphrag_eval_async.sinks.append_file import sync_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIXES = (".run", ".run.tmp", ".rejects", ".rejects.tmp", ".damaged", ".tmp")
"""Of the names of the files beside a journal."""

FORMAT = "1"
"""Of the journal and of the files beside it."""

Fsync = Literal["never", "interval", "always"]


@dataclass(frozen=True, slots=True)
class Journal:
    """Results as JSONL that a stream adds to, and goes on with when it is started again.

    Beside ``results.jsonl`` stand ``results.jsonl.run`` (fingerprints of the reference set, the configuration
    and the version), ``results.jsonl.rejects`` and, if need be, ``results.jsonl.damaged`` (lines of the
    journal that could not be read, which are evaluated again).

    Attributes:
        path: of the file, which is made if there is none.
        force: whether to go on with a journal that was begun under other conditions.
        fsync: what outlives a power failure or a crash of the system; a process that is killed loses nothing
            that was written. "always": each result, before the consumer sees it. "interval": all but those
            of the last `fsync_interval`. "never": what the system has written by then, usually all but those
            of the last half a minute.
        fsync_interval: in seconds, more than 0.
        rejects: path of the file of rejects, in place of the one above.
    """

    path: str | os.PathLike[str]
    force: bool = False
    fsync: Fsync = "interval"
    fsync_interval: float = 1.0
    rejects: str | os.PathLike[str] | None = None

    @property
    def paths(self) -> list[str]:
        """Of all files that may stand beside it, itself included: none of them is ever read as a source."""
        path = os.fspath(self.path)
        beside = [f"{path}{suffix}" for suffix in SUFFIXES]
        return [path, *beside, *([] if self.rejects is None else [os.fspath(self.rejects)])]

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: one is not possible.
        """
        if not isinstance(self.path, str | os.PathLike):
            raise UsageError(f"journal: expected a path or a Journal, got {self.path!r}")
        if not isinstance(self.rejects, str | os.PathLike | None):
            raise UsageError(f"journal.rejects: expected a path, got {self.rejects!r}")
        if not isinstance(self.force, bool):
            raise UsageError(f"journal.force: expected a boolean, got {self.force!r}")
        if self.fsync not in ("never", "interval", "always"):
            raise UsageError(f'journal.fsync: expected "never", "interval" or "always", got {self.fsync!r}')
        interval = self.fsync_interval
        if not isinstance(interval, int | float) or isinstance(interval, bool) or not 0 < interval < 1e9:
            raise UsageError(f"journal.fsync_interval: expected seconds, more than 0, got {interval!r}")


class Kept(msgspec.Struct, kw_only=True):
    """What the file beside a journal holds.

    Attributes:
        fingerprints: of the conditions of the run, by name; none if there is no such file.
        origins: by the key of a followed file, the bytes of it that came before the journal was begun.
        earlier: fingerprints that `force` has replaced.
        copies: by the root of the keys of a followed file, the key of the one that it is a copy of.
        followed: whether files were followed.
    """

    fingerprints: dict[str, str]
    origins: dict[str, int]
    earlier: list[Any] = []
    copies: dict[str, str] = {}
    followed: bool = False


class RunFile:
    """The file beside a journal; `kept` is what it holds."""

    def __init__(self, path: str, *, fresh: bool) -> None:
        """Read the file, unless it is `fresh`: not there, or left over from a journal that is gone.

        Raises:
            JournalError: it cannot be read.
        """
        self._path = path
        self.kept = Kept(fingerprints={}, origins={})
        try:
            data = Path(path).read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise JournalError(f"{path}: cannot be read: {error.strerror}") from error
        if data and not fresh:
            try:
                self.kept = msgspec.json.decode(data, type=Kept)
            except ValueError:
                text = "is not what stands beside a journal; remove it, or use another journal"
                raise JournalMismatch(f"{path}: {text}") from None

    def check(self, journal: str, fingerprints: Mapping[str, str], *, begun: bool, force: bool) -> None:
        """Check that a journal was begun under the conditions of now, and keep them.

        Args:
            journal: its path.
            fingerprints: of the conditions now.
            begun: whether there is anything in it.
            force: whether to go on under others.

        Raises:
            JournalMismatch: these are others.
            JournalError: they cannot be kept.
        """
        kept = self.kept.fingerprints
        now = {"format": FORMAT, **fingerprints}
        if kept == now:
            return
        if begun and not force:
            raise _mismatch(journal, self._path, kept, now)
        self.kept.fingerprints = now
        self.kept.earlier = [*self.kept.earlier, kept] if begun and kept else []
        self._write()

    def note(self, origins: Mapping[str, int], copies: Mapping[str, str]) -> None:
        """Keep which files are copies, and where reading began in files for which that is not known yet.

        Raises:
            JournalError: it cannot be kept.
        """
        self.kept.origins = {**origins, **self.kept.origins}
        self.kept.copies = {**self.kept.copies, **copies}
        self.kept.followed = True
        self._write()

    def _write(self) -> None:
        draft = Path(f"{self._path}.tmp")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self.kept), indent=2) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
            sync_directory(self._path)
        except OSError as error:
            raise JournalError(f"{self._path}: cannot be written: {error.strerror}") from error


def _mismatch(journal: str, beside: str, kept: Mapping[str, str], now: Mapping[str, str]) -> JournalMismatch:
    if not kept:
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
