"""Parquet files, read by `read_jsonl`."""

from __future__ import annotations

import asyncio
import datetime
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from graphrag_eval_async import SourceError, UsageError, evaluate_stream, read_jsonl
from tests.support.data import templates


def row(i: int) -> dict[str, Any]:
    step = {"name": "search", "status": "success", "output": "o" * (i % 5)}
    step |= {"id": str(i)} if i % 2 else {}
    answer = {"actual_answer": "é" * i} if i % 4 else {}
    return {"question_id": f"q{i % 3}", "elapsed_sec": i / 7, "actual_steps": [step], **answer}


def rows(count: int) -> list[dict[str, Any]]:
    return [row(i) for i in range(count)]


def write(path: Any, items: list[dict[str, Any]], size: int = 7) -> str:
    names = {name for item in items for name in item}
    table = pyarrow.table({name: [item.get(name) for item in items] for name in sorted(names)})
    parquet.write_table(table, path, row_group_size=size)
    return str(path)


async def read(path: Any, **options: Any) -> list[Any]:
    return [line async for line in read_jsonl(path, **options)]


async def test_rows_are_the_lines_of_json(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows(40))
    found = await read(path)
    assert [orjson.loads(line.data) for line in found] == rows(40)
    assert [(line.number, line.offset) for line in found] == [(i + 1, i) for i in range(40)]
    assert {line.position.path for line in found} == {path}
    (tmp_path / "a.parquet").rename(tmp_path / "rows")  # Recognised by its first bytes.
    assert [line.data for line in await read(tmp_path / "rows")] == [line.data for line in found]


async def test_values_of_other_types(tmp_path: Path) -> None:
    day = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    item = {
        "question_id": b"q1",
        "actual_steps": '[{"name": "search", "id": null}]',
        "elapsed_sec": Decimal("1.50"),
        "day": day,
        "deep": {"a": None, "b": [{"c": 1}, None, {"c": None}]},
    }
    (line,) = await read(write(tmp_path / "a.parquet", [item]))
    assert orjson.loads(line.data) == {
        "question_id": "q1",
        "actual_steps": [{"name": "search", "id": None}],
        "elapsed_sec": 1.5,
        "day": day.isoformat(),
        "deep": {"b": [{"c": 1}, None, {}]},
    }


async def test_rows_and_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[dict[str, Any]] = [{"question_id": b"q%d" % i, "actual_steps": "[]"} for i in range(6)]
    items[4]["actual_steps"] = "[{"
    items[5]["question_id"] = b"\xff"
    path = write(tmp_path / "a.parquet", items, size=3)
    async with evaluate_stream(templates(3), path) as stream:
        assert len([result async for result in stream]) == 3  # Of q0, q1 and q2.
    bad = [(each.path, each.line, each.reason) for each in stream.rejects][1:]
    assert bad == [(path, 5, "unknown_question_id"), (path, 6, "invalid_field")]  # Bytes that are no text.
    day = pyarrow.array([2**60], pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table({"question_id": ["q0"], "day": day}), path)
    with pytest.raises(SourceError, match=r"a\.parquet: cannot be read as Parquet: "):
        await read(path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match=r"b\.parquet: cannot be read as Parquet"):
        await read(tmp_path / "b.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="needs the extra table; "):
        await read(path)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 3, 50]), st.booleans()), max_size=4), st.data()
)
def test_shards_together_are_the_input(files: list[tuple[int, int, bool]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "0.jsonl").write_bytes(b'{"question_id": "q1"}')
        for place, (length, size, is_table) in enumerate(files, 1):
            if is_table and length:
                write(f"{folder}/{place}.parquet", rows(length), size)
            else:
                lines = b"".join(orjson.dumps(row) + b"\n" for row in rows(length))
                Path(folder, f"{place}.jsonl").write_bytes(lines)
        whole = asyncio.run(read(folder))
        parts = [asyncio.run(read(folder, shard=(i, count))) for i in range(count)]
        assert [(each.offset, each.data) for part in parts for each in part] == [
            (each.offset, each.data) for each in whole
        ]
