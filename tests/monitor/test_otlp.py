"""Results as evaluation events in OTLP."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import run_evaluation
from graphrag_eval_async.monitor.otlp import (
    CAPTURE,
    MAX_EXPLANATION,
    Recording,
    otlp_line,
)
from tests.cli.support import failed, response, run
from tests.monitor import hostile

if TYPE_CHECKING:
    from tests.cli.support import Folder

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NAME, VALUE, LABEL = (f"gen_ai.evaluation.{key}" for key in ("name", "score.value", "score.label"))
EXPLANATION = "gen_ai.evaluation.explanation"


def parsed(line: bytes) -> Any:
    """A line as the protobuf message of an export: its ids are in base64 where OTLP has hexadecimals."""
    pytest.importorskip("opentelemetry.proto")
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    message = json.loads(line)
    for logs in message["resourceLogs"]:
        for record in logs["scopeLogs"][0]["logRecords"]:
            for key in ("traceId", "spanId"):
                if key in record:
                    record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
    return Parse(json.dumps(message), ExportLogsServiceRequest())


def attributes_of(record: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def records_of(result: dict[str, Any], *metrics: str, content: bool = False) -> list[dict[str, Any]]:
    """Those of a result after one that had all judged scores."""
    recording = Recording(metrics, content=content)
    _ = [*recording(RESULT | {"answer_relevance": 0.5})]
    return [record.attributes for record in recording(result)]


def test_no_records_of_scores_that_nobody_asked_for() -> None:
    """An error response could lack any judged score: it has records of those that other results had."""
    recording = Recording()
    error: dict[str, Any] = {"template_id": "t", "question_id": "q", "status": "error", "error": "E"}
    error |= {"reference_answer": "A", "reference_steps": [[]]}
    judged = {"template_id": "t", "question_id": "q", "status": "success", "answer_relevance": 0.5}
    unjudged = judged | {"answer_relevance": None, "answer_eval_error": "x: y"}
    names = [
        [record.attributes[NAME] for record in recording(result)]
        for result in (error, judged, error, unjudged, error)
    ]
    answers = ["answer_recall", "answer_precision", "answer_f1"]
    assert names[0] == ["steps_score"]
    assert sorted(names[2]) == ["answer_relevance", "steps_score"]
    assert {*answers} <= {*names[3]}
    assert sorted(names[4]) == sorted([*answers, "answer_relevance", "steps_score"])


RESULT = {
    "template_id": "t",
    "question_id": "q",
    "sample": 2,
    "status": "success",
    "response_id": "r1",
    "reference_steps": [],
    "actual_answer": "a",
    "actual_steps": [
        {"name": "retrieval", "retrieval_answer_recall": 0.5, "retrieval_answer_recall_cost": 0.1}
    ],
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


def test_each_score_is_a_record() -> None:
    found = {each[NAME]: each for each in records_of(RESULT, content=True)}
    assert {*found} == {
        *("steps_score", "answer_recall", "answer_precision", "answer_f1", "answer_relevance"),
        "retrieval_answer_recall",
    }
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


def test_what_judges_said_and_other_metrics_are_exported_on_request_only() -> None:
    assert [each[EXPLANATION] for each in records_of(RESULT) if EXPLANATION in each] == ["missed_retrieval"]
    assert [each[NAME] for each in records_of(RESULT, "answer_f1")] == ["answer_f1"]
    assert records_of({**RESULT, "pending": ["answer_f1"]}) == []


async def test_any_text_can_be_encoded() -> None:
    for result in await run_evaluation(hostile.reference(), hostile.responses(), missing="skip"):
        result["template_id"] = "\ud800"
        assert parsed(otlp_line([*Recording(content=True)(result)], {}))


def test_runs_append_to_a_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    path, out = folder.file("evaluations.jsonl"), folder.file("out.jsonl")
    arguments = [folder.reference, "-o", out, "--otlp-json", path]
    assert run("evaluate", *arguments, folder.lines(response("q1"), response("q2", False))) == 0
    assert run("evaluate", *arguments, folder.lines(failed("q3"))) == 0
    lines = Path(path).read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    values = [
        attributes_of(record).get(VALUE)
        for line in lines
        for record in parsed(line).resource_logs[0].scope_logs[0].log_records
        if attributes_of(record)[NAME] == "steps_score"
    ]
    assert values == [1.0, 0.0, None]
