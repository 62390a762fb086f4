"""Limits for the HTTP connections of servers that this package opens, and log lines about them."""

from __future__ import annotations

import logging
from time import monotonic

from graphrag_eval_async.helpers.posix import IS_POSIX

LOGGER = logging.getLogger("graphrag_eval_async.http")

REQUEST_SECONDS = 10.0
"""Time within which a client has to send a whole request, in seconds."""

REQUEST_SECONDS_WHEN_FULL = 1.0
"""The same while no further connection can be open, so that clients that wait get their turn."""

MAX_CONNECTIONS = 512
"""Maximum number of open connections of a server. Chosen: more than people look at a page."""

DESCRIPTORS_PER_CONNECTION = 10
"""A server may use one in ten of the descriptors that the process may have.

Followed files may take three quarters of them, and calls to judges need some as well.
"""

MIN_CONNECTIONS = 4
"""Number of connections that a server accepts, however few descriptors the process may have."""

FULL_PAUSE_SECONDS = 0.05
"""Pause before a server looks again whether one of its connections ended, in seconds."""

ERROR_PAUSE_SECONDS = 1.0
"""Pause after an error of the system, such as too many open files, in seconds."""

NOTE_SECONDS = 60.0
"""Minimum time between two log lines of a server about its connections, in seconds."""


def connection_limit() -> int:
    """Return how many connections a server of this process may have open at the same time."""
    if not IS_POSIX:
        return MAX_CONNECTIONS
    import resource  # Only POSIX systems have it.

    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    share = descriptors // DESCRIPTORS_PER_CONNECTION
    return max(MIN_CONNECTIONS, min(share, MAX_CONNECTIONS))


class ConnectionNotes:
    """Logs warnings about the connections of a server, at most one in `NOTE_SECONDS`.

    Clients cause the warnings, so without a limit they could fill standard error.
    """

    def __init__(self, server: str) -> None:
        """Start without a warning; `server` names the server in each line."""
        self._server = server
        self._noted_at: float | None = None

    def warn(self, problem: str) -> None:
        """Log that the server has this problem, unless the last warning was a short time ago."""
        now = monotonic()
        if self._noted_at is None or now - self._noted_at >= NOTE_SECONDS:
            self._noted_at = now
            LOGGER.warning("%s: %s", self._server, problem)
