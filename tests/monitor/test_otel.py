"""Results and aggregates sent by OpenTelemetry's SDK to a collector."""

from __future__ import annotations

import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, OtelSink, evaluate_stream
from tests.cli.support import REFERENCE, Folder, failed, finish, response, start
from tests.deadlines import WAIT_SECONDS
from tests.monitor.test_otlp import NAME, SPAN, TRACE, VALUE, attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

RESPONSES = [
    response("q1", trace_id=TRACE, span_id=SPAN),
    response("q2", False),
    response("q3"),
    failed("q3"),
]


class Collector:
    """A server that takes exports.

    Attributes:
        endpoint: its address.
        exports: the bodies of requests by path.
    """

    def __init__(self) -> None:
        exports = self.exports = defaultdict[str, list[bytes]](list)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                exports[self.path].append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def logs(self) -> list[Any]:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        requests = map(ExportLogsServiceRequest.FromString, self.exports["/v1/logs"])
        return [
            record
            for request in requests
            for logs in request.resource_logs
            for scope in logs.scope_logs
            for record in scope.log_records
        ]

    def gauges(self) -> dict[str, dict[tuple[str, ...], float]]:
        """The last value of each gauge, by name and the values of its attributes."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

        found: dict[str, dict[tuple[str, ...], float]] = {}
        for body in self.exports["/v1/metrics"]:
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in metrics.scope_metrics[0].metrics:
                    for point in metric.gauge.data_points:
                        key = tuple(map(str, attributes_of(point).values()))
                        found.setdefault(metric.name, {})[key] = point.as_double or point.as_int
        return found


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    for name in ("CLOSING_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(f"graphrag_eval_async.monitor.otel.{name}", WAIT_SECONDS)
    yield collector
    collector.close()


async def test_scores_arrive_with_their_spans(collector: Collector) -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    async with OtelSink(stream, aggregates=True) as results:
        assert len([result async for result in results]) == 4
    scores = [record for record in collector.logs() if attributes_of(record)[NAME] == "steps_score"]
    assert [attributes_of(record).get(VALUE) for record in scores] == [1.0, 0.0, 1.0, None]
    assert attributes_of(scores[3])["error.type"] == "response_error"
    assert {record.event_name for record in scores} == {"gen_ai.evaluation.result"}
    assert [record.trace_id.hex() for record in scores] == [TRACE, "", "", ""]
    assert scores[0].span_id.hex() == SPAN
    gauges = collector.gauges()
    assert gauges["graphrag_eval.mean"]["steps_score",] == pytest.approx(2 / 3)
    assert gauges["graphrag_eval.results"]["success",] == 3
    assert gauges["graphrag_eval.error_rate"][()] == 0.5 / 3  # Of q3, one of two.
    assert gauges["graphrag_eval.mean"]["colours", "steps_score"] == 0.5


@pytest.mark.parametrize("name", ["OTEL_SDK_DISABLED=true", "OTEL_LOGS_EXPORTER=none"])
def test_the_environment_can_turn_it_off(name: str, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    key, _, value = name.partition("=")
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv(key, value)
    log = folder.lines(*RESPONSES)
    assert finish(start("evaluate", folder.reference, log, "-o", folder.file("o.jsonl"), "--otel"))[0] == 0
    collector.close()
    assert not collector.exports


async def test_a_collector_that_is_not_there_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphrag_eval_async.monitor.otel.CLOSING_SECONDS", 0.2)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    stream = evaluate_stream(REFERENCE, RESPONSES[:3])
    with pytest.warns(GraphragEvalWarning, match="3 of 3 evaluation records were not delivered"):
        async with OtelSink(stream, metrics=["steps_score"]) as results:
            assert len([result async for result in results]) == 3
