"""Files at addresses such as ``s3://bucket/log.jsonl``, read by fsspec."""

from __future__ import annotations

import hashlib
import os
import re
from io import SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, Any, TypeVar

from graphrag_eval_async.errors import SourceError, UsageError, check_extra

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsspec.core import OpenFile

R = TypeVar("R")

_ADDRESS = re.compile(r"(?:[A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://")
"""The beginning of an address, which may be chained, as in ``simplecache::https://host/file``."""

VERSION_KEYS = (
    "ETag",
    "etag",
    "LastModified",
    "Last-Modified",
    "generation",
    "mtime",
    "updated",
    "created",
)
"""Keys by which file systems of fsspec tell versions of a file apart; each has some of them."""


def is_address(path: object) -> bool:
    """Whether a path is an address, such as ``https://host/file``."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def shown(path: str | os.PathLike[str]) -> str:
    """A path as messages and results show it: an address without its password, query and
    fragment.
    """
    path = os.fspath(path)
    return "::".join(map(_shown_link, path.split("::"))) if is_address(path) else path


def _shown_link(link: str) -> str:
    """One address of a chain, or the name of a file system, without its password, query and
    fragment.
    """
    scheme, separator, rest = link.partition("://")
    if not separator:
        return link
    host, slash, name = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{name}"


def suffix_of(path: str) -> str:
    """The suffix of the file name, without the query of an address."""
    return os.path.splitext(shown(path))[1]


class RemoteFile(RawIOBase):
    """An open file at an address. Its methods wait for the server: call them in threads."""

    def __init__(self, name: str, unopened: OpenFile) -> None:
        """Open the file, which messages and results call `name`."""
        info = _ask(name, unopened.fs.info, unopened.path)
        if info["type"] == "directory":
            raise SourceError(
                f"{name}: is a directory; write a pattern of its files, such as {name}/*.jsonl"
            )
        self.name = name
        version = [
            info["size"],
            *(f"{key}={info[key]}" for key in VERSION_KEYS if info.get(key) is not None),
        ]
        # Identifies the version.
        self.key = hashlib.sha256(f"{name} {version}".encode()).hexdigest()[:32]
        self._file = _ask(name, unopened.open)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        place: int = self._file.tell()
        return place

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; raises a `SourceError` if that fails."""
        data = _ask(self.name, self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def find_remote(address: str) -> list[tuple[str, OpenFile]]:
    """Return the files that an address or a pattern stands for, not opened yet, each after its
    name.
    """
    name = shown(address)
    check_extra(f"{name}: a URL", "cloud", "fsspec")
    import fsspec

    try:
        files = fsspec.open_files(address, "rb", use_listings_cache=False)
    except ImportError as error:
        needed = re.search(r"[Ii]nstall (\w+)", str(error))
        package = f": pip install {needed[1]}" if needed else ""
        raise UsageError(
            f"{name}: a package for this kind of address is missing{package}"
        ) from None
    except Exception as error:  # noqa: BLE001  (as of `_ask`)
        if "Protocol not known" in str(error):
            what = "fsspec has no file system of this kind; it has s3, gs and https, for example"
            raise UsageError(f"{name}: {what}") from None
        raise SourceError(f"{name}: {_explain(error)}") from None
    if not files:
        raise SourceError(f"{name}: no file matches this pattern")
    if "*" not in address:
        return [(name, file) for file in files]
    return [(shown(file.fs.unstrip_protocol(file.path)), file) for file in files]


def _ask(name: str, request: Callable[..., R], *args: Any) -> R:
    """Return the result of a request to a file system; its errors become a `SourceError`."""
    try:
        return request(*args)
    except Exception as error:  # noqa: BLE001  (each file system has errors of its own)
        raise SourceError(f"{name}: {_explain(error)}") from None


def _explain(error: Exception) -> str:
    """Return what is wrong, without the text of the error, which may quote a password or a
    query.
    """
    cause = error.__cause__ or error  # Of HTTP: whatever the server said.
    status = getattr(cause, "status", None)
    if (
        status in {401, 403}
        or isinstance(error, PermissionError)
        or "Credentials" in type(error).__name__
    ):
        return "access was refused; check the credentials in the environment"
    is_answered = cause is error or status in {404, 410}  # Of HTTP: also if there is no server.
    if isinstance(error, FileNotFoundError) and is_answered:
        return "cannot be read: there is no such file"
    problem = type(cause).__name__ if status is None else f"status {status}"
    return f"cannot be read ({problem}); try again, or download the file"
