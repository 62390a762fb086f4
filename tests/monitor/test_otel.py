"""Results and aggregates sent by OpenTelemetry's SDK to a collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, OtelSink, UsageError, evaluate_stream
from tests.cli.support import REFERENCE, Folder, failed, response, run
from tests.monitor.hooks import Post, hook
from tests.monitor.test_otlp import NAME, SPAN, TRACE, VALUE, attributes_of
from tests.support.deadlines import WAIT_SECONDS

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


def logs(posts: list[Post]) -> list[Any]:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    exports = [ExportLogsServiceRequest.FromString(each.body) for each in posts if each.path == "/v1/logs"]
    return [record for each in exports for record in each.resource_logs[0].scope_logs[0].log_records]


def gauges(posts: list[Post]) -> dict[tuple[str, ...], float]:
    """The last value of each gauge, by name and the values of its attributes."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    last = [post.body for post in posts if post.path == "/v1/metrics"][-1]
    return {
        (metric.name, *map(str, attributes_of(point).values())): point.as_double or point.as_int
        for metric in ExportMetricsServiceRequest.FromString(last)
        .resource_metrics[0]
        .scope_metrics[0]
        .metrics
        for point in metric.gauge.data_points
    }


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Post]]:
    """What a collector gets."""
    for name in ("CLOSING_SECONDS", "READ_SECONDS"):
        monkeypatch.setattr(f"graphrag_eval_async.monitor.otel.{name}", WAIT_SECONDS)
    with hook(200) as (host, posts):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{host}")
        yield posts


async def test_scores_arrive_with_their_spans(posts: list[Post]) -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    async with OtelSink(stream, aggregates=True) as results:
        assert len([result async for result in results]) == 4
    scores = [record for record in logs(posts) if attributes_of(record)[NAME] == "steps_score"]
    assert [attributes_of(record).get(VALUE) for record in scores] == [1.0, 0.0, 1.0, None]
    assert attributes_of(scores[3])["error.type"] == "response_error"
    assert {record.event_name for record in scores} == {"gen_ai.evaluation.result"}
    assert [record.trace_id.hex() for record in scores] == [TRACE, "", "", ""]
    assert scores[0].span_id.hex() == SPAN
    found = gauges(posts)
    assert found["graphrag_eval.mean", "steps_score"] == pytest.approx(2 / 3)
    assert found["graphrag_eval.results", "success"] == 3
    assert found["graphrag_eval.error_rate",] == 0.5 / 3  # Of q3, one of two.
    assert found["graphrag_eval.mean", "colours", "steps_score"] == 0.5


def test_the_command_sends_what_it_is_asked_for(folder: Folder, posts: list[Post]) -> None:
    files = [folder.reference, folder.lines(*RESPONSES), "-o", folder.file("out.jsonl")]
    assert run("evaluate", *files, "--otel", "--otel-metric", "steps_score") == 0
    assert {post.path for post in posts} == {"/v1/logs"}
    assert sorted(attributes_of(record).get(VALUE, -1) for record in logs(posts)) == [-1, 0, 1, 1]
    posts.clear()
    assert run("evaluate", *files, "--otlp-metrics") == 0
    assert {post.path for post in posts} == {"/v1/metrics"}
    assert gauges(posts)["graphrag_eval.results", "success"] == 3


@pytest.mark.parametrize("name", ["OTEL_SDK_DISABLED=true", "OTEL_LOGS_EXPORTER=none"])
async def test_the_environment_can_turn_it_off(
    name: str, posts: list[Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*name.split("="))
    async with OtelSink(evaluate_stream(REFERENCE, RESPONSES)) as results:
        assert len([result async for result in results]) == 4
    assert not posts


async def test_what_is_not_supported_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    async with evaluate_stream(REFERENCE, RESPONSES) as stream:
        with pytest.raises(UsageError, match="OTLP_PROTOCOL=grpc: only http/protobuf is supported"):
            OtelSink(stream)


async def test_a_collector_that_is_not_there_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    stream = evaluate_stream(REFERENCE, RESPONSES[:3])
    with pytest.warns(GraphragEvalWarning, match="3 of 3 evaluation records were not delivered"):
        async with OtelSink(stream, metrics=["steps_score"]) as results:
            assert len([result async for result in results]) == 3
