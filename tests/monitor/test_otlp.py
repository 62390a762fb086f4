"""Results as evaluation events in a file of OTLP."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import run_evaluation
from graphrag_eval_async.monitor.otlp import CAPTURE, MAX_EXPLANATION, OtlpFile
from tests.cli.support import failed, response, run
from tests.monitor import hostile

if TYPE_CHECKING:
    from tests.cli.support import Folder

pytest.importorskip("opentelemetry.proto")

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAME, VALUE, LABEL, EXPLANATION = (
    f"gen_ai.evaluation.{key}" for key in ("name", "score.value", "score.label", "explanation")
)
ANSWERS = {"answer_recall", "answer_precision", "answer_f1"}

RESULT = {
    "template_id": "t",
    "question_id": "q",
    "sample": 2,
    "status": "success",
    "response_id": "r1",
    "reference_steps": [],
    "actual_answer": "a",
    "actual_steps": [{"name": "retrieval", "retrieval_answer_recall": 0.5}],
    "steps_score": 0.5,
    "failure": "missed_retrieval",
    "answer_relevance_error": "timeout: no reply",
    "answer_recall": 1.0,
    "answer_precision": 0.0,
    "answer_f1": 0.0,
    "answer_correctness_reason": "x" * 5000,
    "elapsed_sec": 1.5,
    "metadata": {"trace_id": TRACE, "span_id": SPAN},
}


def parsed(line: bytes) -> Any:
    """The records of a line, by the protobuf messages: their ids are in base64, those of OTLP hexadecimal."""
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    message = json.loads(line)
    for record in message["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
        for key in {"traceId", "spanId"} & {*record}:
            record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
    return Parse(json.dumps(message), ExportLogsServiceRequest()).resource_logs[0].scope_logs[0].log_records


def attributes_of(record: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def written(path: Path, *results: dict[str, Any], metrics: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The attributes of the records of results."""
    file = OtlpFile(path, metrics)
    for result in results:
        file.add(result)
    file.close()
    return [attributes_of(each) for line in path.read_bytes().splitlines() for each in parsed(line)]


def test_no_records_of_scores_that_nobody_asked_for(tmp_path: Path) -> None:
    """An error response could lack any judged score: it has records of those that other results had."""
    error: dict[str, Any] = {"template_id": "t", "question_id": "q", "status": "error", "error": "E"}
    error |= {"reference_answer": "A", "reference_steps": [[]], "response_id": "error"}
    judged = {"template_id": "t", "question_id": "q", "answer_relevance": 0.5}
    unjudged = judged | {"answer_relevance": None, "answer_eval_error": "x: y"}
    found: list[set[str]] = [set()]
    for record in written(tmp_path / "file", error, judged, error, unjudged, error):
        if record.get("gen_ai.response.id") == "error":
            found[-1].add(record[NAME])
        elif found[-1]:
            found.append(set())
    assert found == [
        {"steps_score"},
        {"steps_score", "answer_relevance"},
        {"steps_score", "answer_relevance", *ANSWERS},
    ]


def test_each_score_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    found = {each[NAME]: each for each in written(tmp_path / "file", RESULT)}
    assert {*found} == {"steps_score", *ANSWERS, "answer_relevance", "retrieval_answer_recall"}
    assert found["steps_score"] == {
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
    assert [found[name][LABEL] for name in ("answer_recall", "answer_precision")] == ["pass", "fail"]
    assert found["answer_f1"][EXPLANATION] == "x" * MAX_EXPLANATION
    assert found["answer_relevance"]["error.type"] == "timeout"
    assert VALUE not in found["answer_relevance"]


def test_what_judges_said_and_other_metrics_are_exported_on_request_only(tmp_path: Path) -> None:
    found = written(tmp_path / "file", RESULT, {**RESULT, "pending": ["answer_f1"]})
    assert [each[EXPLANATION] for each in found if EXPLANATION in each] == ["missed_retrieval"]
    [one] = written(tmp_path / "one", RESULT, metrics=("answer_f1",))
    assert one[NAME] == "answer_f1"


async def test_any_text_can_be_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    results = await run_evaluation(hostile.reference(), hostile.responses(), missing="skip")
    found = written(tmp_path / "file", *(result | {"template_id": "\ud800"} for result in results))
    assert len(found) >= len(results)


def test_runs_append_to_a_file(folder: Folder) -> None:
    path, out = folder.file("evaluations.jsonl"), folder.file("out.jsonl")
    arguments = [folder.reference, "-o", out, "--otlp-json", path, "--otel-metric", "steps_score"]
    assert run("evaluate", *arguments, folder.lines(response("q1"), response("q2", False))) == 0
    assert run("evaluate", *arguments, folder.lines(failed("q3"))) == 0
    lines = map(parsed, Path(path).read_bytes().splitlines(keepends=True))
    assert [attributes_of(record).get(VALUE) for [record] in lines] == [1.0, 0.0, None]
