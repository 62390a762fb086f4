"""``sample-for-labels`` and ``calibrate``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tests.cli.support import Folder, run
from tests.inference.labelled import label, result

if TYPE_CHECKING:
    import pytest


def results(folder: Folder, count: int = 150) -> str:
    """Results of a judge that is too strict to every fifth answer; all are right but every
    third.
    """
    return folder.lines(
        *[
            result(
                i, float(i % 3 > 0 and i % 5 > 0), actual_answer=f"\u202e{i}", reference_answer="a"
            )
            for i in range(count)
        ],
        name="results.jsonl",
    )


def fill(folder: Folder, name: str = "labels.jsonl") -> str:
    filled = [each | {"value": int(each["question_id"][1:]) % 3 > 0} for each in folder.read(name)]
    return folder.lines(*filled, name=name)


def test_from_the_draw_to_the_corrected_mean(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    path, labels = results(folder), folder.file("labels.jsonl")
    assert run("sample-for-labels", path, "-n", "120", "--seed", "7", "-o", labels) == 0
    assert capfd.readouterr() == ("", "drawn: 120 of 150 results with answer_correctness\n")
    drawn = folder.read("labels.jsonl")
    lines = {hashlib.sha256(line).hexdigest() for line in Path(path).read_bytes().splitlines()}
    assert {each["sha256"] for each in drawn} < lines

    assert run("calibrate", path, labels) == 2
    assert "labels: none has a value, 120 are null; fill in `value`" in capfd.readouterr().err

    output = folder.file("found.json")
    assert run("calibrate", path, fill(folder), "-o", output) == 0
    out, err = capfd.readouterr()
    assert out.startswith(
        "answer_f1: mean 0.5333 of 150 results by the judge; 120 of them have a label,\n"
    )
    assert "Corrected mean, as people would see it: 0.6" in out
    assert "Judge and people: kappa 0.7" in out
    assert not err
    assert orjson.loads(Path(output).read_bytes())["overall"]["specificity"] == 1


def test_broken_and_unused_labels(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [label(1, True), label(1, 1), label(2, 0.5), label(3, 7), label("x", 1), *[b"{"] * 11]
    labels = folder.lines(*lines, name="labels.jsonl")
    assert run("calibrate", results(folder), labels) == 3
    out, err = capfd.readouterr()
    assert f"{labels}: line 4 (byte " in err
    assert "value: must be a number from 0 to 1" in err
    # It has no --rejects.
    assert "... and 2 more\nrejected: 1 invalid_field, 11 invalid_json" in err
    told = " ".join(out.split())
    assert (
        "not used: 1 label for a question that the results do not have; check `question_id`" in told
    )
