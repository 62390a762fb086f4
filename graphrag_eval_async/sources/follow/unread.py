"""What was seen and could not be read."""

from __future__ import annotations

from graphrag_eval_async.sources.lines import LOGGER


class Unread:
    """Why files could not be read so far, by path.

    Attributes:
        reasons: a reason for each path, such as "cannot be read: Permission denied".
    """

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    def retry(self, path: str, problem: OSError | str) -> None:
        """Add a file or directory that the next look tries to read again.

        The problem is logged unless it is the same as before.

        Args:
            path: the path.
            problem: why it cannot be read.
        """
        cause = _cause(problem)
        reason = f"cannot be read: {cause}"
        if self.reasons.get(path) != reason:
            self.reasons[path] = reason
            LOGGER.warning("%s: not readable yet; retrying: %s", path, cause)

    def give_up(self, path: str, reason: str) -> None:
        """Add a file that will not be read again, with the reason."""
        self.reasons[path] = reason

    def forget(self, path: str) -> None:
        """Remove a path that can be read now."""
        self.reasons.pop(path, None)


def _cause(problem: OSError | str) -> str:
    """Return a problem as text, such as "Permission denied"."""
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return problem
