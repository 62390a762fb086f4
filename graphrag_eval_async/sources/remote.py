"""Files at addresses such as ``s3://bucket/log.jsonl``, read in ranges by fsspec."""

from __future__ import annotations

import hashlib
import os
import re
import time
from functools import partial
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import SourceError, UsageError, check_extra

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

RANGE_BYTES = 1 << 22
"""Maximum size of a range. Each is one request, and one is held in memory."""

ATTEMPTS = 5
"""Attempts at each request, the first included."""

FIRST_DELAY = 0.25
"""Seconds between the first two attempts; the delay doubles each time."""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HTTP = ("http://", "https://")
_OF_VERSION = ("ETag", "etag", "LastModified", "Last-Modified", "generation", "mtime", "updated", "created")
_REFUSED, _MISSING, _TEMPORARY = {401, 403}, {404, 410}, {408, 429, *range(500, 600)}


def is_address(path: object) -> bool:
    """Whether a path is an address, such as ``https://host/file``."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages and results show it: an address without its password, query and fragment."""
    path = os.fspath(path)
    if not is_address(path):
        return path
    scheme, _, rest = path.partition("://")
    host, slash, name = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{name}"


def suffix_of(path: str) -> str:
    """The suffix of the file name, without the query of an address."""
    return os.path.splitext(shown(path))[1]


class RemoteFile(RawIOBase):
    """A file at an address as it was when it was opened. Its methods wait: call them in threads."""

    def __init__(self, address: str) -> None:
        self.name = shown(address)  # Without secrets.
        self._fs, self._path = _file_system(address)
        self.size, self._version = self._status()
        text = f"{self.name}\n{self.size} {self._version}"
        self.key = hashlib.sha256(text.encode()).hexdigest()[:32]  # Identifies the version.
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._place = offset + {SEEK_SET: 0, SEEK_CUR: self._place, SEEK_END: self.size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Request the next bytes; raises a `SourceError` if they cannot be read, or the file has changed."""
        start, end = self._place, min(self._place + len(buffer), self.size)
        if start >= end:
            return 0
        options = {"headers": {"Accept-Encoding": "identity"}} if self.name.startswith(_HTTP) else {}
        data = attempt(self.name, partial(self._fs.cat_file, self._path, start=start, end=end, **options))
        if self._status() != (self.size, self._version):
            raise SourceError(f"{self.name}: was changed while it was read")
        if len(data) != end - start:
            raise SourceError(f"{self.name}: the server does not serve ranges; download the file")
        buffer[: len(data)] = data
        self._place = end
        return len(data)

    def _status(self) -> tuple[int, str]:
        """The size and, as far as the server tells versions apart, the version."""
        self._fs.invalidate_cache()
        info = attempt(self.name, partial(self._fs.info, self._path))
        if not isinstance(info.get("size"), int) or info.get("type") == "directory":
            raise SourceError(f"{self.name}: cannot be read: it has no size, or is a directory")
        found = (f"{key}={info[key]}" for key in _OF_VERSION if info.get(key) is not None)
        return info["size"], " ".join(found)


def list_remote(address: str, is_member: Callable[[str], bool]) -> list[str]:
    """The files that an address stands for: itself, those of a directory, or those that a pattern matches."""
    name = shown(address)
    if name.startswith(_HTTP):  # They have no directories, and "?" begins a query.
        return [address]
    fs, path = _file_system(address)
    fs.invalidate_cache()
    if any(sign in path for sign in "*?[") and not attempt(name, partial(fs.exists, path)):
        found = [*attempt(name, partial(fs.glob, path, detail=True)).values()]
    elif attempt(name, partial(fs.isdir, path)):
        found = attempt(name, partial(fs.ls, path, detail=True))
        found = [each for each in found if is_member(each["name"].rpartition("/")[2])]
    else:
        return [address]
    files = sorted(each["name"] for each in found if each.get("type") != "directory")
    if not files:
        raise SourceError(f"{name}: there is no such file, and no .jsonl, .jsonl.gz or .parquet file in it")
    return [fs.unstrip_protocol(each) for each in files]


def attempt(name: str, request: Callable[[], R]) -> R:
    """The result of a request, repeated after temporary errors, whose texts may quote secrets."""
    for number in range(1, ATTEMPTS + 1):
        try:
            return request()
        except Exception as error:  # noqa: BLE001  (each file system has errors of its own)
            problem, may_pass = _explain(error)
            if number == ATTEMPTS or not may_pass:
                raise SourceError(f"{name}: {problem}") from None
        time.sleep(FIRST_DELAY * 2 ** (number - 1))
    raise AssertionError


def _explain(error: Exception) -> tuple[str, bool]:
    """What is wrong, and whether it is temporary."""
    cause = error.__cause__ or error  # Of HTTP: whatever the server said.
    status = getattr(cause, "status", None) or getattr(cause, "code", None)
    if status in _REFUSED or isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
        return "access was refused; check the credentials in the environment", False
    if status in _MISSING or (isinstance(error, FileNotFoundError) and status is None):
        return "cannot be read: there is no such file", False
    if isinstance(status, int):
        return f"cannot be read (status {status})", status in _TEMPORARY
    is_final = isinstance(error, TypeError | NotImplementedError | IsADirectoryError)
    return f"cannot be read ({type(error).__name__})", not is_final


def _file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    name = shown(address)
    check_extra(f"{name}: a URL", "cloud", "fsspec")
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(address, use_listings_cache=False)
        return fs, path
    except ImportError as error:
        needed = re.search(r"[Ii]nstall (\w+)", str(error))
        package = f": pip install {needed[1]}" if needed else ""
        raise UsageError(f"{name}: a package for this kind of address is missing{package}") from None
    except ValueError:
        raise UsageError(f"{name}: there is no file system of this kind; s3, gs and https are some") from None
    except Exception as error:  # noqa: BLE001  (as of `attempt`)
        raise SourceError(f"{name}: cannot be read ({type(error).__name__})") from None
