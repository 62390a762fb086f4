"""Serves metrics over HTTP by the server of `prometheus_client`, in threads of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.monitor.hosts import REFUSAL, HostCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from graphrag_eval_async.monitor.prometheus import PrometheusCollector

TEXT = ("Content-Type", "text/plain; charset=utf-8")


class MetricsServer:
    """Serves the metrics of a collector; a context manager, which closes it."""

    def __init__(self, host: str, port: int) -> None:
        """Listen; until `run`, the page is empty."""
        check_extra("a page of metrics", "prometheus", "prometheus_client")
        from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server

        check, self._registry = HostCheck(host), CollectorRegistry()
        try:
            self._server, self._thread = start_http_server(port, host, self._registry)
        except OSError as error:
            problem = error.strerror or error
            raise UsageError(
                f"cannot serve metrics on {check.name}:{port}: {problem}; choose another"
            ) from None
        self._server.set_app(_answering(make_wsgi_app(self._registry), check))
        self.address = f"http://{check.name}:{self._server.server_port}/metrics"

    async def run(
        self, work: Coroutine[Any, Any, None], collector: Callable[[], PrometheusCollector]
    ) -> None:
        """Await `work` while the metrics of `collector()` are served."""
        task = asyncio.ensure_future(work)
        try:
            self._registry.register(collector())
            await task
        finally:
            task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _answering(app: Callable[..., Any], check: HostCheck) -> Callable[..., Any]:
    """Return an application that answers 403 to what `check` refuses, 503 if metrics cannot be read."""

    def answer(environ: Any, start_response: Callable[..., Any]) -> Any:
        if check.refuses(environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")):
            start_response("403 Forbidden", [TEXT])
            return [REFUSAL.encode()]
        try:
            return app(environ, start_response)
        except Exception as error:  # noqa: BLE001  (Would be a traceback on stderr, amid the view.)
            start_response("503 Service Unavailable", [TEXT])
            return [f"metrics cannot be read: {type(error).__name__}\n".encode()]

    return answer
