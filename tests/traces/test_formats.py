from __future__ import annotations

import copy
import json
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    TraceError,
    evaluate_stream,
    run_evaluation_sync,
    traces,
)
from graphrag_eval_async.traces import TraceFormat, response_from_trace, responses_from_otlp
from graphrag_eval_async.traces.format import FORMATS, detect, read_trace
from tests.support.json_values import JSON, replaced
from tests.traces.scenario import (
    ANSWER,
    ANTHROPIC,
    CHAT,
    EVENTS,
    FORMS,
    HISTORIES,
    ITEMS,
    PROBLEM,
    QUESTION,
    REFERENCE,
    RESULTS,
    STEPS,
    WITHOUT_QUESTION,
)

READERS: dict[str, Any] = {
    name: getattr(traces, f"response_from_{name.replace('-', '_')}")
    for name in ("openai", "langchain", "anthropic", "pydantic-ai")
}
each_history = pytest.mark.parametrize(
    ("name", "form", "history"),
    [pytest.param(name, form, history, id=f"{name} {form}") for name, form, history in HISTORIES],
)


@each_history
def test_the_scenario(name: str, form: str, history: Any) -> None:
    before = copy.deepcopy(history)
    for read, given_ in [
        (READERS[name], history),
        (response_from_trace, history),
        (response_from_trace, orjson.dumps(history)),
    ]:
        response = read(given_, question_id="q1", failed=[PROBLEM])
        assert history == before
        steps = response["actual_steps"]
        for step in steps:  # Values that are not text are written as JSON.
            if step["status"] == "success":
                step["output"] = json.dumps(json.loads(step["output"]), separators=(",", ":"))
        assert steps == STEPS
        assert response["actual_answer"] == ANSWER
        assert response["trace_format"] == name
        assert response["question_id"] == "q1"
        assert "trace_problems" not in response
        assert response.get("total_tokens") in (None, 47)
    line: Any = history
    format_: Any = name
    if form in WITHOUT_QUESTION:
        line = {"payload": history, "meta": {"question.id": "q1"}}
        format_ = TraceFormat(name=name, select="payload", question_id="meta.question.id")
    [result] = run_evaluation_sync(REFERENCE, [line], format=format_)
    assert (result["steps_score"], result["question_id"]) == (1, "q1")


@settings(max_examples=150)
@given(st.data())
def test_a_history_in_two_halves_is_the_same(data: st.DataObject) -> None:
    name, _, history = data.draw(
        st.sampled_from([each for each in HISTORIES if isinstance(each[2], list)])
    )
    cut = data.draw(st.integers(1, len(history) - 1))
    given_ = data.draw(st.sampled_from(["messages", "input", "request"]))
    made = data.draw(st.sampled_from(["output", "response", "generated_items", "choices"]))
    halves = {given_: history[:cut], made: history[cut:]}
    if data.draw(st.booleans()):  # What came back repeats what was asked for.
        halves[made] = history
    expected = read_trace(history, name, question_id="q1")
    assert read_trace(halves, "auto", question_id="q1") == expected | {
        "trace_format": detect(history)
    }


COMPLETION = {"object": "chat.completion", "choices": [{"message": CHAT[-1]}]}
MADE = {"object": "response", "output": ITEMS[1:]}


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param({"messages": CHAT[:-1], "response": COMPLETION}, id="chat"),
        pytest.param(
            {"messages": CHAT[:-1], "response": json.dumps(COMPLETION)}, id="chat as text"
        ),
        pytest.param(
            {"messages": ANTHROPIC[:-1], "output": {"content": [{"type": "text", "text": ANSWER}]}},
            id="Anthropic",
        ),
        pytest.param({"input": {"content": QUESTION}, "output": json.dumps(MADE)}, id="JSON text"),
        pytest.param({"input": QUESTION, "output": ITEMS[1:]}, id="items"),
        pytest.param(
            {"request": {"input": QUESTION, "model": "m"}, "response": MADE},
            id="request and response",
        ),
        pytest.param({"input": FORMS["state"], "output": FORMS["state"]}, id="state"),
    ],
)
def test_requests_and_responses_that_are_logged_as_pairs(pair: dict[str, Any]) -> None:
    [result] = run_evaluation_sync(REFERENCE, [pair | {"question_id": "q1"}], format="auto")
    assert (result["steps_score"], result["actual_answer"]) == (1, ANSWER)


@pytest.mark.parametrize("select", [None, "log.run", "log"])
def test_what_a_line_has_beside_its_trace_is_the_responses_own(select: str | None) -> None:
    own = {
        "question_id": "q1",
        "id": "r1",
        "elapsed_sec": 2.5,
        "model": "m",
        "usage": {"prompt_tokens": 3},
    }
    row: dict[str, Any] = {"messages": CHAT[1:], **own, "status": "ok", "none": None}
    if select is not None:
        row = {"host": "a", "log": {"run": row} if "." in select else row}
    [result] = run_evaluation_sync(
        REFERENCE, [row], format=TraceFormat(name="openai", select=select)
    )
    assert (result["question_id"], result["response_id"], result["elapsed_sec"]) == (
        "q1",
        "r1",
        2.5,
    )
    assert (result["steps_score"], result["input_tokens"]) == (1, 3)
    found = {"trace_format": "openai", "trace_status": "ok", "model": "m", "usage": own["usage"]}
    assert result["metadata"] == (found if select is None else found | {"host": "a"})


def test_pairs_of_texts() -> None:
    pair = {"input": QUESTION, "output": ANSWER}
    expected = {
        "question": QUESTION,
        "actual_answer": ANSWER,
        "actual_steps": [],
        "trace_format": "openai",
    }
    response = response_from_trace(pair)
    [problem] = response.pop("trace_problems")
    assert problem.startswith("no steps, only a question and an answer")
    assert response == expected
    with pytest.raises(TraceError, match="the keys 'type', "):
        response_from_trace({"type": "function", **pair})


@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({"messages": CHAT[:1]}, id="messages"),
        pytest.param({"question": QUESTION}, id="question"),
        pytest.param(None, id="nothing"),
    ],
)
@pytest.mark.parametrize(
    "outputs", [pytest.param(None, id="nothing"), pytest.param({}, id="empty")]
)
def test_failed_runs_without_a_trace_are_errors(inputs: Any, outputs: Any) -> None:
    run = {
        "inputs": inputs,
        "outputs": outputs,
        "error": "TimeoutError()",
        "meta": {"question": "q1"},
    }
    format_ = TraceFormat(
        name="langchain", select="outputs", question_id=None if inputs else "meta.question"
    )
    [result] = run_evaluation_sync(REFERENCE, [run], format=format_)
    assert (result["question_id"], result["status"], result["error"]) == (
        "q1",
        "error",
        "TimeoutError()",
    )


async def test_traces_and_responses_in_one_log() -> None:
    response = {"question_id": "q1", "actual_steps": []}
    unknown = [{"role": "user", "content": "Else?"}]
    lines = [*map(orjson.dumps, (CHAT, response, {"x": 1}, unknown)), b"{"]
    async with evaluate_stream(REFERENCE, lines, format="auto") as stream:
        results = [result["steps_score"] async for result in stream]
    assert results == [1, 0]
    assert stream.rejects.counts == {"not_a_trace": 1, "invalid_json": 1, "missing_question_id": 1}
    assert "it has the keys 'x'" in stream.rejects[0].message
    assert "(--question-id PATH); no question has the text 'Else?'" in stream.rejects[1].message


def parts_of(history: Any) -> list[Any]:
    return (
        history
        if isinstance(history, list)
        else next(v for v in history.values() if isinstance(v, list))
    )


@settings(max_examples=200)
@given(st.data())
def test_what_is_left_of_a_damaged_history_is_kept(data: st.DataObject) -> None:
    """Of parts that are dropped, repeated or reordered, all calls and results are steps or
    problems.
    """
    name, _, whole = data.draw(st.sampled_from(HISTORIES))
    parts = parts_of(whole)
    left = data.draw(st.lists(st.sampled_from(range(len(parts))), max_size=8))
    history = [parts[index] for index in left]
    text = json.dumps(history)
    try:
        response = READERS[name](history, question_id="q1", turn="all")
    except TraceError:  # Of parts that are neither calls nor messages.
        assert not any(f'"{step["id"]}"' in text for step in STEPS)
        return
    kept = json.dumps([response["actual_steps"], response.get("trace_problems", [])])
    for step in STEPS:
        if f'"{step["id"]}"' in text:
            assert step["id"] in kept
    if text.count(PROBLEM) == 1 and response.get("trace_problems") is None:
        assert PROBLEM in kept
    for step in response["actual_steps"]:
        assert step["status"] in {"success", "error"}


@settings(max_examples=300)
@given(st.data())
def test_any_part_may_be_anything(data: st.DataObject) -> None:
    name, _, history = data.draw(st.sampled_from(HISTORIES))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.lists(st.integers(0, 20), max_size=7))
        history = replaced(history, path, data.draw(JSON))
    for reader in {name, data.draw(st.sampled_from(sorted(FORMATS)))}:
        try:
            response = read_trace(history, reader, question_id="q1")
        except TraceError:
            continue
        orjson.dumps(response)
    with suppress(TraceError):
        assert detect(history) in FORMATS


@each_history
def test_a_history_of_another_format_is_no_trace(name: str, form: str, history: Any) -> None:
    for other in {*READERS} - {name}:
        if other == "langchain" and form == "chat":  # LangChain has messages of OpenAI, too.
            assert len(READERS[other](history, question_id="q1")["actual_steps"]) == len(STEPS)
        else:
            with pytest.raises(TraceError, match=name):
                READERS[other](history, question_id="q1")
    history = {"payload": history, "question_id": "q1"}
    wrong = TraceFormat(name="openai" if name != "openai" else "pydantic-ai", select="payload")
    with pytest.raises(TraceError, match=f"its format is {name}"):
        wrong.convert(history)


@pytest.mark.parametrize("name", ["llamaindex", "mcp"])
def test_functions_that_were_removed_say_what_to_use(name: str) -> None:
    for module in ("graphrag_eval_async", "graphrag_eval_async.traces"):
        message = rf"^response_from_{name}\(\) is gone; use response_from_trace"
        with pytest.raises(ImportError, match=message):
            getattr(import_module(module), f"response_from_{name}")


def test_events_of_version_1_are_refused_by_name() -> None:
    events = [event | {"parent_ids": []} for event in EVENTS]
    for history in (
        events,
        [{key: event[key] for key in event if key != "parent_ids"} for event in events],
    ):
        with pytest.raises(TraceError, match=r'version="v1".* use version="v2"'):
            traces.response_from_langchain(history)
    assert len(traces.response_from_langchain([*EVENTS, *EVENTS], turn="all")["actual_steps"]) == 4


def test_names_of_tools_and_a_function_that_tells_failures() -> None:
    response = traces.response_from_openai(
        CHAT,
        question_id="q1",
        step_names={"sparql_query": "query"},
        failed=lambda name, output: name == "query" and output == RESULTS,
    )
    found = {step["name"]: step["status"] for step in response["actual_steps"]}
    assert found == {"query": "error", "retrieval_search": "success"}


VERDICTS = [
    json.loads(line) for line in Path(__file__).with_name("verdicts.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: verdict["what"])
def test_what_frameworks_were_seen_to_write_or_was_cut_on_its_way(verdict: dict[str, Any]) -> None:
    name, history, options = verdict["format"], verdict["history"], verdict["options"]
    if name == "otlp":
        found: Any = list(responses_from_otlp(history, **options))
    else:
        found = read_trace(history, name, **options)
    for response in found if name == "otlp" else [found]:
        response.get("trace_problems", []).sort()
    assert found == verdict["response"]
