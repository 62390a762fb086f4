from __future__ import annotations

import asyncio
import copy
import gzip
import hashlib
import io
import json
import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pytest

from graphrag_eval_async import (
    GraphragEvalWarning,
    Reject,
    UsageError,
    evaluate_stream,
    follow_jsonl,
    load_reference,
    read_jsonl,
    run_evaluation,
)
from graphrag_eval_async.records.line import MAX_LINE_BYTES
from tests.support.data import REFERENCE, answer, heavy, templates
from tests.support.deadlines import until, wait
from tests.support.loop import settle
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable
    from pathlib import Path


def jsonl(responses: Iterable[Any]) -> bytes:
    return b"".join(orjson.dumps(response) + b"\n" for response in responses)


# Results


async def test_a_result() -> None:
    forged = {
        "model": "m",
        "steps_score": 0.1,
        "answer_recall": 1.0,
        "metadata": {"a": 1},
        "sample": 9,
    }
    response = answer(1, id="r7", actual_answer="42", elapsed_sec=1.5, **forged)
    stream = evaluate_stream(REFERENCE, [response, {"question_id": "q2", "input_tokens": -1}])
    assert (stream.missing, len(stream.rejects)) == (["q0", "q1", "q2"], 0)
    (result,) = await collect(stream)
    assert stream.missing == ["q0", "q2"]
    reference_step = {"name": "calculator", "output": "42", "matches": "call_1"}
    assert list(result.items()) == [
        ("template_id", "sums"),
        ("question_id", "q1"),
        ("question_text", "Sum 1?"),
        ("reference_steps", [[reference_step]]),
        ("status", "success"),
        ("actual_answer", "42"),
        ("actual_steps", response["actual_steps"]),
        ("steps_score", 1.0),
        ("failure", "none"),
        ("input_tokens", 1),
        ("elapsed_sec", 1.5),
        ("sample", 1),
        ("response_id", "r7"),
        ("metadata", forged),
    ]
    assert list(stream.aggregates.snapshot()["macro"]) == [
        "steps_score",
        "input_tokens",
        "elapsed_sec",
    ]


# Order


@pytest.mark.parametrize("ordered", [False, True])
async def test_results_come_as_they_are_complete_or_in_the_order_of_the_input(
    ordered: bool,
) -> None:
    gate = threading.Event()

    def compare(_reference: dict[str, Any], _actual: dict[str, Any]) -> float:
        if threading.current_thread() is not threading.main_thread():
            wait(gate)  # Only that of the heavy response, which is compared in a thread.
        return 1.0

    responses = [heavy(0), {}, answer(1), answer(2)]
    comparators = {"calculator": compare}
    stream = evaluate_stream(REFERENCE, responses, comparators=comparators, ordered=ordered)
    waiting = asyncio.ensure_future(anext(stream))
    await until(lambda: len(stream.rejects) == 1)
    await settle()
    assert waiting.done() != ordered
    gate.set()
    results = [await waiting, *await collect(stream)]
    expected = ["q0", "q1", "q2"] if ordered else ["q1", "q2", "q0"]
    assert [result["question_id"] for result in results] == expected


# Aggregates, rejects, missing


BAD: list[tuple[bytes, str]] = [
    (b'{"question_id": "q0", "x": "\xff"}', "invalid_utf8"),
    (b'{"question_id": "q0"', "invalid_json"),
    (b'["q0"]', "not_an_object"),
    (b'{"question_id": "q9"}', "unknown_question_id"),
    (b'{"question_id": "q0", "input_tokens": ' + b"9" * 25 + b"}", "invalid_field"),
    (b'{"question_id": "q0", "x": "' + b"x" * MAX_LINE_BYTES + b'"}', "too_long"),
    (b'{"question_id": "q0", "x": ' + b"[" * 200 + b"]" * 200 + b"}", "too_deep"),
]
GOOD = [
    b'{"question_id": "q0", "x": "\xe2\x80\xa8\xc2\x85"}',
    b'{"question_id": "q0", "x": ' + b"[" * 199 + b"]" * 199 + b"}\r",
    b'\t{"question_id": "q0"}  ',
]


def mixed_lines() -> tuple[bytes, list[tuple[int, int, bytes, str]]]:
    """A file in which good lines, bad lines and blank ones alternate, and where the bad ones
    are.
    """
    lines: list[bytes] = []
    bad = []
    for i, (line, reason) in enumerate(BAD):
        lines += [GOOD[i % len(GOOD)], b" \r" if i % 2 else b""]
        offset = sum(len(before) + 1 for before in lines)
        bad.append((len(lines) + 1, offset, line, reason))
        lines.append(line)
    return b"\n".join([*lines, GOOD[0]]), bad


@pytest.mark.parametrize(("ordered", "max_in_flight"), [(False, 1), (True, 3), (False, 256)])
async def test_bad_lines_are_rejected_and_the_others_evaluated(
    tmp_path: Path, ordered: bool, max_in_flight: int
) -> None:
    text, bad = mixed_lines()
    path = tmp_path / "responses.jsonl"
    path.write_bytes(text)
    options: dict[str, Any] = {"max_in_flight": max_in_flight, "ordered": ordered}
    stream = evaluate_stream(REFERENCE, path, **options)
    results = await collect(stream)
    assert sorted(result["sample"] for result in results) == list(range(1, len(BAD) + 2))
    assert all(orjson.dumps(result) for result in results)
    assert [(r.line, r.offset, r.reason) for r in stream.rejects] == [
        (n, o, why) for n, o, _, why in bad
    ]
    for reject, (_, _, line, _) in zip(stream.rejects, bad, strict=True):
        assert (reject.head, reject.length, reject.content) == (line[:4096], len(line), None)
        assert reject.sha256 == hashlib.sha256(line).hexdigest()
    assert stream.rejects.total == len(BAD)
    assert stream.rejects.counts == Counter(reason for _, reason in BAD)
    seen: list[Reject] = []
    stream = evaluate_stream(REFERENCE, path, on_reject=seen.append, **options)
    await collect(stream)
    assert [(r.line, r.offset, r.content, r.reason) for r in seen] == [
        (number, offset, None if why == "too_long" else line, why)
        for number, offset, line, why in bad
    ]
    assert len(stream.rejects) == 0
    assert stream.rejects.counts == Counter(reason for _, reason in BAD)


# Who does not ask for rejects is told of them


RESPONSES: list[Any] = [{"question_id": "x"}, answer(), {"question_id": "y\x1b[2J"}, b"{"]


async def test_one_warning_at_the_end_and_a_line_in_the_log_for_each_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text('{"question_id": "\\u001b[2J"}\n{"question_id": "y"}\n{')
    stream = evaluate_stream(templates(1), path)
    with pytest.warns(GraphragEvalWarning) as caught:
        assert [result async for result in stream] == []
    await stream.aclose()  # Does not warn again, which would be logged here.
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith(
        f"3 responses were rejected: unknown_question_id 2, invalid_json 1. The first: {path}: "
        "line 1 (byte 0"
    )
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text.split(": ")[3] for text in logged] == ["unknown_question_id", "invalid_json"]
    assert logged[0].startswith(f"rejected: {path}: line 1 (byte 0): ")
    assert all(text.isprintable() for text in logged)


@pytest.mark.parametrize("way", ["ignored", "early", "late", "callable", "finished set"])
async def test_rejects_that_are_looked_at_need_no_warning(
    way: str, recwarn: pytest.WarningsRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be read until the context ends."""
    options: dict[str, Any] = {"on_reject": lambda _: None} if way == "callable" else {}
    if way == "finished set":
        await run_evaluation(templates(1), RESPONSES, on_reject="collect")
    else:
        async with evaluate_stream(templates(1), RESPONSES, **options) as stream:
            assert way != "early" or len(stream.rejects) == 0
            assert len([result async for result in stream]) == 1
            assert way != "late" or len(stream.rejects) == 3
    assert [each.category for each in recwarn] == (
        [GraphragEvalWarning] if way == "ignored" else []
    )
    assert way in {"ignored", "late"} or not caplog.records


# Inputs


async def test_inputs_are_never_changed_and_results_share_nothing() -> None:
    raw, responses = templates(2, args={"a": [1]}), [answer(0, x=[1]), answer(0, x=[1])]
    raw_before, responses_before = copy.deepcopy(raw), copy.deepcopy(responses)
    reference = load_reference(raw)
    first, second = await collect(evaluate_stream(reference, responses))
    pristine = copy.deepcopy(second)
    # What is in it belongs to the reference set.
    first["reference_steps"][0][0]["args"] = "changed"
    first["reference_steps"][0].append("x")
    first["actual_steps"][0]["output"] = "changed"
    first["metadata"]["x"].append(2)
    assert second == pristine
    assert (raw, responses) == (raw_before, responses_before)
    (again,) = await collect(evaluate_stream(reference, [answer(0, x=[1])]))
    assert again == pristine | {"sample": 1}


async def each(items: Iterable[Any]) -> AsyncGenerator[Any]:
    for item in items:
        yield item


async def test_sources_of_every_kind_give_equal_results(tmp_path: Path) -> None:
    responses = [answer(i % 3, id=i, actual_answer="é\n", elapsed_sec=0.5) for i in range(30)]
    lines = jsonl(responses).splitlines()
    expected = await collect(evaluate_stream(REFERENCE, responses, ordered=True))
    text, array = tmp_path / "r.jsonl", tmp_path / "r.json"
    packed = tmp_path / "r.jsonl.gz"
    text.write_bytes(b"\n".join(lines))
    array.write_text(json.dumps(responses, indent=1))
    packed.write_bytes(gzip.compress(jsonl(responses)))
    (tmp_path / "parts").mkdir()
    for part in range(3):
        (tmp_path / "parts" / f"{part}.jsonl").write_bytes(
            jsonl(responses[part * 10 : part * 10 + 10])
        )
    sources: list[Any] = [
        each(responses), lines, each(line.decode() for line in lines), [jsonl(responses)],
        text, array, packed, tmp_path / "parts", str(tmp_path / "parts" / "*.jsonl"),
        read_jsonl(text), follow_jsonl(text, idle_timeout=0.001), io.BytesIO(jsonl(responses)),
    ]  # fmt: skip
    for source in sources:
        assert await collect(evaluate_stream(REFERENCE, source, ordered=True)) == expected, source
    unordered = [read_jsonl(text, shuffle=1)]
    unordered += [read_jsonl(text, shard=(i, 2)) for i in range(2)]
    found = [await collect(evaluate_stream(REFERENCE, source)) for source in unordered]
    for results in (found[0], found[1] + found[2]):
        by_id = sorted(results, key=lambda result: int(result["response_id"]))
        assert [without_sample(result) for result in by_id] == [
            without_sample(each) for each in expected
        ]


def without_sample(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "sample"}


def test_wrong_options() -> None:
    wrong: dict[str, list[Any]] = {
        "max_in_flight": [0, True, None],
        "on_reject": ["ignore", anyio.sleep],
        "steps_groups": ["first"],
        "comparators": [{"calculator": 5}],
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(UsageError, match=name):
                evaluate_stream(REFERENCE, [], **{name: value})
