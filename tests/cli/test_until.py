"""``evaluate --until`` and ``--shuffle``."""

from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import COLOURS, ODD, failed, finish, response, run, start, to_jsonl
from tests.deadlines import join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cli.support import Folder

SORTED = [response("q3")] * 600 + [response("q1", False)] * 300 + [response("q2", False)] * 100
"""Sorted by template: a share of 0.6 is right."""


IN_ORDER = (
    "--until: standard input, pipes and compressed files are read in their order: if they are sorted, only "
    "their beginning decides"
)


def evaluate(folder: Folder, *options: str, items: Sequence[object] | None = None) -> int:
    responses = folder.lines(*(SORTED if items is None else items))
    return run("evaluate", folder.reference, responses, "-o", folder.file("results.jsonl"), *options)


@pytest.mark.parametrize(
    ("condition", "code", "found"),
    [
        ("steps_score >= 0.4", 0, "holds"),
        ("steps_score>0.4", 0, "holds"),
        ("steps_score < 0.8", 0, "holds"),
        ("steps_score >= 0.8", 1, "does not hold"),
        ("steps_score <= 0.4", 1, "does not hold"),
        (f"{ODD}:steps_score >= 0.9", 0, "holds"),
        (f"{COLOURS}:steps_score >= 0.9", 1, "does not hold"),
    ],
)
def test_it_ends_when_it_is_decided(
    folder: Folder, capfd: pytest.CaptureFixture[str], condition: str, code: int, found: str
) -> None:
    assert evaluate(folder, "--until", condition, "--aggregates", folder.file("aggregates.json")) == code
    out, err = capfd.readouterr()
    count = len(folder.read("results.jsonl"))
    assert 10 < count < 500
    *_, decided, saved = out.splitlines()
    summary = next(line for line in out.splitlines() if line.startswith("results: "))
    assert summary.startswith(f"results: {count}, rejected lines: 0, questions without a response so far: ")
    template = condition.rpartition(":")[0]
    counted = [each for each in folder.read("results.jsonl") if template in {"", each["template_id"]}]
    asked = {each["question_id"] for each in counted}
    told = f"decided after {len(counted)} responses to {len(asked)} questions: {condition} {found} (95 %: "
    assert decided.startswith(told)
    assert saved == f"skipped: {1000 - count} responses"
    aggregates = orjson.loads((folder.path / "aggregates.json").read_bytes())
    decision = aggregates.pop("decision")
    assert (decision["condition"], decision["holds"]) == (condition, found == "holds")
    assert (decision["responses"], decision["remaining"]) == (len(counted), 1000 - count)
    assert f"(95 %: {decision['low']:.4g} to {decision['high']:.4g}; " in decided
    assert aggregates.keys() == {"per_template", "micro", "macro"}
    order = ["--until: read in a shuffled order (--shuffle 0), since files are often sorted"]
    assert err.splitlines() == order + [f"gate failed: {condition}: decided so"] * code


def test_undecided_conditions_fail(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert evaluate(folder, "--until", "steps_score > 0.5", items=[*[response("q1")] * 5, failed("q3")]) == 1
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith(
        "not decided after 6 responses to 2 questions: steps_score > 0.5 is open (95 %: 0.1"
    )
    assert out.splitlines()[-1].endswith("; 6 samples, 1 of them failed)")
    assert "questions without a response: 1 of 3" in out
    assert err.splitlines()[-1] == "gate failed: steps_score > 0.5: not decided"


def test_the_level(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    counts = []
    for level in ("0.8", "0.95", "0.9999999"):
        assert evaluate(folder, "--until", "steps_score < 0.8", "--level", level) == 0
        counts.append(len(folder.read("results.jsonl")))
    assert counts == sorted({*counts})
    assert "(99.99999 %: 0." in capfd.readouterr().out


def test_another_order(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    counts = set()
    for seed in ("0", "1", "2", "3"):
        evaluate(folder, "--until", "steps_score < 0.75", "--shuffle", seed)
        counts.add(len(folder.read("results.jsonl")))
    assert len(counts) > 1
    assert not capfd.readouterr().err


def test_shuffled_to_the_end(folder: Folder) -> None:
    orders = []
    for _ in range(2):
        items = [response("q1", id=str(i)) for i in range(100)]
        assert evaluate(folder, "--shuffle", "5", "--ordered", items=items) == 0
        orders.append([result["response_id"] for result in folder.read("results.jsonl")])
    assert orders[0] == orders[1] != sorted(orders[0], key=int)
    assert sorted(orders[0], key=int) == [str(i) for i in range(100)]


def test_standard_input_has_its_order(folder: Folder) -> None:
    process = start("evaluate", folder.reference, "-", "--until", "steps_score > 0.8", stdin=-1)
    code, out, err = finish(process, to_jsonl(SORTED[:100]))
    assert code == 0
    assert 10 < len(out.splitlines()) < 100
    assert IN_ORDER in err
    assert "skipped:" not in err


@pytest.mark.parametrize("kind", ["gzip", "pipe", "directory"])
def test_unshufflable_input_keeps_its_order(
    folder: Folder, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """It is decided by the first template alone, which comes first."""
    name = {"gzip": "r.jsonl.gz", "pipe": "r", "directory": "logs/r.jsonl.gz"}[kind]
    path = folder.path / name
    path.parent.mkdir(exist_ok=True)
    writer = threading.Thread(target=path.write_bytes, args=[to_jsonl(SORTED[:100])])
    if kind == "pipe":
        os.mkfifo(path)
        writer.start()
    else:
        path.write_bytes(gzip.compress(to_jsonl(SORTED[:100])))
    source = str(path.parent if kind == "directory" else path)
    options = ["-o", folder.file("results.jsonl"), "--until", "steps_score > 0.8"]
    assert run("evaluate", folder.reference, source, *options) == 0
    assert IN_ORDER in capfd.readouterr().err
    assert 10 < len(folder.read("results.jsonl")) < 100
    if kind == "pipe":
        join(writer)
    else:
        code = run("evaluate", folder.reference, source, *options, "--shuffle", "1")
        out, err = capfd.readouterr()
        assert "cannot be shuffled" in err
        # A given file is refused before anything else; what is in a directory is found out later.
        assert (code, "all results" in out) == ((2, False) if kind == "gzip" else (4, True))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--until", "steps_score"], "expected [TEMPLATE:]METRIC >= VALUE"),
        (["--until", "elapsed_sec < 0.5"], "'elapsed_sec' is none of the metrics from 0 to 1: steps_score, "),
        (["--until", "nobody:steps_score > 0.5"], f"no template 'nobody'; there are: {COLOURS}, {ODD}"),
        (["--until", "answer_f1 > 0.5"], "answer_f1 is not judged"),
        (["--until", "steps_score > 0.5", "--level", "95"], "expected a number between 0 and 1"),
        (
            ["--until", "steps_score > 0.5", "--gate", "missing_rate <= 0.1"],
            "missing_rate cannot be a gate with --until",
        ),
        (["--until", "steps_score > 0.9", "--until", "steps_score > 0.1"], "one condition only, got 2"),
        (["--until", "steps_score >= 40%"], "'40%' is not a finite number"),
        (["--shuffle", "-1"], "-1"),
    ],
)
def test_invalid_values(
    folder: Folder, capfd: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    assert evaluate(folder, *options) == 2
    assert told in capfd.readouterr().err
    assert not (folder.path / "results.jsonl").exists()


def test_standard_input_cannot_be_shuffled(
    folder: Folder, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert run("evaluate", folder.reference, "-", "--shuffle", "1") == 2
    assert "- cannot be shuffled" in capfd.readouterr().err


def test_position_is_restored(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--until", "steps_score >= 0.8", "--resume")
    assert evaluate(folder, *options) == 1
    first, results = capfd.readouterr().out.splitlines()[-2:], folder.read("results.jsonl")
    assert evaluate(folder, *options) == 1
    assert capfd.readouterr().out.splitlines()[-2:] == first
    assert folder.read("results.jsonl") == results
