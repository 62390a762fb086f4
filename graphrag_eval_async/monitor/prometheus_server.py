"""Serves metrics over HTTP, in threads of its own."""

from __future__ import annotations

import asyncio
import socket
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.monitor.hosts import REFUSAL, HostCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from graphrag_eval_async.monitor.prometheus import PrometheusCollector

MAX_SCRAPES = 16
"""Maximum number of connections at a time; more are closed."""

IDLE_SECONDS = 10.0
"""How long a client may take to send its request, or to read."""

LOOK_SECONDS = 0.1
"""How often the server looks whether it should end."""


class MetricsServer:
    """Serves the metrics of a collector, from threads of its own; a context manager, which closes it."""

    def __init__(self, host: str, port: int) -> None:
        """Listen; until `run`, the page is empty."""
        check_extra("a page of metrics", "prometheus", "prometheus_client")
        from prometheus_client import CollectorRegistry, make_wsgi_app

        check = HostCheck(host)
        self._registry = CollectorRegistry()
        try:
            self._server = _server(host, port, _answering(make_wsgi_app(self._registry), check))
        except OSError as error:
            problem = error.strerror or error
            raise UsageError(
                f"cannot serve metrics on {check.name}:{port}: {problem}; choose another"
            ) from None
        self.address = f"http://{check.name}:{self._server.server_port}/metrics"
        self._thread = Thread(
            target=self._server.serve_forever, args=(LOOK_SECONDS,), name="metrics", daemon=True
        )
        self._thread.start()

    async def run(
        self, work: Coroutine[Any, Any, None], collector: Callable[[], PrometheusCollector]
    ) -> None:
        """Await `work` while the metrics of `collector()` are served; then close."""
        task = asyncio.ensure_future(work)
        try:
            self._registry.register(collector())
            await task
        finally:
            task.cancel()
            self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _answering(app: Callable[..., Any], check: HostCheck) -> Callable[..., Any]:
    """Return an application that answers 403 to what `check` refuses, 503 if metrics cannot be read."""

    def answer(environ: Any, start_response: Callable[..., Any]) -> Any:
        if check.refuses(environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")):
            start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
            return [REFUSAL.encode()]
        try:
            return app(environ, start_response)
        except Exception as error:  # noqa: BLE001  (Would be a traceback on stderr, amid the view.)
            start_response("503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"metrics cannot be read: {type(error).__name__}\n".encode()]

    return answer


def _server(host: str, port: int, app: Callable[..., Any]) -> Any:
    from socketserver import TCPServer
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    from prometheus_client.exposition import ThreadingWSGIServer

    class Handler(WSGIRequestHandler):
        timeout = IDLE_SECONDS

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing."""

    class Server(ThreadingWSGIServer):
        address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        free = BoundedSemaphore(MAX_SCRAPES)

        def server_bind(self) -> None:
            """Bind without asking for the host's full name, which may take seconds."""
            TCPServer.server_bind(self)
            self.server_name, self.server_port = host, self.socket.getsockname()[1]
            self.setup_environ()

        def process_request(self, request: Any, client_address: Any) -> None:
            if self.free.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Any, client_address: Any) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                self.free.release()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that are slow or gone."""

    server: WSGIServer = Server((host, port), Handler)
    server.set_app(app)
    return server
