"""Results that are still being written: the last line may be unfinished."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from graphrag_eval_async import GraphragEvalWarning, compare
from tests.cli.support import run, to_jsonl
from tests.support.comparisons import GOOD, WORSE

if TYPE_CHECKING:
    from tests.cli.support import Folder

LAST = to_jsonl([WORSE[-1] | {"actual_answer": "Caf\u00e9"}])
COMPLETE = to_jsonl(WORSE[:-1])
PLACE = f"line {len(WORSE)} (byte {len(COMPLETE)})"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("compare {baseline} {results}", id="compare"),
        pytest.param("report {results} --baseline {baseline}", id="report"),
        pytest.param("aggregate {results}", id="aggregate"),
        pytest.param("plan {results} --detect 0.1", id="plan"),
        pytest.param("sample-for-labels {results} --metric steps_score", id="sample-for-labels"),
    ],
)
def test_an_unfinished_last_line_is_skipped(
    folder: Folder, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    baseline, path = folder.lines(*GOOD, name="baseline.jsonl"), folder.file("results.jsonl")
    arguments = command.format(baseline=baseline, results=path).split()
    folder.write("results.jsonl", COMPLETE)
    assert run(*arguments) == 0
    expected, err = capfd.readouterr()
    assert "unfinished" not in err
    folder.write("results.jsonl", COMPLETE + LAST[:-20])
    assert run(*arguments) == 0
    out, err = capfd.readouterr()
    assert out == expected
    assert f"{path}: {PLACE}: incomplete: skipped" in err


def test_wherever_it_is_cut_off(folder: Folder) -> None:
    """Also within a character. A line that lacks only its newline is a result."""
    path = folder.file("results.jsonl")
    without, whole = compare(GOOD, WORSE[:-1]), compare(GOOD, WORSE)
    for size in range(1, len(LAST) - 1):
        folder.write("results.jsonl", COMPLETE + LAST[:size])
        with pytest.warns(GraphragEvalWarning, match="incomplete: skipped"):
            assert compare(GOOD, path) == without
    for size in (len(LAST) - 1, len(LAST)):
        folder.write("results.jsonl", COMPLETE + LAST[:size])
        assert compare(GOOD, path) == whole


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        pytest.param("a newline", LAST[:-20] + b"\n", "invalid_json", id="with a newline"),
        pytest.param(
            "a line after it", LAST[:-20] + b"\n" + LAST, "invalid_json", id="with a line after it"
        ),
        pytest.param("no object", b"unfinished", "invalid_json", id="not an object"),
        pytest.param("a value", b"12", "not_an_object", id="a number"),
        pytest.param("another object", b"{}", "invalid_field", id="another object"),
    ],
)
def test_other_lines_are_rejected(
    folder: Folder, capfd: pytest.CaptureFixture[str], name: str, content: bytes, told: str
) -> None:
    baseline = folder.lines(*GOOD, name="baseline.jsonl")
    path = folder.write("results.jsonl", COMPLETE + content)
    assert run("compare", baseline, path) == 3, name
    assert f"{path}: {PLACE}: {told}: " in capfd.readouterr().err


def test_a_compressed_file_does_not_grow(folder: Folder) -> None:
    baseline = folder.lines(*GOOD, name="baseline.jsonl")
    path = folder.write("results.jsonl.gz", gzip.compress(COMPLETE + LAST[:-20]))
    assert run("compare", baseline, path) == 3


def test_labels_do_not_grow(folder: Folder) -> None:
    """People write them, so what is no JSON is a mistake."""
    results = folder.lines(*GOOD, name="results.jsonl")
    labels = [
        {"question_id": each["question_id"], "metric": "steps_score", "value": 1} for each in GOOD
    ]
    path = folder.write("labels.jsonl", to_jsonl(labels) + b'{"question_id": "x", "value": tru')
    assert run("calibrate", results, path) == 3
