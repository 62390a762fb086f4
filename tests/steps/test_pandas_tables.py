"""Tables as pandas prints them, with and without the numbers of rows; recorded from pandas 3."""

from __future__ import annotations

import pytest

from graphrag_eval_async.catalogue.media_types import CSV
from tests.steps.support import query, result_of, score_of

SHORT = "item,n\nQ42,5\nQ1,6\n"
TEXTS = "title,total minutes,label\nThe Big Lebowski,Anna Bell,69\nL 20,Bo Li,34\n"
ONE = "label\na\nM 1931\nQ42\n"
DATES = "personLabel\n2011-06-11\n2011-08-11\n"

PRINTED_TEXTS = """\
              title total minutes  label
0  The Big Lebowski     Anna Bell     69
1              L 20         Bo Li     34"""

PRINTED_WITHOUT_NUMBERS = """\
           title total minutes  label
The Big Lebowski     Anna Bell     69
            L 20         Bo Li     34"""

PRINTED = {
    "one-blank-after-numbers": (SHORT, "  item  n\n0  Q42  5\n1   Q1  6"),
    "without-numbers": (SHORT, "item  n\n Q42  5\n  Q1  6"),
    "texts": (TEXTS, PRINTED_TEXTS),
    "texts-without-numbers": (TEXTS, PRINTED_WITHOUT_NUMBERS),
    "one-column": (ONE, "    label\n0       a\n1  M 1931\n2     Q42"),
    "one-column-of-short-cells": ("label\nL1\nL2\n", "  label\n0    L1\n1    L2"),
    "one-column-without-numbers": (ONE, " label\n     a\nM 1931\n   Q42"),
    "dates-without-numbers": (DATES, "personLabel\n 2011-06-11\n 2011-08-11"),
    "one-row": ("a,count,year\nUp,Jaws,Q42\n", "    a count year\n0  Up  Jaws  Q42"),
    "twelve-rows": (
        "item\n" + "".join(f"Q{number}\n" for number in range(12)),
        "   item\n" + "\n".join(f"{number:<3}{f'Q{number}':>4}" for number in range(12)),
    ),
    "json-of-one-column": (ONE, '{"label":{"0":"a","1":"M 1931","2":"Q42"}}'),
}


@pytest.mark.parametrize("name", PRINTED)
def test_a_data_frame_as_pandas_prints_it(name: str) -> None:
    expected, output = PRINTED[name]
    assert score_of(query(expected, output_media_type=CSV), output) == 1
    *rows, last_row = expected.splitlines()
    other = "\n".join([*rows, f"{last_row}9"])
    assert score_of(query(other, output_media_type=CSV), output) == 0


def test_numbers_from_0_below_a_name_are_a_column() -> None:
    assert score_of(query("n,x\n0,5\n1,6\n", output_media_type=CSV), " n  x\n 0  5\n 1  6") == 1


@pytest.mark.parametrize(
    "output",
    [
        pytest.param("   item\n0    Q1\n..  ...\n9    Q9\n\n[10 rows x 1 columns]", id="rows"),
        pytest.param("  item  ...  n\n0  Q42  ...  5\n1   Q1  ...  6", id="columns"),
    ],
)
def test_a_shortened_data_frame_is_named(output: str) -> None:
    result = result_of(query("item\nQ1\nQ9\n", output_media_type=CSV), output)
    assert result["steps_score"] == 0
    assert "the table is shortened" in result["failure_detail"]


def test_an_aligned_table_that_is_too_long_is_named() -> None:
    lines = "".join(f"{number:<12}{number}\n" for number in range(60_000))
    result = result_of(query("a,b\n1,1\n", output_media_type=CSV), f"a           b\n{lines}")
    assert result["steps_score"] == 0
    assert "too long to be read; write CSV or JSON" in str(result["steps_score_error"])
