from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.records import FileId, Line, LongLine, Position
from graphrag_eval_async.sinks.journal import Admission, read_source
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterable

TEXTS = st.lists(st.sampled_from([b"a", b"b", b"cc"]), max_size=12)
FOLLOWED = FileId("/logs/log", "key", followed=True)
READ = FileId("/logs/log", "key")


def lines_of(texts: Iterable[bytes], file: FileId | None = None) -> list[Line]:
    lines, offset = [], 0
    for number, text in enumerate(texts, 1):
        lines.append(Line(number, offset, text, file))
        offset += len(text) + 1
    return lines


def restored(sources: Iterable[dict[str, Any]], dedupe: Any = "position") -> Admission:
    """As after a restart, with what these results say of their lines."""
    admission = Admission(dedupe)
    for source in sources:
        admission.restore(read_source(orjson.loads(orjson.dumps(source))))
    return admission


def admitted(admission: Admission, lines: Iterable[Line]) -> list[dict[str, Any]]:
    return [source for line in lines if (source := admission.admit(line)) is not None]


def names(sources: Iterable[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((source["sha256"], source["occurrence"]) for source in sources)


@pytest.mark.parametrize("file", [None, READ, FOLLOWED], ids=["iterable", "read", "followed"])
@given(TEXTS, st.data())
def test_every_line_is_admitted_once_over_all_runs(
    file: FileId | None, texts: list[bytes], data: st.DataObject
) -> None:
    """Killed and started again any number of times, with any subset of the results on disk."""
    lines = lines_of(texts, file)
    quiet = admitted(Admission("position"), lines)
    assert names(quiet) == Counter(
        (sha256(text).hexdigest(), texts[: i + 1].count(text)) for i, text in enumerate(texts)
    )
    kept: list[dict[str, Any]] = []
    for _ in range(data.draw(st.integers(0, 3))):
        run = admitted(restored(kept), lines)
        kept += data.draw(st.lists(st.sampled_from(run), unique_by=id) if run else st.just([]))
    admission = restored(kept)
    skipped = len(kept)
    kept += admitted(admission, lines)
    assert names(kept) == names(quiet)
    assert admission.skipped == skipped
    assert admitted(restored(kept), lines) == []


@given(TEXTS, TEXTS, st.data())
def test_by_content_each_content_is_admitted_once(
    texts: list[bytes], more: list[bytes], data: st.DataObject
) -> None:
    files = [None, READ, FOLLOWED]
    first = admitted(Admission("content"), lines_of(texts, data.draw(st.sampled_from(files))))
    assert [source["sha256"] for source in first] == [
        sha256(text).hexdigest() for text in dict.fromkeys(texts)
    ]
    assert {source["occurrence"] for source in first} <= {1}
    kept = data.draw(st.lists(st.sampled_from(first), unique_by=id) if first else st.just([]))
    again = admitted(restored(kept, "content"), lines_of(texts + more, data.draw(st.sampled_from(files))))
    assert len(kept) + len(again) == len(names(kept + again)) == len({*texts, *more})


@given(TEXTS, TEXTS)
def test_a_followed_line_is_known_by_place_and_content(texts: list[bytes], others: list[bytes]) -> None:
    """What stands in a file where a line was done, but is another, is not done."""
    before, after = lines_of(texts, FOLLOWED), lines_of(others, FOLLOWED)
    kept = admitted(Admission("position"), before)
    end, contents = sum(len(text) + 1 for text in texts), set(texts)
    new = []
    for line in after:
        if line.offset >= end or line.data not in contents:
            new.append(line.offset)
            contents.add(line.data)
            end = max(end, line.offset + len(line.data) + 1)
    assert [source["offset"] for source in admitted(restored(kept), after)] == new


def test_the_same_lines_in_another_file_are_samples() -> None:
    kept = admitted(Admission("position"), lines_of([b"a", b"b"], FOLLOWED))
    other = lines_of([b"b", b"a"], FileId("/logs/log", "another", followed=True))
    assert [source["occurrence"] for source in admitted(restored(kept), other)] == [2, 2]


def test_what_was_read_from_a_file_is_not_new_when_it_is_followed() -> None:
    kept = admitted(Admission("position"), lines_of([b"a", b"b"], READ))
    lines = lines_of([b"a", b"b", b"b"], FOLLOWED)
    (source,) = admitted(restored(kept), lines)
    assert (source["line"], source["occurrence"]) == (3, 2)


def test_what_was_followed_is_not_new_when_the_file_is_read() -> None:
    kept = admitted(Admission("position"), lines_of([b"a", b"b"], FOLLOWED))
    for file in (READ, None):
        (source,) = admitted(restored(kept), lines_of([b"a", b"b", b"b"], file))
        assert (source["line"], source["occurrence"]) == (3, 2)


def test_what_a_result_says_of_its_line() -> None:
    admission = Admission("position")
    digest = sha256(b"text").hexdigest()
    plain = {"line": 3, "offset": 20, "length": 4, "sha256": digest}
    file = {"path": "/logs/log", "file": "key"}
    assert admission.admit(Line(3, 20, b"text")) == {**plain, "occurrence": 1}
    assert admission.admit(Line(3, 20, b"text", READ)) == {**file, **plain, "occurrence": 2}
    last = Line(3, 20, b"text", FOLLOWED, whole=False)
    source = admission.admit(last)
    assert source == {**file, **plain, "occurrence": 3, "whole": False}
    place = Position("/logs/log", "key", 20, 4, digest)
    assert read_source(source) == (bytes.fromhex(digest[:32]), 3, place, False)
    long = LongLine(3, 20, b"te", 4, 1, digest, READ)
    assert admission.admit(long) == {**file, **plain, "occurrence": 4}


def test_a_last_line_whose_newline_comes_later() -> None:
    last = Line(1, 0, b'{"a": 1}', FOLLOWED, whole=False)
    kept = admitted(Admission("position"), [last])
    assert admitted(restored(kept), [last._replace(whole=True)]) == []
    assert admitted(restored(kept), [Line(1, 0, b'{"a": 1} \r', FOLLOWED)]) == []
    longer = Line(1, 0, b'{"a": 1}}', FOLLOWED)
    admission = restored(kept)
    assert len(admitted(admission, [longer])) == 1
    assert admission.done.known()["key"][:2] == (10, 2)


SOURCE = {"path": "p", "file": "f", "line": 1, "offset": 0, "length": 1, "sha256": "ab" * 32, "occurrence": 1}


@each(
    "changes",
    [
        {"sha256": None},
        {"sha256": "ab" * 31},
        {"sha256": "ab" * 33},
        {"sha256": " " * 64},
        {"sha256": "xy" * 32},
        {"sha256": ["a"] * 64},
        {"occurrence": 0},
        {"occurrence": True},
        {"occurrence": 1.0},
        {"file": 1},
        {"path": 1},
        {"offset": -1},
        {"offset": 2**63},
        {"offset": "0"},
        {"length": 2**64 - 1},
        {"length": 1.5},
    ],
)
def test_what_says_nothing_of_a_line(changes: dict[str, Any]) -> None:
    assert read_source(SOURCE)[1] == 1
    with pytest.raises(ValueError):
        read_source(SOURCE | changes)


@pytest.mark.parametrize("missing", ["sha256", "offset", "length", "path"])
def test_what_leaves_something_out(missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        read_source({key: value for key, value in SOURCE.items() if key != missing})


@pytest.mark.parametrize("source", [None, 5, "sha256", ["sha256"], [SOURCE]])
def test_what_is_no_object(source: Any) -> None:
    with pytest.raises(ValueError, match="Expected `object`"):
        read_source(source)
