"""What there is in a directory, listed as it changes, and what files are called once they are rotated."""

from __future__ import annotations

import os
import re
from time import monotonic

GONE = (FileNotFoundError, NotADirectoryError)

SETTLING_SECONDS = 2.0
"""For how long after a change another one may leave no trace in the time stamp of a file or directory."""

RELISTING_SECONDS = 10.0
"""How often a directory is listed that does not change: on some file systems it would not say so."""

LISTING_SHARE = 10
"""Listing may take one part in so many of the time."""

_NUMBER = r"\d[\dTZ_.:-]*"
_DATE = r"\d{4}-?\d\d-?\d\d[\dTZ_.:-]*"
_TAG = rf"(?:\.(?:{_NUMBER}|old|bak|prev|rotated)|-{_DATE})"
_AT_THE_END = re.compile(rf"(.+?){_TAG}")
_BEFORE_THE_SUFFIX = re.compile(rf"(.+?){_TAG}(\.[A-Za-z]\w*)")


def rotated_from(name: str) -> list[str]:
    """The names that a file may have had before it was rotated: of `log.jsonl.1`, it is `log.jsonl`."""
    names = []
    if match := _AT_THE_END.fullmatch(name):
        names.append(match[1])
    if match := _BEFORE_THE_SUFFIX.fullmatch(name):
        names.append(match[1] + match[2])
    return names


class Watch:
    """Says when a directory is to be listed again: for a while after each change, and not all the time."""

    def __init__(self) -> None:
        self._state: tuple[int, ...] = ()
        self._changed = self._listed = self._due = float("-inf")

    def is_due(self, status: os.stat_result | None, now: float) -> bool:
        """Whether to list a directory that has this status by now."""
        if (state := _state(status)) != self._state:
            self._state, self._changed = state, now
        recently = max(self._changed + SETTLING_SECONDS, now - RELISTING_SECONDS)
        return now >= self._due and self._listed <= recently

    def expect(self, now: float) -> None:
        """Something may change that the directory would not tell of."""
        self._changed = now

    def listed(self, now: float, took: float) -> None:
        """It was listed, which took so many seconds."""
        self._listed = now
        self._due = now + took * LISTING_SHARE


class Directory:
    """What there is in a directory.

    Attributes:
        path: as names in it begin; empty for the current directory.
        rotation: says when to look for rotated files.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._state: tuple[int, ...] = ()
        self._looked = self._changed = float("-inf")
        self._entries: list[str] = []
        self._members = Watch()
        self.rotation = Watch()
        self._rotated: tuple[float, dict[str, list[str]]] = (float("-inf"), {})

    def is_quiet(self, now: float) -> bool:
        """Whether all names in it stand for the same files as for a while, but for links to elsewhere."""
        if self._looked != now:
            self._looked = now
            try:
                state = _state(look_up(self.path or os.curdir))
            except OSError:
                state = ()
            if state != self._state:
                self._state, self._changed = state, now
        return now > self._changed + SETTLING_SECONDS

    def entries(self, now: float, *, at_once: bool) -> list[str]:
        """The same list as before, if it was not found to have changed.

        Raises:
            OSError: it cannot be listed.
        """
        status = look_up(self.path or os.curdir)
        if status is None:
            self._entries = []
        if self._members.is_due(status, now) or at_once:
            began = monotonic()
            self._entries = sorted(self._list())
            self._members.listed(now, monotonic() - began)
        return self._entries

    def rotated(self, now: float) -> dict[str, list[str]]:
        """By the names that they may have had before, what may be rotated files; none unless it changed."""
        if self._rotated[0] != now:
            began = monotonic()
            try:
                is_due = self.rotation.is_due(look_up(self.path or os.curdir), now)
                self._rotated = now, self.rotated_now() if is_due else {}
            except OSError:
                return {}
            if is_due:
                self.rotation.listed(now, monotonic() - began)
        return self._rotated[1]

    def rotated_now(self) -> dict[str, list[str]]:
        """The same, changed or not."""
        found: dict[str, list[str]] = {}
        for entry in self._list():
            for name in rotated_from(entry):
                found.setdefault(name, []).append(entry)
        return found

    def _list(self) -> list[str]:
        try:
            return os.listdir(self.path or os.curdir)
        except GONE:
            return []


def look_up(path: str) -> os.stat_result | None:
    """The status of what is there under that name; None if nothing is."""
    try:
        return os.stat(path)
    except GONE:
        return None


def _state(status: os.stat_result | None) -> tuple[int, ...]:
    return () if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns)
