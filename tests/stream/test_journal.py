"""Streams that keep a journal: what is in it, and how they resume from it."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
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
from tests.support.cases import each
from tests.support.deadlines import in_time
from tests.support.journals import (
    CONFIG,
    COST,
    TEMPLATES,
    Gates,
    Judge,
    bits,
    collect,
    complete,
    lines_of,
    names,
    names_of,
    response,
    responses,
    results_of,
    stream_of,
)
from tests.support.loop import leaving_nothing

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


def test_each_result_is_a_line(path: Path) -> None:
    results, stream = complete(LINES, path)
    assert results_of(path) == results
    assert names_of(path) == names(LINES)
    numbers = [number for number, line in enumerate(LINES, 1) if b"unknown" not in line]
    assert [result["source"]["line"] for result in results] == numbers
    assert stream.skipped == 0
    assert stream.journal is not None
    assert (stream.journal.restored, stream.journal.rejected, stream.journal.damaged) == (0, 0, 0)


def test_rejects_beside_the_journal(path: Path) -> None:
    _, stream = complete([b'{"question_id": "q9"}'], path)
    (record,), (reject,) = results_of(f"{path}.rejects"), stream.rejects
    source = {"line": 1, "offset": 0, "length": 21, "sha256": reject.sha256, "occurrence": 1}
    assert record["source"] == source
    assert (record["reason"], record["content"]) == ("unknown_question_id", '{"question_id": "q9"}')


@pytest.mark.parametrize("suffix", [".run", ".rejects", ".damaged", ".late", ".watch"])
def test_files_beside_the_journal_are_no_responses(path: Path, suffix: str) -> None:
    (path.parent / "log").write_bytes(LINES[0])
    path.with_name(f"results.jsonl{suffix}").write_bytes(b"" if suffix == ".run" else b"{}\n")
    results, stream = complete(read_jsonl(f"{path.parent}/*"), path)
    assert (len(results), stream.rejects.total) == (1, 0)


def test_stages(path: Path) -> None:
    results, stream = complete(LINES, path, stages=True, **judged())
    assert sum("pending" in result for result in results) == JUDGED
    assert len(results) == RESULTS + JUDGED
    assert not [result for result in results_of(path) if "pending" in result]
    assert names_of(path) == names(LINES)
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
@pytest.mark.parametrize("taken", [0, 1, 17, 100])
async def test_started_again_with_the_same_source(
    tmp_path: Path, path: Path, make: Callable[[Path], Any], taken: int
) -> None:
    source, quiet = tmp_path / "responses.jsonl", tmp_path / "quiet.jsonl"
    source.write_bytes(b"\n".join(LINES))
    async with stream_of(make(source), quiet) as undisturbed:
        await collect(undisturbed)
    async with leaving_nothing():
        first: list[Any] = []
        async with stream_of(make(source), path, max_in_flight=3) as stream:
            while len(first) < taken and (result := await anext(stream, None)) is not None:
                first.append(result)
        there = len(lines_of(path)) if taken else 0
        for left in (RESULTS - there, 0):
            async with stream_of(make(source), path) as stream:
                assert len(await collect(stream)) == left
            assert sorted(lines_of(path)) == sorted(lines_of(quiet))
            assert bits(stream.aggregates) == bits(undisturbed.aggregates)
            assert stream.rejects.counts == undisturbed.rejects.counts
            assert stream.missing == undisturbed.missing == []
        assert len(first) <= there
        assert stream.skipped == len(LINES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ordered", [False, True])
def test_any_part_of_the_results_was_there(tmp_path: Path, path: Path, seed: int, ordered: bool) -> None:
    """Judged in any order and stopped anywhere, over and over, in the end it is all as of one quiet run."""
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
        assert set(lines_of(path)) <= set(lines_of(quiet))

    for _ in range(3):
        asyncio.run(in_time(interrupted)())
    _, stream = complete(LINES, path, **judged(), ordered=ordered)
    assert sorted(lines_of(path)) == sorted(lines_of(quiet))
    assert bits(stream.aggregates) == bits(undisturbed.aggregates)
    assert stream.usage.dollars == pytest.approx(JUDGED * COST)


def test_true_duplicates_are_samples(path: Path) -> None:
    line = orjson.dumps(response(1))
    for count in (2, 3, 3, 7):
        complete([line] * count, path)
        results = results_of(path)
        assert [result["source"]["occurrence"] for result in results] == list(range(1, count + 1))
        assert [result["sample"] for result in results] == list(range(1, count + 1))


def test_rejects_are_restored_and_not_written_again(path: Path) -> None:
    _, first = complete(LINES, path)
    written = lines_of(f"{path}.rejects")
    seen: list[Any] = []
    _, second = complete(LINES, path, on_reject=seen.append)
    assert (seen, len(second.rejects)) == ([], 0)
    assert second.rejects.counts == first.rejects.counts == Counter(unknown_question_id=4)
    assert lines_of(f"{path}.rejects") == written


def test_a_reject_that_ends_the_stream_ends_the_next_one_too(path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RejectedResponse, match="line 4"):
            complete(LINES[:8], path, on_reject="raise")
    results, stream = complete(LINES[:8], path)
    assert (len(results), stream.rejects.total) == (4, 1)
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


# Under other conditions


@each(
    "options",
    [
        {"force": 1},
        {"fsync": "sometimes"},
        {"fsync_interval": 0},
        {"fsync_interval": float("nan")},
        {"fsync_interval": "1"},
        {"rejects": 1},
        {"max_reject_bytes": -1},
    ],
)
def test_invalid_journals(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"^journal.{name}: "):
        Journal("results.jsonl", **options)
    for stream_option in ({"dedupe": "line"}, {"journal": 5}):
        (name,) = stream_option
        with pytest.raises(UsageError, match=f"^{name}: "):
            evaluate_stream(TEMPLATES, [], **stream_option)


def changed(**more: Any) -> list[dict[str, Any]]:
    template, *_ = orjson.loads(orjson.dumps(TEMPLATES))
    template["questions"][0] |= more
    return [template]


PROMPT = {"prompt": "{question} {reference_answer} {actual_answer}"}
MISMATCHES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a prompt": (judged(answer_correctness=PROMPT), ["configuration"]),
    "no judge": ({}, ["configuration"]),
    "deduplication": (judged() | {"dedupe": "content"}, ["dedupe"]),
    "the longest line": (judged() | {"max_line_bytes": 1000}, ["max_line_bytes"]),
    "both": ({"reference": changed(question_text="How?")}, ["reference", "configuration"]),
}


def resumed(path: Path | Journal, **options: Any) -> int:
    """How many results a run found."""

    async def run() -> int:
        reference = options.pop("reference", TEMPLATES)
        async with evaluate_stream(reference, LINES[:6], journal=path, **options) as stream:
            await collect(stream)
            assert stream.journal is not None
            return stream.journal.restored

    return asyncio.run(in_time(run)())


@pytest.mark.parametrize(("options", "differences"), MISMATCHES.values(), ids=MISMATCHES)
def test_other_conditions(path: Path, options: dict[str, Any], differences: list[str]) -> None:
    resumed(path, **judged())
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(JournalMismatch, match=r"resume with --resume=force, in Python Journal") as caught:
        resumed(path, **options)
    assert list(caught.value.differences) == differences
    shown = {"dedupe": r"\(position, now content\)", "max_line_bytes": r"\(33554432, now 1000\)"}
    text = ", another ".join(f"{name} {shown.get(name, '.*')}" for name in differences)
    assert re.match(f"{path}: was started with another {text}; ", str(caught.value))
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    assert resumed(Journal(path, force=True), **options) == 5
    assert resumed(path, **options) == 5
    with pytest.raises(JournalMismatch):
        resumed(path, **judged())


def test_another_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed(path)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
    resumed(path)  # Another release, which computes the same.
    monkeypatch.setattr("graphrag_eval_async.evaluator.RESULTS_VERSION", "99")
    with pytest.raises(JournalMismatch, match=r"another version \(\d+, now 99\); ") as caught:
        resumed(path)
    assert caught.value.differences == ("version",)


def test_another_format_cannot_be_forced(path: Path) -> None:
    run = path.with_name("results.jsonl.run")
    resumed(path)
    run.write_text(run.read_text().replace('"format": "2"', '"format": "1"'))
    before = path.read_bytes()
    for force in (False, True):
        with pytest.raises(JournalMismatch, match=r"format 1, this one reads 2.* into a new file"):
            resumed(Journal(path, force=force))
    assert path.read_bytes() == before


def test_not_a_journal(path: Path) -> None:
    path.write_bytes(b"text")
    with pytest.raises(JournalMismatch, match=r"not empty, but its file .*results\.jsonl\.run is missing"):
        resumed(path)
    assert path.read_bytes() == b"text"
    assert list(path.parent.iterdir()) == [path]
