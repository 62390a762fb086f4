"""Ports for servers that have to be told one."""

from __future__ import annotations

import random
import socket
from pathlib import Path

EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_000


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses at this moment.

    The system gives its ephemeral ports to whoever connects or binds next, even to a client that
    connects to the port itself while its server restarts. So it is none of them, if there are
    others.
    """
    end = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32768
    chance = random.SystemRandom()  # Tests at the same time may have the same seed.
    for _ in range(100 if end > FIRST else 0):
        port = chance.randrange(FIRST, end)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
