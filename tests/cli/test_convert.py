from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import run
from tests.traces.scenario import ANSWER, ANTHROPIC, CHAT, EVENTS
from tests.traces.test_formats import REFERENCE

if TYPE_CHECKING:
    from tests.cli.support import Folder

HISTORIES = [CHAT, EVENTS, ANTHROPIC]


@pytest.fixture
def traced(folder: Folder) -> Folder:
    folder.reference = folder.write("films.json", orjson.dumps(REFERENCE))
    folder.lines(*({"payload": {"log": history}, "meta": {"q": "q1"}} for history in HISTORIES))
    return folder


SELECTED = ("--select", "payload.log")


@pytest.mark.parametrize("question", [(), ("--question-id", "meta.q")])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_traces_are_evaluated(traced: Folder, question: tuple[str, ...], jobs: str) -> None:
    options = ["--format", "auto", *SELECTED, *question, "-o", traced.file("results.jsonl"), "--jobs", jobs]
    gate = ["--gate", "steps_score >= 1"]
    assert run("evaluate", traced.reference, traced.file("responses.jsonl"), *options, *gate) == 0
    results = traced.read("results.jsonl")
    assert [result["metadata"]["trace_format"] for result in results] == ["openai", "langchain", "anthropic"]


def test_converted_traces_are_responses(traced: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    log = traced.lines(CHAT, CHAT[:2], {"x": 1}, name="log.jsonl")
    assert run("convert", log, "--reference", traced.reference, "-o", traced.file("converted.jsonl")) == 3
    out, err = capfd.readouterr()
    assert not out
    assert "not_a_trace: no known format; it has the keys 'x'" in err
    assert "1 trace: no result" in err
    whole, cut = traced.read("converted.jsonl")
    assert (whole["question_id"], whole["actual_answer"]) == ("q1", ANSWER)
    assert cut["trace_problems"] == ["sparql_query call_1: no result", "retrieval_search call_2: no result"]
    assert run("evaluate", traced.reference, traced.file("converted.jsonl")) == 0
