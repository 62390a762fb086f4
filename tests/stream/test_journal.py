"""Streams that keep a journal: what is in it, and how they go on with it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pytest

from graphrag_eval_async import (
    Journal,
    JournalMismatch,
    RejectedResponse,
    UsageError,
    evaluate_stream,
)
from tests.cases import each
from tests.conftest import leaving_nothing
from tests.deadlines import in_time
from tests.journals import (
    CONFIG,
    COST,
    REFERENCE,
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

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

LINES = responses(30)
TEXT = b"\n".join(LINES)
JUDGED = sum(b"answer-" in line for line in LINES)
RESULTS = sum(b"unknown" not in line for line in LINES)


def quiet(path: Path, **options: Any) -> tuple[list[bytes], bytes]:
    """The lines of the journal and the aggregates of a run that nothing happens to."""
    _, stream = complete(LINES, path, **options)
    return sorted(lines_of(path)), bits(stream.aggregates)


# What is in it


def test_restored_results_are_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results, _ = complete(LINES[:20], path)
    restored: list[Any] = []
    more, _ = complete(LINES, Journal(path, on_restored=restored.append))
    assert restored == results
    assert len(results) + len(more) == RESULTS


def test_each_result_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results, stream = complete(LINES, path)
    assert results_of(path) == results
    assert names_of(path) == names(LINES)
    assert [result["source"]["line"] for result in results] == [
        number for number, line in enumerate(LINES, 1) if b"unknown" not in line
    ]
    assert stream.skipped == 0
    assert stream.journal is not None
    assert (stream.journal.restored, stream.journal.rejected, stream.journal.damaged) == (0, 0, 0)


def test_rejects_beside_the_journal(tmp_path: Path) -> None:
    _, stream = complete([b'{"question_id": "q9"}'], tmp_path / "results.jsonl")
    (record,) = results_of(tmp_path / "results.jsonl.rejects")
    (reject,) = stream.rejects
    source = {"line": 1, "offset": 0, "length": 21, "sha256": reject.sha256, "occurrence": 1}
    assert record["source"] == source
    assert (record["reason"], record["content"]) == ("unknown_question_id", '{"question_id": "q9"}')


# Going on


async def items(source: Any) -> AsyncGenerator[Any]:
    for item in source:
        await asyncio.sleep(0)
        yield item


def reader_of(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


class Pieces(anyio.abc.ByteReceiveStream):
    """A stream that cuts its lines anywhere."""

    def __init__(self, data: bytes) -> None:
        self._pieces = iter([data[start : start + 100] for start in range(0, len(data), 100)])

    async def receive(self, _: int = 0) -> bytes:
        for piece in self._pieces:
            return piece
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        pass


DICTS = [orjson.loads(line) for line in LINES]
SOURCES: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "bytes": lambda _: list(LINES),
    "text": lambda _: [line.decode() for line in LINES],
    "many lines at once": lambda _: [TEXT],
    "an asynchronous iterable": lambda _: items(LINES),
    "a reader": lambda _: reader_of(TEXT),
    "a stream of bytes": lambda _: Pieces(TEXT),
}
OBJECTS: dict[str, Callable[[Path], Any]] = {"dicts": lambda _: DICTS, "dicts, later": lambda _: items(DICTS)}


@pytest.mark.parametrize("make", (SOURCES | OBJECTS).values(), ids=SOURCES | OBJECTS)
@pytest.mark.parametrize("taken", [0, 1, 17, 100])
async def test_started_again_with_the_same_source(
    tmp_path: Path, make: Callable[[Path], Any], taken: int
) -> None:
    source = tmp_path / "responses.jsonl"
    source.write_bytes(TEXT)
    one, other = tmp_path / "quiet.jsonl", tmp_path / "results.jsonl"
    async with stream_of(make(source), one) as undisturbed:
        await collect(undisturbed)
    first: list[Any] = []
    async with leaving_nothing():
        async with stream_of(make(source), other, max_in_flight=3) as stream:
            while len(first) < taken and (result := await anext(stream, None)) is not None:
                first.append(result)
        there = len(lines_of(other)) if taken else 0
        async with stream_of(make(source), other) as stream:
            second = await collect(stream)
        assert len(first) <= there == RESULTS - len(second)
        assert stream.skipped >= there
        assert sorted(lines_of(other)) == sorted(lines_of(one))
        assert bits(stream.aggregates) == bits(undisturbed.aggregates)
        assert stream.rejects.counts == undisturbed.rejects.counts
        assert stream.missing == undisturbed.missing == []
        async with stream_of(make(source), other) as stream:
            assert await collect(stream) == []
        assert bits(stream.aggregates) == bits(undisturbed.aggregates)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("ordered", [False, True])
def test_any_part_of_the_results_was_there(tmp_path: Path, seed: int, ordered: bool) -> None:
    """Judged in any order and stopped anywhere, over and over, in the end it is all as of one quiet run."""
    draw = random.Random(seed)
    one, path = tmp_path / "quiet.jsonl", tmp_path / "results.jsonl"
    lines, aggregates = quiet(one, config=CONFIG, judge=Judge())

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
        assert set(lines_of(path)) <= set(lines)

    for _ in range(3):
        asyncio.run(in_time(interrupted)())
    _, stream = complete(LINES, path, config=CONFIG, judge=Judge(), ordered=ordered)
    assert sorted(lines_of(path)) == lines
    assert bits(stream.aggregates) == aggregates
    assert stream.usage.dollars == pytest.approx(JUDGED * COST)


def test_true_duplicates_are_samples(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    line = orjson.dumps(response(1))
    for count in (2, 3, 3, 7):
        complete([line] * count, path)
        results = results_of(path)
        assert [result["source"]["occurrence"] for result in results] == list(range(1, count + 1))
        assert [result["sample"] for result in results] == list(range(1, count + 1))


def test_rejects_are_restored_and_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    _, first = complete(LINES, path)
    written = lines_of(f"{path}.rejects")
    seen: list[Any] = []
    _, second = complete(LINES, path, on_reject=seen.append)
    assert (seen, len(second.rejects)) == ([], 0)
    assert second.rejects.counts == first.rejects.counts == Counter(unknown_question_id=4)
    assert lines_of(f"{path}.rejects") == written


@pytest.mark.parametrize("limit", [10, 10_000])
def test_the_content_of_rejects(tmp_path: Path, limit: int) -> None:
    path, source = tmp_path / "results.jsonl", tmp_path / "source.jsonl"
    text = b'{"question_id": "' + b"x" * 50 + b'"}'
    source.write_bytes(text)
    seen: list[Any] = []
    complete(source, path, on_reject=seen.append, max_line_bytes=limit)
    (reject,), (record,) = seen, results_of(f"{path}.rejects")
    assert reject.head == text
    assert reject.content == (None if limit == 10 else text)
    assert record["head" if limit == 10 else "content"] == text.decode()


def test_a_reject_that_ends_the_stream_ends_the_next_one_too(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for _ in range(2):
        with pytest.raises(RejectedResponse, match="line 4"):
            complete(LINES[:8], path, on_reject="raise")
    results, stream = complete(LINES[:8], path)
    assert len(results) == 4
    assert stream.rejects.total == 1
    assert names_of(path) == names(LINES[:8])


def test_missing_counts_answered_questions(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert complete(LINES[:1], path)[1].missing == ["q1", "q2", "q3", "q4"]
    assert complete([orjson.dumps(response(2))], path)[1].missing == ["q1", "q3", "q4"]
    assert complete([], path)[1].missing == ["q1", "q3", "q4"]


# By content


def test_by_content_a_line_comes_once(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    some, other = orjson.dumps(response(1)), orjson.dumps(response(2))
    results, stream = complete([some, other, some, some], None, dedupe="content")
    assert [result["response_id"] for result in results] == ["r1", "r2"]
    assert (stream.skipped, stream.journal) == (2, None)
    assert [result["sample"] for result in results] == [1, 1]
    assert complete([some, some], path, dedupe="content")[1].skipped == 1
    results, stream = complete([other, some, other], path, dedupe="content")
    assert [result["response_id"] for result in results] == ["r2"]
    assert stream.skipped == 2
    assert len(lines_of(path)) == 2


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"dedupe": "line"}, "dedupe"),
        ({"journal": 5}, "journal"),
        ({"journal": Path}, "journal"),
    ],
)
def test_invalid_values(options: dict[str, Any], name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name}: "):
        evaluate_stream(REFERENCE, [], **options)


@each(
    "options",
    [
        {"force": 1},
        {"fsync": "sometimes"},
        {"fsync": True},
        {"fsync_interval": 0},
        {"fsync_interval": True},
        {"fsync_interval": float("nan")},
        {"fsync_interval": float("inf")},
        {"fsync_interval": "1"},
        {"rejects": 1},
        {"on_restored": "print"},
    ],
)
def test_invalid_journals(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"^journal.{name}: "):
        Journal("results.jsonl", **options)


# Under other conditions


def judged(**more: Any) -> dict[str, Any]:
    return {"config": CONFIG | more, "judge": Judge()}


class Other(Judge):
    model = "another"


def llm(**more: Any) -> dict[str, Any]:
    return judged(llm=CONFIG["llm"] | more)


def changed(question: int = 0, **more: Any) -> list[dict[str, Any]]:
    template, *_ = orjson.loads(orjson.dumps(TEMPLATES))
    template["questions"][question] |= more
    return [template]


MISMATCHES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an answer": (judged() | {"reference": changed(4, reference_answer="No.")}, ["reference"]),
    "a prompt": (
        judged(answer_correctness={"prompt": "{question} {reference_answer} {actual_answer}"}),
        ["configuration"],
    ),
    "no judge": ({}, ["configuration"]),
    "deduplication": (judged() | {"dedupe": "content"}, ["dedupe"]),
    "the longest line": (judged() | {"max_line_bytes": 1000}, ["max_line_bytes"]),
    "both": ({"reference": changed(question_text="How?")}, ["reference", "configuration"]),
}
MATCHES: dict[str, dict[str, Any]] = {
    "limits": llm(limits={"max_concurrency": 1, "budget_usd": 5.0}),
    "a price": llm(pricing={"input_usd_per_million": 2.0, "output_usd_per_million": 2.0}),
    "the order": judged() | {"ordered": True},
    "the stages": judged() | {"stages": True},
    "a reference that is equal": judged() | {"reference": changed()},
}


def begun(path: Path | Journal) -> None:
    complete(LINES[:5], path, **judged())


def go_on(path: Path | Journal, options: dict[str, Any]) -> Any:
    options = {"reference": REFERENCE} | options
    reference = options.pop("reference")

    async def run() -> Any:
        async with evaluate_stream(reference, LINES[:6], journal=path, **options) as stream:
            await collect(stream)
        return stream

    return asyncio.run(in_time(run)())


@pytest.mark.parametrize(("options", "names"), MISMATCHES.values(), ids=MISMATCHES)
def test_other_conditions(tmp_path: Path, options: dict[str, Any], names: list[str]) -> None:
    path = tmp_path / "results.jsonl"
    begun(path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(JournalMismatch) as caught:
        go_on(path, options)
    assert list(caught.value.differences) == names
    shown = {"dedupe": " (position, now content)", "max_line_bytes": " (33554432, now 1000)"}
    text = ", another ".join(name + shown.get(name, "") for name in names)
    assert str(caught.value) == (
        f"{path}: was started with another {text}; its results and new ones would not be comparable. "
        "Use another journal, or resume with --resume=force, in Python Journal(..., force=True)"
    )
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    forced = go_on(Journal(path, force=True), options)
    assert forced.journal.restored == 4
    assert go_on(path, options).journal.restored == 5
    with pytest.raises(JournalMismatch):
        begun(path)
    run = orjson.loads((tmp_path / "results.jsonl.run").read_bytes())
    assert len(run["earlier"]) == 1


def test_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    begun(path)
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99.0")
    begun(path)  # Another release, which computes the same.
    monkeypatch.setattr("graphrag_eval_async.evaluator.RESULTS_VERSION", "99")
    with pytest.raises(JournalMismatch, match=r"another version \(\d+, now 99\); ") as caught:
        begun(path)
    assert caught.value.differences == ("version",)


def test_another_format_cannot_be_forced(tmp_path: Path) -> None:
    path, run = tmp_path / "results.jsonl", tmp_path / "results.jsonl.run"
    begun(path)
    run.write_text(run.read_text().replace('"format": "2"', '"format": "1"'))
    before = path.read_bytes()
    for force in (False, True):
        with pytest.raises(JournalMismatch, match=r"format 1, this one reads 2.* into a new file") as caught:
            begun(Journal(path, force=force))
        assert "--resume=force" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("options", MATCHES.values(), ids=MATCHES)
def test_conditions_that_change_no_result(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "results.jsonl"
    begun(path)
    assert go_on(path, options).journal.restored == 4


@pytest.mark.parametrize("content", [b'{"question_id": "q0"}\n', b"text", b"\n"])
def test_not_a_journal(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(JournalMismatch, match=r"not empty, but its file .*results\.jsonl\.run is missing"):
        begun(path)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


# Judges


def test_costs_of_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    _, first = complete(LINES[:10], path, **judged())
    _, second = complete(LINES, path, **judged())
    before = sum(b"answer-" in line for line in LINES[:10])
    assert first.usage.dollars == pytest.approx(before * COST)
    assert second.usage.restored_dollars == pytest.approx(before * COST)
    assert second.usage.dollars == pytest.approx(JUDGED * COST)
    assert second.usage.calls == JUDGED - before
    assert second.usage.as_dict()["dollars"] == second.usage.dollars


def test_the_budget_is_that_of_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    limits = {"max_concurrency": 1, "budget_usd": 5 * COST}
    unique = [orjson.dumps(response(number)) for number in range(20)]
    complete(unique[:3], path, **llm(limits=limits))
    results, stream = complete(unique, path, **llm(limits=limits))
    assert stream.usage.calls == stream.usage.attempts + stream.usage.outcomes["budget"]
    assert stream.usage.attempts == 2
    assert stream.usage.dollars == pytest.approx(5 * COST)
    assert Counter("answer_eval_error" in result for result in results) == {False: 2, True: 15}


def test_stages(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results, stream = complete(LINES, path, stages=True, **judged())
    assert sum("pending" in result for result in results) == JUDGED
    assert len(results) == RESULTS + JUDGED
    assert not [result for result in results_of(path) if "pending" in result]
    assert names_of(path) == names(LINES)
    again, later = complete(LINES, path, stages=True, **judged())
    assert again == []
    assert bits(later.aggregates) == bits(stream.aggregates)
