from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.cases import each
from tests.cli.support import COLOURS, ODD, REFERENCE, Folder, failed, response, run, to_jsonl

if TYPE_CHECKING:
    from pathlib import Path

RESPONSES = [
    response("q3"),
    response("q1"),
    response("q2", False, elapsed_sec=0.1),
    failed("q2"),
    response("q1", False, input_tokens=2**64 - 1),
]


def evaluated(responses: list[Any]) -> list[dict[str, Any]]:
    return asyncio.run(run_evaluation(REFERENCE, responses, missing="skip"))


def aggregates(folder: Folder, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run("aggregate", *arguments, "--aggregates", folder.file("a.json"))
    snapshot: dict[str, Any] = orjson.loads((folder.path / "a.json").read_bytes())
    return code, snapshot


@given(
    cuts=st.lists(st.integers(0, len(RESPONSES)), max_size=3),
    order=st.permutations(range(len(RESPONSES))),
    errors=st.booleans(),
)
@settings(max_examples=25)
def test_shards_of_any_cut_give_the_same(
    tmp_path: Path, cuts: list[int], order: list[int], errors: bool
) -> None:
    folder = Folder(tmp_path)
    results = evaluated(RESPONSES)
    bounds = [0, *sorted(cuts), len(results)]
    shuffled = [results[i] for i in order]
    shards = [folder.lines(*shuffled[a:b], name=f"shard{i}") for i, (a, b) in enumerate(pairwise(bounds))]
    options = ["--include-errors"] if errors else []
    code, snapshot = aggregates(folder, *shards, "--reference", folder.reference, *options)
    expected = compute_aggregates(results, reference=REFERENCE, include_errors=errors, detail=True)
    assert (code, snapshot) == (0, expected)
    assert list(snapshot["per_template"]) == [COLOURS, ODD]


def test_aggregate_equals_evaluate(folder: Folder) -> None:
    deep: Any = 0
    for _ in range(198):
        deep = [deep]
    responses = folder.lines(*RESPONSES, response("q1", note=deep, **{"\u2028\u0085": "\u2028"}))
    outputs = ["-o", folder.file("r"), "--aggregates", folder.file("e.yaml")]
    assert run("evaluate", folder.reference, responses, *outputs) == 0
    options = ["--reference", folder.reference, "--aggregates", folder.file("a.yaml")]
    assert run("aggregate", folder.file("r"), *options) == 0
    assert (folder.path / "a.yaml").read_bytes() == (folder.path / "e.yaml").read_bytes()


def test_without_a_reference_templates_stand_by_name(
    folder: Folder, capfd: pytest.CaptureFixture[str]
) -> None:
    code, snapshot = aggregates(folder, folder.lines(*evaluated(RESPONSES)))
    assert code == 0
    assert list(snapshot["per_template"]) == [ODD, COLOURS]
    out, err = capfd.readouterr()
    assert out.splitlines()[-3:] == [
        "results: 5, rejected lines: 0",
        "failure: 2 wrong_query_result, 1 no_steps",
        "worst questions by steps_score: q2 (0, 1 of 2 errors), q1 (0.5)",
    ]
    assert not err


def test_missing_questions_need_a_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    results = folder.lines(*evaluated(RESPONSES[:1]))
    gate = ["--gate", f"{ODD}:missing_rate <= 0"]
    assert run("aggregate", results, *gate) == 2
    out, err = capfd.readouterr()
    assert (out, err) == ("", "Error: a gate on missing_rate needs --reference REFERENCE\n")
    assert run("aggregate", results, *gate, "--reference", folder.reference) == 0
    assert "questions without a response: 2 of 3" in capfd.readouterr().out


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


GOOD = {"template_id": "t", "question_id": "q", "status": "success", "input_tokens": 1}

BAD = [
    (b"{", "invalid_json"),
    (b"\xff", "invalid_utf8"),
    (b"[]", "not_an_object"),
    (b"1", "not_an_object"),
    (b"{}", "invalid_field"),
    (orjson.dumps(response("q1")), "not_a_result"),
    (orjson.dumps({**GOOD, "status": "fine"}), "invalid_field"),
    (orjson.dumps({**GOOD, "steps_score": "1"}), "invalid_field"),
    (orjson.dumps({**GOOD, "actual_steps": {}}), "invalid_field"),
    (b'{"template_id": "t", "input_tokens": 1' + b"0" * 9999 + b"}", "invalid_json"),
    (b'{"template_id": "t", "x": ' + nested(201) + b"}", "too_deep"),
    (nested(900), "too_deep"),
    (nested(100_000), "too_deep"),
    (orjson.dumps({**GOOD, "x": "n" * 250_000}), "too_long"),
]


def test_invalid_results_are_rejected(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    first = folder.write("first", b"\xef\xbb\xbf\r\n \n" + to_jsonl([GOOD, *[line for line, _ in BAD]]))
    second = folder.write("second", b"nonsense\n" + orjson.dumps(GOOD))
    options = ["--max-line-bytes", "200000", "--rejects", folder.file("rejects")]
    code, snapshot = aggregates(folder, first, second, *options)
    assert code == 3
    assert snapshot == compute_aggregates([GOOD, GOOD], detail=True)
    *rejects, last = folder.read("rejects")
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (line, reason) for line, (_, reason) in enumerate(BAD, start=4)
    ]
    assert {reject["file"] for reject in rejects} == {first}
    assert (last["file"], last["line"], last["offset"], last["content"]) == (second, 1, 0, "nonsense")
    assert capfd.readouterr().err.startswith("rejected: ")


def test_rejects_are_listed_with_their_file(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    shards = [folder.lines(*[b"{"] * 6, name=name) for name in ("first", "second")]
    assert run("aggregate", *shards) == 3
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[0].startswith(f"{shards[0]}: line 1 (byte 0): invalid_json: ")
    assert lines[9].startswith(f"{shards[1]}: line 4 (byte 6): invalid_json: ")
    assert lines[10] == "... and 2 more; --rejects FILE keeps all of them"
    assert lines[11] == "rejected: 12 invalid_json"


@pytest.mark.parametrize("question_id", [None, 1, ["q1"], {}])
def test_a_result_of_no_question_counts(folder: Folder, question_id: Any) -> None:
    results = folder.lines({**GOOD, "question_id": question_id})
    code, snapshot = aggregates(folder, results, "--reference", folder.reference)
    assert code == 0
    assert snapshot["micro"]["number_of_success_samples"] == 1


@each(
    "arguments",
    [
        ["aggregate", "-", "-"],
        ["plot", "-", "-", "-o", "page.svg"],
        ["plan", "--detect", "0.1", "-", "-"],
        ["compare", "-", "-"],
    ],
)
def test_standard_input_is_read_only_once(capfd: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(*arguments) == 2
    assert capfd.readouterr().err == "Error: only one of the inputs can come from standard input (-)\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-file"],
        ["results", "no-such-file"],
        ["results", "--reference", "no-such-file"],
        ["results", "--rejects", "results"],
        ["results", "--aggregates", "a"],
        ["results", "--reference", "results"],
    ],
    ids=" ".join,
)
def test_wrong_usage(
    folder: Folder,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    folder.lines(GOOD, name="results")
    assert run("aggregate", *arguments) == 2
    out, err = capfd.readouterr()
    assert not out
    assert "Error: " in err
    assert folder.read("results") == [GOOD]


def test_it_says_why_scores_have_no_value(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    failed = {"template_id": "t", "actual_answer": "a", "answer_eval_error": "timeout: no reply"}
    path = folder.lines(*({**failed, "question_id": f"q{i}"} for i in range(3)), name="results.jsonl")
    assert run("aggregate", path) == 0
    told = "no value of answer_recall, answer_precision, answer_f1: 3 timeout"
    assert told in " ".join(capfd.readouterr().out.split())
