"""Reads files at addresses such as ``s3://bucket/log.jsonl`` with fsspec."""

from __future__ import annotations

import hashlib
import os
import re
from io import SEEK_SET, RawIOBase
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from graphrag_eval_async.errors import SourceError, UsageError, check_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

_REFUSED = frozenset({401, 403})
"""HTTP statuses of a server that refuses access."""

_MISSING = frozenset({404, 410})
"""HTTP statuses of a server that has no such file."""


def is_address(path: object) -> bool:
    """Return whether a path is an address, such as ``https://host/file``."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


def without_secrets(path: str | os.PathLike[str]) -> str:
    """Return a path as messages and results may show it.

    From an address, the user, password, query and fragment are removed. Other paths are unchanged.
    """
    path = os.fspath(path)
    if not is_address(path):
        return path
    return "::".join(_link_without_secrets(link) for link in path.split("::"))


def _link_without_secrets(link: str) -> str:
    """Return a part of a chained address without its login, query and fragment.

    Args:
        link: the part, such as ``https://user:password@host/file?query``, or only the name of a
            file system, such as ``simplecache``.
    """
    scheme, separator, location = link.partition("://")
    if not separator:
        return link
    location_without_query = re.split(r"[?#]", location, maxsplit=1)[0]
    login_and_host, slash, file = location_without_query.partition("/")
    host = login_and_host.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{file}"


def suffix_of(path: str) -> str:
    """Return the suffix of a file's name, such as ``.gz``, for a path or an address."""
    return os.path.splitext(without_secrets(path))[1]


class RemoteFile(RawIOBase):
    """An open file at an address. Its methods wait for the server: call them in threads.

    Attributes:
        name: what messages and results call the file.
        key: identifies this version of the file.
    """

    def __init__(self, name: str, unopened: OpenFile) -> None:
        """Open a file.

        Args:
            name: what messages and results call the file.
            unopened: the file, as fsspec found it.

        Raises:
            SourceError: the server refuses access, or the file is a directory.
        """
        info = _request(name, unopened.fs.info, unopened.path)
        if info["type"] == "directory":
            raise SourceError(
                f"{name}: is a directory; write a pattern of its files, such as {name}/*.jsonl"
            )
        self.name = name
        self.key = _version_key(name, info)
        self._file = _request(name, unopened.open)

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
        """Read the next bytes into `buffer`, and return their number.

        Raises:
            SourceError: the server does not send them.
        """
        data = _request(self.name, self._file.read, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _version_key(name: str, info: Mapping[str, Any]) -> str:
    """Return a digest that changes with each version of a remote file.

    Args:
        name: the address of the file without secrets.
        info: what its file system says of it: its size, and usually a time or a version.
    """
    version = [info["size"]]
    version += [f"{key}={info[key]}" for key in VERSION_KEYS if info.get(key) is not None]
    return hashlib.sha256(f"{name} {version}".encode()).hexdigest()[:32]


class UnopenedFile(NamedTuple):
    """A file at an address.

    Attributes:
        name: the address without secrets.
        file: opens the file.
    """

    name: str
    file: OpenFile


def find_remote(address: str) -> list[UnopenedFile]:
    """Return the file at an address, or the files that match an address with wildcards.

    Raises:
        UsageError: fsspec, or a package for this kind of address, is missing.
        SourceError: the server refuses access or fails, or no file matches.
    """
    name = without_secrets(address)
    check_extra(f"{name}: a URL", "cloud", "fsspec")
    import fsspec

    # Asks the server for a list of files only if the address has wildcards.
    try:
        files = fsspec.open_files(address, "rb", use_listings_cache=False)
    except ImportError as error:
        message = f"{name}: a package for this kind of address is missing"
        package = re.search(r"[Ii]nstall (\w+)", str(error))
        if package:
            message += f": pip install {package[1]}"
        raise UsageError(message) from None
    except Exception as error:  # noqa: BLE001  (each file system has errors of its own)
        if "Protocol not known" in str(error):
            raise UsageError(
                f"{name}: fsspec has no file system of this kind; it has s3, gs and https, for "
                "example"
            ) from None
        raise SourceError(f"{name}: {_explain(error)}") from None

    if not files:
        raise SourceError(f"{name}: no file matches this pattern")
    is_pattern = "*" in address
    if is_pattern:
        # Messages name the address of each file instead of the pattern.
        matching_files = []
        for file in files:
            file_address = file.fs.unstrip_protocol(file.path)
            matching_files.append(UnopenedFile(without_secrets(file_address), file))
        return matching_files
    return [UnopenedFile(name, file) for file in files]


def _request(name: str, function: Callable[..., R], *args: Any) -> R:
    """Return `function(*args)`, and convert the exceptions of fsspec.

    Args:
        name: what messages call the file.
        function: a function of fsspec that sends a request to a server.
        args: its arguments.

    Raises:
        SourceError: the function has raised an exception.
    """
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001  (each file system has errors of its own)
        raise SourceError(f"{name}: {_explain(error)}") from None


def _explain(error: Exception) -> str:
    """Return a text that says what is wrong with a request, and what to do.

    It does not quote the text of `error`, which may contain a password or a query.
    """
    # Over HTTP, fsspec raises `FileNotFoundError` for most failures. The real failure is its
    # `__cause__`, such as an error with an HTTP status.
    cause = error.__cause__ or error
    status = getattr(cause, "status", None)

    has_no_credentials = "Credentials" in type(error).__name__
    is_refused = status in _REFUSED or isinstance(error, PermissionError)
    if is_refused or has_no_credentials:
        return "access was refused; check the credentials in the environment"

    has_other_cause = cause is not error and status not in _MISSING
    if isinstance(error, FileNotFoundError) and not has_other_cause:
        return "cannot be read: there is no such file"

    problem = type(cause).__name__ if status is None else f"status {status}"
    return f"cannot be read ({problem}); try again, or download the file"
