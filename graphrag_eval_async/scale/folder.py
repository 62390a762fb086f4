"""The folder of finished shards, which stays until the whole run is joined."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import JournalError, JournalLocked, UsageError
from graphrag_eval_async.sinks.files import LockedFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SUFFIX = ".shards"
"""The suffix of the folder beside the results of a run."""

LOCK_FILE = "lock"
"""Name of the file that a run locks in the folder, as long as it uses the folder."""

UNFINISHED_PREFIX = "."
"""Prefix of the folders of shards that are not finished."""


class ShardFolder:
    """The folder of finished shards of one run at a time; each shard has a folder in it.

    Attributes:
        path: where it is.
        finished: names of the shards that are finished.
    """

    def __init__(self, path: str) -> None:
        """Make the folder if it does not exist, and lock it.

        Raises:
            UsageError: the folder cannot be made.
            JournalLocked: another run uses the folder.
        """
        self.path = Path(os.path.abspath(path))
        try:
            self.path.mkdir(exist_ok=True)
            self._lock = LockedFile(self.path / LOCK_FILE)
        except JournalLocked:
            raise JournalLocked(f"{path}: another run writes its results there") from None
        except (OSError, JournalError) as error:
            raise UsageError(f"{path}: cannot be used for finished shards: {error}") from error
        self.finished = {
            shard.name
            for shard in self._folders_of_shards()
            if not shard.name.startswith(UNFINISHED_PREFIX)
        }

    def _folders_of_shards(self) -> list[Path]:
        """Return the folders of shards, finished or not."""
        return [entry for entry in self.path.iterdir() if entry.is_dir()]

    def keep_only(self, names: Collection[str]) -> int:
        """Delete unfinished shards, and finished ones that do not have one of these names.

        Returns:
            how many finished shards were deleted.
        """
        unwanted = self.finished.difference(names)
        for shard in self._folders_of_shards():
            if shard.name in unwanted or shard.name.startswith(UNFINISHED_PREFIX):
                shutil.rmtree(shard, ignore_errors=True)
        self.finished -= unwanted
        return len(unwanted)

    def of(self, name: str) -> Path:
        """Return the folder of a shard."""
        return self.path / name

    def remove(self) -> None:
        """Delete the folder with all shards."""
        shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Unlock the folder; the finished shards stay for the next run."""
        self._lock.close()


@contextmanager
def finished_in(folder: str, name: str) -> Iterator[Path]:
    """Yield a new folder, which becomes that of the finished shard `name` if the context ends well.

    So the folder of a shard is complete or absent, even if two workers evaluate the shard: one that
    was presumed dead may still be running.
    """
    draft = Path(folder, f"{UNFINISHED_PREFIX}{name}.{token_hex(4)}")
    finished = Path(folder, name)
    draft.mkdir()
    try:
        yield draft
        try:
            os.rename(draft, finished)
        except OSError:
            # Another worker may have finished the shard meanwhile.
            if not finished.exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
