"""Which requests a server answers that only this machine can reach."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

REFUSAL = (
    "This page is for this machine only: open it as http://localhost:PORT/, also through a "
    "tunnel such as ssh -L PORT:localhost:PORT. For other machines, listen on another address, "
    "such as 0.0.0.0.\n"
)
_PORT = re.compile(r":\d+\Z", re.ASCII)


class HostCheck:
    """Refuses requests from other pages and, on a loopback address, under names that are not this
    machine's.

    Otherwise a page of any site could read the answers, once its name resolves to this address.
    """

    def __init__(self, host: str) -> None:
        """Check requests to a server that listens on this host."""
        # An address on the web has brackets round an IPv6 address.
        self.name = f"[{host}]" if ":" in host else host
        self.is_local = host == "localhost"
        # The host may be a name, which is no IP address; then a `ValueError` is raised.
        with suppress(ValueError):
            self.is_local = self.is_local or ip_address(host).is_loopback
        self._names = {"localhost", "127.0.0.1", "[::1]", self.name.lower()}

    def refuses(self, host: str, origin: str | None) -> bool:
        """Return whether to refuse a request, which a hostile web page may have made.

        A server for this machine only refuses requests to other host names. Every server refuses
        requests from pages of another origin. Any port is allowed, such as that of a tunnel.

        Args:
            host: the header ``Host`` of the request.
            origin: the header ``Origin``; None if the request does not have it.
        """
        is_strange = self.is_local and _PORT.sub("", host).lower() not in self._names
        return is_strange or (origin is not None and origin.lower() != f"http://{host}".lower())
