from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from pyarrow import parquet

from graphrag_eval_async import RESULT_COLUMNS, UsageError, results_to_rows
from graphrag_eval_async.records.tabular import FORMULA_STARTS
from graphrag_eval_async.sinks.tables import ROWS, check_table, write_table

if TYPE_CHECKING:
    from pathlib import Path

RESULTS: list[dict[str, Any]] = [
    {
        "id": "a",
        "score": 1,
        "whole": 3,
        "good": True,
        "mixed": 1,
        "steps": [{"name": "x"}],
        "none": None,
    },
    {"id": "b", "score": 0.25, "whole": -4, "good": False, "mixed": "two\r\n\0three", "late": "-1"},
    {"id": "c", "pending": ["answer_f1"], "score": 0.0},
    {"id": "=1+1", "score": -0.5, "whole": None, "mixed": {"a": [1]}, "huge": 2**63},
]
OTHER_COLUMNS = ["id", "score", "whole", "good", "mixed", "steps", "none", "late", "huge"]
COLUMNS = [*RESULT_COLUMNS, *OTHER_COLUMNS]
EMPTY = [""] * len(RESULT_COLUMNS)
PENDING = {"template_id": "t", "question_id": "q", "pending": ["answer_f1"], "new": 1}
ERROR = {"template_id": "t", "question_id": "q", "status": "error", "error": "boom"}
RIGHT = {**ERROR, "status": "success", "error": None, "steps_score": 1, "input_tokens": 2**60 + 1}


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"".join(orjson.dumps(result) + b"\n" for result in RESULTS))
    return str(path)


def cells(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, strict=True))


def test_csv(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "results.csv"
    write_table(lines, str(path))
    assert cells(path) == [
        COLUMNS,
        [*EMPTY, "a", "1", "3", "True", "1", '[{"name":"x"}]', "", "", ""],
        [*EMPTY, "b", "0.25", "-4", "False", "two\r\n\0three", "", "", "'-1", ""],
        [*EMPTY, "'=1+1", "-0.5", "", "", '{"a":[1]}', "", "", "", str(2**63)],
    ]


def test_no_cell_of_text_begins_a_formula(tmp_path: Path) -> None:
    lines, path = tmp_path / "lines", tmp_path / "results.csv"
    texts = [f"{start}cmd|' /C calc'!A0" for start in FORMULA_STARTS]
    lines.write_bytes(orjson.dumps({text: text for text in texts}))
    write_table(str(lines), str(path))
    header, row = cells(path)
    assert header == [*RESULT_COLUMNS, *(f"'{text}" for text in texts)]
    assert row == [*EMPTY, *(f"'{text}" for text in texts)]


def test_parquet(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "results.parquet"
    write_table(lines, str(path))
    table = parquet.read_table(path)
    kinds = ["string", "double", "int64", "bool", "string", "string", "string", "string", "string"]
    types = {field.name: str(field.type) for field in table.schema}
    assert list(types) == COLUMNS
    assert [types[name] for name in OTHER_COLUMNS] == kinds
    assert table.to_pylist()[2] == {
        **dict.fromkeys(COLUMNS),
        "id": "=1+1",
        "score": -0.5,
        "mixed": '{"a":[1]}',
        "huge": str(2**63),
    }
    assert table["mixed"].to_pylist() == ["1", "two\r\n\0three", '{"a":[1]}']
    assert table["whole"].to_pylist() == [3, -4, None]


@pytest.mark.parametrize(
    ("results", "count"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([PENDING], 0, id="pending"),
        pytest.param([ERROR], 1, id="error"),
        pytest.param([ERROR, PENDING, RIGHT], 2, id="some"),
        pytest.param([RIGHT, {**RIGHT, "steps_score": 0.5, "sample": 2}], 2, id="right"),
    ],
)
def test_columns_and_their_types_do_not_depend_on_the_results(
    results: list[dict[str, Any]], count: int, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(orjson.dumps(result) + b"\n" for result in results))
    write_table(str(lines), str(tmp_path / "results.csv"))
    write_table(str(lines), str(tmp_path / "results.parquet"))
    header, *rows = cells(tmp_path / "results.csv")
    assert header == list(RESULT_COLUMNS)
    assert len(rows) == count

    table = parquet.read_table(tmp_path / "results.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert list(types) == list(RESULT_COLUMNS)
    expected = {"question_id": "string", "sample": "int64", "steps_score": "double"}
    expected |= {"input_tokens": "double", "answer_f1": "double", "tags": "string"}
    assert expected.items() <= types.items()
    assert table.num_rows == count
    assert [list(row) for row in results_to_rows(results)] == [list(RESULT_COLUMNS)] * count


def test_parquet_of_several_batches(tmp_path: Path) -> None:
    lines, path = tmp_path / "lines", tmp_path / "results.parquet"
    lines.write_bytes(b"".join(b'{"n": %d}\n' % i for i in range(2 * ROWS + 1)))
    write_table(str(lines), str(path))
    assert parquet.read_table(path)["n"].to_pylist() == [*range(2 * ROWS + 1)]


def test_what_is_checked_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_table(str(tmp_path / "a.csv"))
    check_table(str(tmp_path / "a.parquet"))
    with pytest.raises(UsageError, match="its directory does not exist, or is not writable"):
        check_table(str(tmp_path / "none" / "a.csv"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match="is not a regular file"):
        check_table(str(tmp_path / "folder.csv"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # As where it is not installed.
    with pytest.raises(UsageError, match="needs the extra table; "):
        check_table(str(tmp_path / "a.parquet"))
    check_table(str(tmp_path / "a.csv"))
