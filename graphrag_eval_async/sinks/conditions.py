"""The conditions under which a journal was started, in the file ``.run`` beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from graphrag_eval_async.errors import JournalError, JournalMismatch
from graphrag_eval_async.records import Copy  # noqa: TC001  (msgspec reads annotations)
from graphrag_eval_async.sinks.done import Size  # noqa: TC001  (msgspec reads annotations)
from graphrag_eval_async.sinks.files import drafted, flush

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FORMAT = "2"
"""Format version of the journal and of the files beside it."""

SHOWN_CHARACTERS = 12
"""Length to which messages cut a fingerprint."""


class Conditions(msgspec.Struct, kw_only=True):
    """The contents of the ``.run`` file: the conditions under which a journal was started.

    Attributes:
        fingerprints: digests of all that must be the same in each run, such as the reference set,
            by name; empty if there is no file.
        origins: for each followed file, by its key, the offset of the first line to read.
        copies: files that repeat a followed file, by inode. Older journals only have the key of the
            followed file.
        followed: whether files were followed.
    """

    fingerprints: dict[str, str] = {}
    origins: dict[str, Size] = {}
    copies: dict[str, Copy | str] = {}
    followed: bool = False

    @property
    def format(self) -> str:
        """Format version of the journal; the current one if there is no file."""
        return self.fingerprints.get("format", FORMAT)


def read_conditions(path: Path) -> Conditions:
    """Return the conditions in the file at `path`.

    Raises:
        JournalError: it cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Conditions)
    except (OSError, ValueError, RecursionError) as error:
        raise JournalError(f"{path}: cannot be read: {error}") from error


def write_conditions(path: Path, conditions: Conditions) -> None:
    """Write conditions to the file at `path`, atomically, and flush it to disk.

    Raises:
        JournalError: it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(conditions), indent=2)
    try:
        # Other users can predict the name and make it a link to some other file of this user.
        with drafted(str(path), follow_links=False) as draft, open(draft, "wb") as file:
            file.write(text + b"\n")
            flush(file)
    except OSError as error:
        raise JournalError(f"{path}: cannot be written: {error.strerror}") from error


def mismatch(journal: str, before: Conditions, now: Mapping[str, str]) -> JournalMismatch:
    """Return the error for a journal that was started under other conditions, which it lists.

    Args:
        journal: path of the journal.
        before: the conditions under which it was started.
        now: fingerprints of this run.
    """
    if not before.fingerprints:
        return JournalMismatch(
            f"{journal}: was not started with --resume (its file {journal}.run is missing), so it "
            "has no checksums; use another output file, with --resume from the start"
        )
    if before.format != FORMAT:
        return JournalMismatch(
            f"{journal}: written by another version of the library (format {before.format}, this "
            f"one reads {FORMAT}); evaluate again into a new file",
            ["format"],
        )

    names = []
    changes = []
    for name in {**before.fingerprints, **now}:
        fingerprint_before = before.fingerprints.get(name)
        fingerprint_now = now.get(name)
        if fingerprint_before == fingerprint_now:
            continue
        names.append(name)
        if name == "agent":
            # A fingerprint of an agent means nothing to users, so it is not shown.
            changes.append("agent (its URL, method, params, body or paths changed)")
        else:
            shown_before = str(fingerprint_before)[:SHOWN_CHARACTERS]
            shown_now = str(fingerprint_now)[:SHOWN_CHARACTERS]
            changes.append(f"{name} ({shown_before}, now {shown_now})")
    return JournalMismatch(
        f"{journal}: was started with another {', another '.join(changes)}; results would not be "
        "comparable. Use another journal, or resume with force (--resume=force)",
        names,
    )
