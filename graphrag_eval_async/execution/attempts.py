"""How long and how often servers are tried, and what they say if they have no time."""

PAUSES = (0.2, 1.0)
"""Minimum seconds between the attempts if a server is overloaded or does not answer."""

MAX_WAIT_SECONDS = 60.0
"""Maximum seconds between two attempts; a server that asks for more is not asked again."""

MAX_CONNECT_SECONDS = 10.0
"""Maximum seconds for connecting."""

PROBE_SECONDS = 5.0
"""Maximum seconds for a query that takes no time, which asks whether a server answers."""

TIMEOUT_WORDS = ("timed out", "timeout", "time limit", "time out")
"""What servers say, in lower case, if a query took too long."""
