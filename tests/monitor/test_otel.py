"""Results as evaluation events: in a file of OTLP, and sent with aggregates by OpenTelemetry's SDK."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, OtelSink, UsageError, evaluate_stream, run_evaluation
from graphrag_eval_async.monitor.otlp import CAPTURE, MAX_EXPLANATION, OtlpFile
from tests.cli.support import REFERENCE, Folder, failed, response, run
from tests.monitor import hostile
from tests.monitor.hooks import Post, hook
from tests.monitor.summaries import result

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAME, VALUE, LABEL, EXPLANATION = (
    f"gen_ai.evaluation.{key}" for key in ("name", "score.value", "score.label", "explanation")
)
ANSWERS = {"answer_recall": 1.0, "answer_precision": 0.0, "answer_f1": 0.0}
RESULT = result("q", 0.5, sample=2, response_id="r1", failure="missed_retrieval", elapsed_sec=1.5) | {
    "actual_answer": "a",
    "actual_steps": [{"name": "retrieval", "retrieval_answer_recall": 0.5}],
    "reference_steps": [],
    "answer_relevance_error": "timeout: no reply",
    **ANSWERS,
    "answer_correctness_reason": "x" * 5000,
}
TRACED = response("q1", trace_id=TRACE, span_id=SPAN)
RESPONSES = [TRACED, response("q2", False), response("q3"), failed("q3")]


def attributes_of(record: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def in_file(path: Path) -> list[Any]:
    """The records of a file, by the protobuf messages: their ids are in base64, those of OTLP hexadecimal."""
    found: list[Any] = []
    for message in map(json.loads, path.read_bytes().splitlines()):
        for record in message["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            for key in {"traceId", "spanId"} & {*record}:
                record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
        parsed = Parse(json.dumps(message), ExportLogsServiceRequest())
        found += parsed.resource_logs[0].scope_logs[0].log_records
    return found


def written(path: Path, *results: dict[str, Any], metrics: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The attributes of the records of results."""
    file = OtlpFile(path, metrics)
    for each in results:
        file.add(each)
    file.close()
    return [*map(attributes_of, in_file(path))]


def test_each_score_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What judges said is in it on request only, as are other metrics."""
    found = written(tmp_path / "plain", RESULT, {**RESULT, "pending": ["answer_f1"]})
    assert [each[EXPLANATION] for each in found if EXPLANATION in each] == ["missed_retrieval"]
    monkeypatch.setenv(CAPTURE, "true")
    named = {each[NAME]: each for each in written(tmp_path / "captured", RESULT)}
    assert {*named} == {*ANSWERS, "steps_score", "answer_relevance", "retrieval_answer_recall"}
    assert named["steps_score"] == {
        NAME: "steps_score",
        VALUE: 0.5,
        LABEL: "partial",
        EXPLANATION: "missed_retrieval",
        "graphrag_eval.template_id": "t",
        "graphrag_eval.question_id": "q",
        "graphrag_eval.status": "success",
        "graphrag_eval.sample": 2,
        "gen_ai.response.id": "r1",
    }
    assert [named[name][LABEL] for name in ("answer_recall", "answer_precision")] == ["pass", "fail"]
    assert named["answer_f1"][EXPLANATION] == "x" * MAX_EXPLANATION
    assert named["answer_relevance"]["error.type"] == "timeout"
    assert VALUE not in named["answer_relevance"]
    [one] = written(tmp_path / "one", RESULT, metrics=("answer_f1",))
    assert one[NAME] == "answer_f1"
    # Nobody may have asked for the judged scores of a response without an answer.
    error = result("e", None, status="error", error="E", reference_answer="A", reference_steps=[[]])
    [failure] = written(tmp_path / "error", error)
    assert (failure[NAME], failure["error.type"]) == ("steps_score", "response_error")


async def test_any_text_can_be_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    results = await run_evaluation(hostile.reference(), hostile.responses(), missing="skip")
    found = written(tmp_path / "file", *(each | {"template_id": "\ud800"} for each in results))
    assert len(found) >= len(results)


def test_runs_append_to_a_file(folder: Folder) -> None:
    path, out = folder.file("evaluations.jsonl"), folder.file("out.jsonl")
    arguments = [folder.reference, "-o", out, "--otlp-json", path, "--otel-metric", "steps_score"]
    assert run("evaluate", *arguments, folder.lines(*RESPONSES[:2])) == 0
    assert run("evaluate", *arguments, folder.lines(failed("q3"))) == 0
    records = in_file(Path(path))
    assert [attributes_of(record).get(VALUE) for record in records] == [1.0, 0.0, None]
    assert [record.trace_id.hex() for record in records] == [TRACE, "", ""]


def logs(posts: list[Post]) -> list[Any]:
    exports = [ExportLogsServiceRequest.FromString(each.body) for each in posts if each.path == "/v1/logs"]
    return [record for each in exports for record in each.resource_logs[0].scope_logs[0].log_records]


def gauges(posts: list[Post]) -> dict[tuple[str, ...], float]:
    """The last value of each gauge, by name and the values of its attributes."""
    last = [post.body for post in posts if post.path == "/v1/metrics"][-1]
    [exported] = ExportMetricsServiceRequest.FromString(last).resource_metrics
    return {
        (metric.name, *map(str, attributes_of(point).values())): point.as_double or point.as_int
        for metric in exported.scope_metrics[0].metrics
        for point in metric.gauge.data_points
    }


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Post]]:
    """What a collector gets."""
    with hook(200) as (host, posts):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{host}")
        yield posts


async def test_scores_arrive_with_their_spans(posts: list[Post]) -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    async with OtelSink(stream, aggregates=True) as results:
        assert len([each async for each in results]) == 4
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


def test_the_command_sends_what_it_is_asked_for(
    folder: Folder, posts: list[Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the environment turns it off, or asks for what is not supported."""
    files = [folder.reference, folder.lines(*RESPONSES), "-o", folder.file("out.jsonl")]
    logging = ["evaluate", *files, "--otel", "--otel-metric", "steps_score"]
    assert run(*logging) == 0
    assert {post.path for post in posts} == {"/v1/logs"}
    assert sorted(attributes_of(record).get(VALUE, -1) for record in logs(posts)) == [-1, 0, 1, 1]
    posts.clear()
    assert run("evaluate", *files, "--otlp-metrics") == 0
    assert {post.path for post in posts} == {"/v1/metrics"}
    assert gauges(posts)["graphrag_eval.results", "success"] == 3
    posts.clear()
    for name, value in (("OTEL_SDK_DISABLED", "true"), ("OTEL_LOGS_EXPORTER", "none")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert run(*logging) == 0
    assert not posts
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(UsageError, match="OTLP_PROTOCOL=grpc: only http/protobuf is supported"):
        OtelSink(evaluate_stream(REFERENCE, RESPONSES))


async def test_a_collector_that_is_not_there_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    stream = evaluate_stream(REFERENCE, RESPONSES[:3])
    with pytest.warns(GraphragEvalWarning, match="3 of 3 evaluation records were not delivered"):
        async with OtelSink(stream, metrics=["steps_score"]) as results:
            assert len([each async for each in results]) == 3
