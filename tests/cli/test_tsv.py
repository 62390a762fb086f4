from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async.cli.tsv import (
    OUT,
    Answer,
    Output,
    encode,
    read_answers,
    read_written,
)
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.tabular import FORMULA_STARTS, escape_formula

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "Question\tReference answer\tActual answer\n"
TEXTS = st.text(st.sampled_from('ab"\t\n\r ,\ufeff\x85\u2028\x00é\U0001f600'), max_size=6) | st.text(
    max_size=3
)
SMALL = settings(max_examples=150)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table.tsv"


def answers(path: Path, text: str | bytes) -> list[Answer]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_answers(str(path))


def texts(path: Path, text: str | bytes) -> list[tuple[str, str, str]]:
    rows = answers(path, text)
    assert not any(row.problem for row in rows)
    return [row[:3] for row in rows]


def test_rows_as_spreadsheets_write_them(path: Path) -> None:
    text = (
        "\ufeffid\tActual answer\tnote\tQuestion\tReference answer\r\n"
        '1\t"two\r\nlines"\t\t"a ""quoted"" one"\t"a\tb"\r\n'
        "\r\n"
        '2\tsays "yes"\t"x"\t?\t\'r\'\r\n'
    )
    assert texts(path, text) == [
        ('a "quoted" one', "a\tb", "two\r\nlines"),
        ("?", "'r'", 'says "yes"'),
    ]


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n"])
def test_the_last_line(path: Path, end: str) -> None:
    assert texts(path, f"{HEADER}q\tr\ta{end}") == [("q", "r", "a")]
    assert texts(path, f'{HEADER}q\tr\t"a\n"{end}') == [("q", "r", "a\n")]


def test_fields_of_any_size(path: Path) -> None:
    long = "x" * (1 << 18)
    assert texts(path, f"{HEADER}q\tr\t{long}\n") == [("q", "r", long)]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("q\tr\t", "no actual answer"),
        ("q\t\ta", "no reference answer"),
        ("q\t \t\u00a0", "no reference answer and no actual answer"),
        ("q", "no reference answer and no actual answer"),
        ("\t\t", "no question and no reference answer and no actual answer"),
        ("q\tr\ta\tb", "the row has 4 cells, but there are 3 columns"),
        ("\tr\ta", "no question"),
        ("q\tr\ta\t\t ", None),
    ],
)
def test_rows_that_cannot_be_judged(path: Path, row: str, problem: str | None) -> None:
    (answer,) = answers(path, f"{HEADER}{row}\n")
    assert answer.problem == problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has no column 'Question'"),
        ("\n\n", "has no column 'Question'"),
        ("Question\tReference answer\tActual Answer\n", "has no column 'Actual answer'; its columns are 'Q"),
        ("Question,Reference answer,Actual answer\n", "has no column 'Question'"),
        ("Question\tActual answer\n", "has no column 'Reference answer'"),
        (HEADER.replace("\n", "\tQuestion\n"), "has more than one column 'Question'"),
        (HEADER + 'q\tr\t"a\nq\tr\ta\n', "line 3: a quoted field does not end where the cell does"),
        (HEADER + 'q\tr\t"', "line 2: a quoted field does not end"),
        (HEADER + 'q\t"Oslo\ta\nq\tB"ergen\ta\n', "line 3: a quoted field does not end"),
        (HEADER + 'q\t"Oslo" T1\ta\n', "line 2: a quoted field does not end"),
        (HEADER.encode() + b"q\tr\t\xff\n", "is not UTF-8: invalid start byte at byte"),
        (HEADER.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_tables_without_the_columns(path: Path, text: str | bytes, problem: str) -> None:
    with pytest.raises(UsageError) as error:
        answers(path, text)
    assert str(path) in str(error.value)
    assert problem in str(error.value)


@SMALL
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS)))
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_output_of_the_csv_module_is_read(path: Path, end: str, rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, "excel-tab", lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("Question", "Reference answer", "Actual answer"), *rows])
    assert [row[:3] for row in answers(path, text.getvalue().encode("utf-8-sig", "surrogatepass"))] == rows


def rows_of(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode(), newline=""), "excel-tab"))


@given(st.lists(TEXTS, min_size=5, max_size=5))
def test_written_files_can_be_read(cells: list[str]) -> None:
    data = encode(cells)
    assert rows_of(data) == [cells]
    assert data.endswith(b"\n")
    assert data.count(b"\r") == "".join(cells).count("\r")


def test_half_a_character_is_written_somehow() -> None:
    assert encode(["\ud800"]) == b"\\ud800\n"


CELLS = st.tuples(*[TEXTS] * 5)


@SMALL
@given(rows=st.lists(CELLS, max_size=4), more=st.integers(0, 2), cut=st.floats(0, 1))
def test_a_file_cut_anywhere_is_gone_on_with(
    path: Path, rows: list[tuple[str, ...]], more: int, cut: float
) -> None:
    encoded = [encode(row) for row in (OUT, *rows)]
    whole = b"".join(encoded)
    length = round(cut * len(whole))
    path.write_bytes(whole[:length])
    done, _ = read_written(str(path), len(rows) + more)
    ends = [len(b"".join(encoded[: i + 1])) for i in range(len(encoded))]
    assert done == sum(end <= length for end in ends[1:])
    with Output(str(path), len(rows), escape_formulas=False) as output:
        for row in rows[done:]:
            output.write(row)
        assert output.consumed == output.size
    assert path.read_bytes() == whole


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_spreadsheet_may_have_saved_it(path: Path, bom: bytes, end: bytes) -> None:
    whole = bom + b"".join(encode(row).replace(b"\n", end) for row in (OUT, "12345", "12345"))
    for torn in (b"", b"1\t2", b'1\t2\t3\t4\t"5\n', b"1\t2\t3\t4\t5\r", b"1\t2\t3\t4\n", b"\n"):
        path.write_bytes(whole + torn)
        assert read_written(str(path), 3) == (2, len(whole))


@given(st.lists(TEXTS, min_size=5, max_size=5))
def test_no_cell_begins_a_formula(cells: list[str]) -> None:
    for cell in cells:
        for formula in (cell, f"={cell}", f"+{cell}", f"-{cell}", f"@{cell}", f"\uff1d{cell}"):
            shown = escape_formula(formula)
            assert shown in (formula, f"'{formula}")
            assert shown[:1] not in ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b")
            assert (shown == formula) == (formula[:1] not in FORMULA_STARTS or not formula)


def test_no_file(path: Path) -> None:
    assert read_written(str(path), 3) == (0, 0)


ROW = b"1\t1\t1\t\t\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"notes\n", "with another header than #Reference, #PTarget"),
        (b"\n", "with another header than"),
        (b"#Reference\t#Other", "with another header than"),
        (encode(["#PTarget", *OUT[2:], "#Reference"]) + ROW, "with another header than"),
        (encode([*OUT, "more"]), "with another header than"),
        (b'"', "with another header than"),
        (encode(OUT) + ROW * 4, "with more rows than the input, which has 3"),
        (encode(OUT) + ROW * 3 + b"1\t", "with more rows than the input"),
        (encode(OUT) + ROW + b"1\t1\n" + ROW, "its row 2 was not written by this command"),
        (encode(OUT) + b'"1"1\t1\t1\t\t\n' + ROW, "its row 1 was not"),
        (encode(OUT) + b"\n" + ROW, "its row 1 was not"),
    ],
)
def test_output_of_another_input_is_refused(path: Path, content: bytes, problem: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_written(str(path), 3)
    assert problem in str(error.value)
    assert path.read_bytes() == content


def test_all_rows_may_be_there(path: Path) -> None:
    path.write_bytes(encode(OUT) + ROW * 3 + b"\n")
    assert read_written(str(path), 3) == (3, len(encode(OUT) + ROW * 3))


def test_a_row_is_on_disk_once_it_is_written(path: Path) -> None:
    with Output(str(path), 2) as output:
        assert rows_of(path.read_bytes()) == [[*OUT]]
        output.write("12345")
        assert rows_of(path.read_bytes()) == [[*OUT], [*"12345"]]
        assert (output.consumed, output.size) == (1, 2)


def test_a_longer_file_is_cut(path: Path) -> None:
    path.write_bytes(encode(OUT) + ROW + b"1\t")
    with Output(str(path), 9) as output:
        assert output.consumed == 1
    assert path.read_bytes() == encode(OUT) + ROW
