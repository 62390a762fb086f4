from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import AggregationError, SourceError, UsageError, compare, read_jsonl

if TYPE_CHECKING:
    from pathlib import Path


def results(*scores: float) -> list[dict[str, Any]]:
    return [
        {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": score}
        for i, score in enumerate(scores)
    ]


BASELINE, CANDIDATE = results(1.0, 0.5, 0.0), results(1.0, 1.0)


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(exist_ok=True)
    text = b"".join(orjson.dumps(item) + b"\n" for item in items)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_of_dicts() -> None:
    compared = compare(BASELINE, (each for each in CANDIDATE), level=0.9)
    assert (compared["level"], compared["questions"]) == (0.9, 2)
    assert compared["overall"]["steps_score"]["difference"] == 0.25
    assert compared["only_in_baseline"] == ["q2"]


def test_of_files(tmp_path: Path) -> None:
    expected = compare(BASELINE, CANDIDATE)
    baseline = write(tmp_path / "a" / "1.jsonl", BASELINE[:1])
    write(tmp_path / "a" / "2.jsonl.gz", BASELINE[1:])
    candidate = write(tmp_path / "b.jsonl", CANDIDATE)
    assert compare(baseline.parent, str(candidate)) == expected
    assert compare(str(tmp_path / "a" / "*"), read_jsonl([candidate])) == expected
    assert compare(BASELINE, candidate) == expected


async def test_where_an_event_loop_runs(tmp_path: Path) -> None:
    candidate = write(tmp_path / "b.jsonl", CANDIDATE)
    expected = compare(BASELINE, CANDIDATE)
    assert compare(BASELINE, candidate) == expected
    assert await asyncio.to_thread(compare, BASELINE, candidate) == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "invalid_json"),
        (b"[]", "not_an_object"),
        (b'{"template_id": "t"}', "invalid_field: question_id: must be a string, not None"),
        (b'{"template_id": "t", "question_id": "q", "steps_score": "?"}', "'q': steps_score: must be"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_result_has_its_place(tmp_path: Path, line: bytes, told: str) -> None:
    candidate = write(tmp_path / "b.jsonl", CANDIDATE)
    candidate.write_bytes(candidate.read_bytes() + line + b"\n")
    with pytest.raises(AggregationError) as error:
        compare(BASELINE, candidate)
    assert str(error.value).startswith(f"{candidate}: line 3 (byte ")
    assert told in str(error.value)


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"none\.jsonl: cannot be read"):
        compare(BASELINE, tmp_path / "none.jsonl")


@pytest.mark.parametrize("nothing", [None, 7, b"a.jsonl", {"q": {}}])
def test_what_are_no_results(nothing: Any) -> None:
    with pytest.raises(UsageError, match=r"^candidate: expected a path or an iterable of results"):
        compare(BASELINE, nothing)


def test_the_level_is_checked_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^level: expected"):
        compare(tmp_path / "none.jsonl", BASELINE, level=2.0)
