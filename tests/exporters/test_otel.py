"""Results as evaluation events, sent by OpenTelemetry's SDK."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from graphrag_eval_async import (
    GraphragEvalWarning,
    OtelSink,
    UsageError,
    evaluate_stream,
    run_evaluation,
)
from graphrag_eval_async.exporters.otel import OtelExport
from graphrag_eval_async.exporters.otel_records import CAPTURE_VARIABLE, MAX_EXPLANATION
from tests.cli.support import REFERENCE, Folder, failed, response, run
from tests.support import hostile
from tests.support.summaries import result

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAME, VALUE, LABEL, EXPLANATION = (
    f"gen_ai.evaluation.{key}" for key in ("name", "score.value", "score.label", "explanation")
)
ANSWERS = {"answer_recall": 1.0, "answer_precision": 0.0, "answer_f1": 0.0}
RESULT = result(
    "q", 0.5, sample=2, response_id="r1", failure="missed_retrieval", elapsed_sec=1.5
) | {
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
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes
    }


class Post(NamedTuple):
    path: str
    body: bytes


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Post]]:
    """What a collector gets."""
    received: list[Post] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(Post(self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


def logs(posts: list[Post]) -> list[Any]:
    exports = [
        ExportLogsServiceRequest.FromString(each.body) for each in posts if each.path == "/v1/logs"
    ]
    return [
        record for each in exports for record in each.resource_logs[0].scope_logs[0].log_records
    ]


def sent(posts: list[Post], *results: dict[str, Any]) -> list[dict[str, Any]]:
    """The attributes of the records of results."""
    posts.clear()
    export = OtelExport()
    for each in results:
        export.add(each)
    export.close()
    return [*map(attributes_of, logs(posts))]


def test_each_score_is_a_record(posts: list[Post], monkeypatch: pytest.MonkeyPatch) -> None:
    """What judges said is in it on request only."""
    found = sent(posts, RESULT, {**RESULT, "pending": ["answer_f1"]})
    assert [each[EXPLANATION] for each in found if EXPLANATION in each] == ["missed_retrieval"]
    monkeypatch.setenv(CAPTURE_VARIABLE, "true")
    named = {each[NAME]: each for each in sent(posts, RESULT)}
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
    assert [named[name][LABEL] for name in ("answer_recall", "answer_precision")] == [
        "pass",
        "fail",
    ]
    assert named["answer_f1"][EXPLANATION] == "x" * MAX_EXPLANATION
    assert named["answer_relevance"]["error.type"] == "timeout"
    assert VALUE not in named["answer_relevance"]
    # Nobody may have asked for the judged scores of a response without an answer.
    error = result("e", None, status="error", error="E", reference_answer="A", reference_steps=[[]])
    [failure] = sent(posts, error)
    assert (failure[NAME], failure["error.type"]) == ("steps_score", "response_error")


async def test_any_text_can_be_encoded(posts: list[Post], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, "true")
    results = await run_evaluation(hostile.reference(), hostile.responses(), missing="skip")
    found = sent(posts, *(each | {"template_id": "\ud800"} for each in results))
    assert len(found) >= len(results)


async def test_scores_arrive_with_their_spans(posts: list[Post]) -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    async with OtelSink(stream) as results:
        assert len([each async for each in results]) == 4
    scores = [record for record in logs(posts) if attributes_of(record)[NAME] == "steps_score"]
    assert [attributes_of(record).get(VALUE) for record in scores] == [1.0, 0.0, 1.0, None]
    assert attributes_of(scores[3])["error.type"] == "response_error"
    assert {record.event_name for record in scores} == {"gen_ai.evaluation.result"}
    assert [record.trace_id.hex() for record in scores] == [TRACE, "", "", ""]
    assert scores[0].span_id.hex() == SPAN


def test_the_command_sends_what_it_is_asked_for(
    folder: Folder, posts: list[Post], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the environment turns it off, or asks for what is not supported."""
    files = [folder.reference, folder.lines(*RESPONSES), "-o", folder.file("out.jsonl")]
    logging = ["evaluate", *files, "--otel"]
    assert run(*logging) == 0
    assert {post.path for post in posts} == {"/v1/logs"}
    scores = [
        attributes
        for attributes in map(attributes_of, logs(posts))
        if attributes[NAME] == "steps_score"
    ]
    assert sorted(score.get(VALUE, -1) for score in scores) == [-1, 0, 1, 1]
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
        async with OtelSink(stream) as results:
            assert len([each async for each in results]) == 3


@pytest.mark.parametrize("arguments", [{"metrics": ["steps_score"]}, {"aggregates": True}])
def test_removed_arguments_name_what_to_use(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"= is gone; OtelSink sends"):
        OtelSink(evaluate_stream(REFERENCE, RESPONSES), **arguments)
