"""Streams that keep a journal: what is in it, and how they resume from it."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    Journal,
    JournalMismatch,
    RejectedResponse,
    UsageError,
    evaluate_stream,
    read_jsonl,
)
from tests.support.deadlines import in_time
from tests.support.journals import (
    CONFIG,
    COST,
    TEMPLATES,
    Gates,
    Judge,
    bits,
    complete,
    lines_of,
    names,
    names_of,
    response,
    responses,
    results_of,
    stream_of,
)
from tests.support.loop import leaving_nothing, settle
from tests.support.streams import collect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

LINES = responses(30)
JUDGED = sum(b"answer-" in line for line in LINES)
RESULTS = sum(b"unknown" not in line for line in LINES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def judged(**more: Any) -> dict[str, Any]:
    return {"config": CONFIG | more, "judge": Judge()}


# What is in it


def test_each_result_and_each_reject_is_a_line(path: Path) -> None:
    results, stream = complete(LINES, path)
    assert results_of(path) == results
    assert names_of(path) == names(LINES)
    numbers = [number for number, line in enumerate(LINES, 1) if b"unknown" not in line]
    assert [result["source"]["line"] for result in results] == numbers
    assert stream.journal is not None
    assert (stream.skipped, stream.journal.restored, stream.journal.rejected) == (0, 0, 0)
    rejected = results_of(f"{path}.rejects")
    for record, reject in zip(rejected, stream.rejects, strict=True):
        assert (record["source"]["line"], record["source"]["offset"]) == (
            reject.line,
            reject.offset,
        )
        assert (record["reason"], record["content"].encode()) == (
            reject.reason,
            LINES[reject.line - 1],
        )


def test_files_beside_the_journal_are_no_responses(path: Path) -> None:
    (path.parent / "log").write_bytes(LINES[0])
    for suffix in (".run", ".rejects", ".damaged", ".replaced", ".late", ".watch"):
        path.with_name(f"results.jsonl{suffix}").write_bytes(b"" if suffix == ".run" else b"{}\n")
    results, stream = complete(read_jsonl(f"{path.parent}/*"), path)
    assert (len(results), stream.rejects.total) == (1, 0)


def test_stages(path: Path) -> None:
    results, stream = complete(LINES, path, stages=True, **judged())
    assert sum("pending" in result for result in results) == JUDGED
    assert len(results) == RESULTS + JUDGED
    assert results_of(path) == [result for result in results if "pending" not in result]
    again, later = complete(LINES, path, stages=True, **judged())
    assert (again, bits(later.aggregates)) == ([], bits(stream.aggregates))


# Resuming


async def items(source: Any) -> AsyncGenerator[Any]:
    for item in source:
        await asyncio.sleep(0)
        yield item


SOURCES: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "text": lambda _: [line.decode() for line in LINES],
    "many lines at once": lambda _: [b"\n".join(LINES)],
    "dicts": lambda _: [orjson.loads(line) for line in LINES],
    "an asynchronous iterable": lambda _: items(LINES),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
async def test_interrupted_and_started_again_with_the_same_source(
    tmp_path: Path, path: Path, make: Callable[[Path], Any]
) -> None:
    source, quiet = tmp_path / "responses.jsonl", tmp_path / "quiet.jsonl"
    source.write_bytes(b"\n".join(LINES))
    async with stream_of(make(source), quiet) as undisturbed:
        await collect(undisturbed)
    there = 0
    async with leaving_nothing():
        for taken in (0, 1, 7, 100, 0):
            async with stream_of(make(source), path, max_in_flight=3) as stream:
                assert stream.journal is None, "nothing is counted yet"
                first = [
                    result
                    for _ in range(taken)
                    if (result := await anext(stream, None)) is not None
                ]
            assert len(first) == min(taken, RESULTS - there)
            if taken:
                assert there + len(first) <= len(lines_of(path)) <= there + len(first) + 3
                assert set(lines_of(path)) <= set(lines_of(quiet))
                there = len(lines_of(path))
        async with stream_of(make(source), path) as stream:
            assert await collect(stream) == []
    assert sorted(lines_of(path)) == sorted(lines_of(quiet))
    assert bits(stream.aggregates) == bits(undisturbed.aggregates)
    assert stream.rejects.counts == undisturbed.rejects.counts
    assert (names_of(path), len(stream.rejects)) == (names_of(quiet), 0)
    assert stream.missing == undisturbed.missing == []
    assert stream.skipped == len(LINES)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_part_of_the_results_was_there(
    tmp_path: Path, path: Path, seed: int, ordered: bool
) -> None:
    """Judged in any order and stopped anywhere, over and over, in the end it is all as of one
    quiet run.
    """
    draw = random.Random(seed)
    quiet = tmp_path / "quiet.jsonl"
    _, undisturbed = complete(LINES, quiet, **judged())

    async def interrupted() -> None:
        gates, taken = Gates(), 0
        async with leaving_nothing():
            options: dict[str, Any] = {"config": CONFIG, "judge": Judge(gates), "ordered": ordered}
            async with stream_of(LINES, path, **options) as stream:
                wanted = draw.randint(1, 8)
                while taken < wanted:
                    waiting = asyncio.ensure_future(anext(stream, None))
                    while not waiting.done():
                        await asyncio.sleep(0)
                        if gates.asked:
                            gates.open(gates.asked.pop(draw.randrange(len(gates.asked))))
                    if await waiting is None:
                        break
                    taken += 1
                task = asyncio.current_task()
                if task is not None and draw.random() < 0.5:
                    task.cancel()
                    await asyncio.sleep(0)

    for _ in range(3):
        with suppress(asyncio.CancelledError):
            asyncio.run(in_time(interrupted)())
        assert set(lines_of(path)) <= set(lines_of(quiet))
    _, stream = complete(LINES, path, **judged(), ordered=ordered)
    assert sorted(lines_of(path)) == sorted(lines_of(quiet))
    assert bits(stream.aggregates) == bits(undisturbed.aggregates)
    assert stream.usage.dollars == pytest.approx(JUDGED * COST)


@pytest.mark.parametrize("turns", [0, 1, 3, 8, None])
async def test_calls_that_are_not_sent_at_a_stop_are_left_to_the_next_run(
    path: Path, turns: int | None
) -> None:
    """Stopped after some turns of the loop, or once as many calls as may be are under way."""
    limited = CONFIG | {"llm": CONFIG["llm"] | {"limits": {"max_concurrency": 3}}}
    gates = Gates()
    judge = Judge(gates)
    async with leaving_nothing(), stream_of(LINES, path, config=limited, judge=judge) as stream:
        results = asyncio.create_task(collect(stream))
        if turns is None:
            while judge.calls < 3:
                await settle()
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        stream.stop()
        stream.drop_unsent()
        sent = judge.calls
        gates.open(*(f"answer-{number}" for number in range(len(LINES))))
        found = await results
    assert judge.calls <= min(3, sent + 1)  # One may be on its way.
    assert turns is not None or (judge.calls == 3 and 0 < len(found) < len(LINES) / 2)
    assert not any("answer_eval_error" in result for result in found)
    answered = {result["question_id"] for result in found}
    assert stream.missing == [name for name in stream.reference.questions if name not in answered]
    async with stream_of(LINES, path, config=limited, judge=Judge()) as second:
        assert len(await collect(second)) + len(found) + second.rejects.total == len(LINES)
    assert names_of(path) == names(LINES)
    async with stream_of(LINES, None, config=limited, judge=Judge()) as undisturbed:
        await collect(undisturbed)
    assert bits(second.aggregates) == bits(undisturbed.aggregates)


def test_a_reject_that_ends_the_stream_ends_the_next_one_too(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RejectedResponse, match="line 4"):
            complete(LINES[:8], path, on_reject="raise")
    results, stream = complete(LINES[:8], path)
    assert (len(results), stream.rejects.total, stream.missing) == (4, 1, ["q3", "q4"])
    assert names_of(path) == names(LINES[:8])


def test_by_content_a_line_comes_once(path: Path) -> None:
    some, other = orjson.dumps(response(1)), orjson.dumps(response(2))
    results, stream = complete([some, other, some, some], None, dedupe="content")
    assert [result["response_id"] for result in results] == ["r1", "r2"]
    assert (stream.skipped, stream.journal) == (2, None)
    assert complete([some, some], path, dedupe="content")[1].skipped == 1
    results, stream = complete([other, some, other], path, dedupe="content")
    assert [result["response_id"] for result in results] == ["r2"]
    assert (stream.skipped, len(lines_of(path))) == (2, 2)


def test_the_budget_is_that_of_all_runs(path: Path) -> None:
    llm = CONFIG["llm"] | {"limits": {"max_concurrency": 1, "budget_usd": 5 * COST}}
    unique = [orjson.dumps(response(number)) for number in range(20)]
    complete(unique[:3], path, **judged(llm=llm))
    results, stream = complete(unique, path, **judged(llm=llm))
    assert stream.usage.attempts == 2
    assert stream.usage.restored_dollars == pytest.approx(3 * COST)
    assert stream.usage.dollars == pytest.approx(5 * COST)
    assert Counter("answer_eval_error" in result for result in results) == {False: 2, True: 15}


def test_errors_with_texts_that_utf8_cannot_hold_are_kept(path: Path) -> None:
    async def fail(_: str) -> None:
        raise ValueError("\udcff")

    options: dict[str, Any] = {
        "config": CONFIG | {"llm": {"limits": {"max_attempts": 1}}},
        "judge": Judge(fail),
    }
    (result,), _ = complete([orjson.dumps(response(1))], path, **options)
    assert result["answer_eval_error"].startswith("unavailable: ValueError: \\udcff")
    assert results_of(path) == [result]


# Under other conditions


def test_invalid_journals() -> None:
    wrong: dict[str, Any] = {"force": 1, "rejects": 1, "max_reject_bytes": -1}
    for name, value in wrong.items():
        with pytest.raises(UsageError, match=f"^journal.{name}: "):
            Journal("results.jsonl", **dict[str, Any]({name: value}))
    for name, value in {"dedupe": "line", "journal": 5}.items():
        with pytest.raises(UsageError, match=f"^{name}: "):
            evaluate_stream(TEMPLATES, [], **dict[str, Any]({name: value}))
    for name in ("fsync", "fsync_interval"):
        with pytest.raises(
            UsageError, match=f"^{name}= is gone; results are flushed to disk once a second$"
        ):
            Journal("results.jsonl", **dict[str, Any]({name: 1}))


def changed(**more: Any) -> list[dict[str, Any]]:
    template, *_ = orjson.loads(orjson.dumps(TEMPLATES))
    template["questions"][0] |= more
    return [template]


PROMPT = {"prompt": "{question} {reference_answer} {actual_answer}"}
MISMATCHES: list[tuple[dict[str, Any], list[str]]] = [
    (judged(answer_correctness=PROMPT), ["configuration"]),
    ({}, ["configuration"]),
    (judged() | {"dedupe": "content"}, ["dedupe"]),
    ({"reference": changed(question_text="How?")}, ["reference", "configuration"]),
]


def resumed(path: Path | Journal, **options: Any) -> int:
    """How many results and rejects a run found."""

    async def run() -> int:
        own = {"reference": TEMPLATES} | options
        async with evaluate_stream(own.pop("reference"), LINES[:6], journal=path, **own) as stream:
            await collect(stream)
            assert stream.journal is not None
            return stream.journal.restored + stream.journal.rejected

    return asyncio.run(in_time(run)())


def files_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_other_conditions(path: Path) -> None:
    shown = {"dedupe": r"\(position, now content\)"}
    for options, differences in MISMATCHES:
        assert resumed(Journal(path, force=True), **judged()) in {0, 6}
        before = files_of(path)
        with pytest.raises(
            JournalMismatch, match=r"or resume with force \(--resume=force\)$"
        ) as caught:
            resumed(path, **options)
        assert list(caught.value.differences) == differences
        text = ", another ".join(f"{name} {shown.get(name, '.*')}" for name in differences)
        assert re.match(f"{path}: was started with another {text}; ", str(caught.value))
        assert files_of(path) == before
        assert resumed(Journal(path, force=True), **options) == 6
        assert resumed(path, **options) == 6
        with pytest.raises(JournalMismatch):
            resumed(path, **judged())


def test_another_version(path: Path) -> None:
    """Of what computes the results, which may be forced, and of the file's format, which may
    not.
    """
    run = path.with_name("results.jsonl.run")
    resumed(path)
    conditions = run.read_text()
    run.write_text(re.sub('"version": "[0-9]+"', '"version": "0"', conditions))
    with pytest.raises(JournalMismatch, match=r"another version \(0, now \d+\); ") as caught:
        resumed(path)
    assert caught.value.differences == ("version",)
    run.write_text(conditions.replace('"format": "2"', '"format": "1"'))
    before = files_of(path)
    for force in (False, True):
        with pytest.raises(JournalMismatch, match=r"format 1, this one reads 2.* into a new file"):
            resumed(Journal(path, force=force))
    assert files_of(path) == before
    run.unlink()
    with pytest.raises(
        JournalMismatch, match=r"was not started with --resume \(.*another output file"
    ):
        resumed(path)
    assert path.read_bytes() == before[path.name]


def test_rejects_belong_to_the_journal_beside_them(path: Path) -> None:
    """They count the next time, even without a result; those of a journal that is gone do not."""
    rejected = [line for line in LINES if b"unknown" in line]
    for there in (0, len(rejected), 0):
        _, stream = complete(rejected, path)
        assert (stream.skipped, stream.rejects.total) == (there, len(rejected))
        assert names_of(path) == names(rejected)
        if there:
            path.unlink()
            path.with_name("results.jsonl.run").unlink()
