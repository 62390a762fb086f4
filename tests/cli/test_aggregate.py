from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.cli.support import COLOURS, REFERENCE, Folder, failed, response, run, to_jsonl

RESPONSES = [
    response("q3"),
    response("q1"),
    response("q2", False, elapsed_sec=0.1),
    failed("q2"),
    response("q1", False, input_tokens=2**64 - 1),
]


def aggregates(folder: Folder, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run("aggregate", *arguments, "--aggregates", folder.file("a.json"))
    snapshot: dict[str, Any] = orjson.loads((folder.path / "a.json").read_bytes())
    return code, snapshot


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--gate", "missing_rate <= 0"], id="with a gate"),
        pytest.param([], id="without a gate"),
    ],
)
def test_shards_in_any_order_give_the_same(folder: Folder, options: list[str]) -> None:
    results = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    shards = [folder.lines(*results[a::2], name=f"shard{a}") for a in (1, 0)]
    code, snapshot = aggregates(folder, *shards, "--reference", folder.reference, *options)
    expected = compute_aggregates(results, reference=REFERENCE, detail=True)
    assert (code, snapshot) == (0, expected)


GOOD = {"template_id": "t", "question_id": "q", "status": "success", "input_tokens": 1}

BAD = [
    (b"{", "invalid_json"),
    (b"[]", "not_an_object"),
    (orjson.dumps(response("q1")), "not_a_result"),
    (orjson.dumps({**GOOD, "steps_score": "1"}), "invalid_field"),
    (b"[" * 100_000, "too_deep"),
]


def test_invalid_results_are_rejected(folder: Folder) -> None:
    first = folder.write(
        "first", b"\xef\xbb\xbf\r\n \n" + to_jsonl([GOOD, *[line for line, _ in BAD]])
    )
    second = folder.write("second", b"nonsense\n" + orjson.dumps(GOOD))
    code, snapshot = aggregates(folder, first, second, "--rejects", folder.file("rejects"))
    assert code == 3
    assert snapshot == compute_aggregates([GOOD, GOOD], detail=True)
    *rejects, last = folder.read("rejects")
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (line, reason) for line, (_, reason) in enumerate(BAD, start=4)
    ]
    assert {reject["file"] for reject in rejects} == {first}
    assert (last["file"], last["line"], last["offset"], last["content"]) == (
        second,
        1,
        0,
        "nonsense",
    )


def test_results_are_counted_once(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    results, state = folder.file("a.jsonl"), folder.file("a.aggregates")
    options = ["-o", results, "--resume", "--aggregates", state]
    assert run("evaluate", folder.reference, folder.lines(*RESPONSES), *options) == 0
    assert run("aggregate", folder.file("*.aggregates")) == 0
    for command, told in {
        ("aggregate", results, folder.file("./a.jsonl")): "is given twice",
        ("aggregate", state, state): "is given twice",
        ("report", results, results): "is given twice",
        ("aggregate", f"{results}.run"): f"belongs to the journal '{results}'",
        ("aggregate", results, state): "hold the same results; give one of them",
        ("report", state): "holds aggregates, which only `aggregate` reads",
    }.items():
        capfd.readouterr()
        assert run(*command) == 2
        out, err = capfd.readouterr()
        assert (out, told in err) == ("", True), command


def test_gates_on_unknown_names(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    """Results may have metrics of custom evaluations, and need not have all others."""
    custom = {"politeness": 0.5, "judge": {"outputs": ["politeness"]}}
    results = folder.lines({**GOOD, "template_id": COLOURS, **custom})
    report, compare = (
        ["report", results, "--reference", folder.reference],
        ["compare", results, results],
    )
    for command, told in {
        (
            "aggregate",
            results,
            "--gate",
            "POLITENES >= 0.1",
        ): "'POLITENES'; did you mean politeness?",
        (*report, "--gate", "steps_scor >= 0.1"): "'steps_scor'; did you mean steps_score?",
        (
            *report,
            "--gate",
            "colors:missing_rate <= 1",
        ): "'colors' in the reference set; did you mean colours?",
        (*compare, "--max-drop", "steps=0.1"): "'steps'; did you mean steps_score?",
        (*compare, "--non-inferior", "judge=0.1"): "'judge'; ",
        (*compare, "--max-drop", "colours:steps_score=0.1"): "without a template or tag",
        (*compare, "--non-inferior", "steps_score=-1"): "with X not negative",
        (*compare, *(["--non-inferior", "steps_score=0.1"] * 2)): "a metric is given twice",
    }.items():
        assert run(*command) == 2
        out, err = capfd.readouterr()
        assert (out, told in err) == ("", True), command
    for metric, code in {"politeness": 0, "steps_score": 1}.items():
        assert run("aggregate", results, "--gate", f"{metric} >= 0.1") == code
        assert run(*compare, "--max-drop", f"{metric}=0.1") == code


def test_gates_on_repeats(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    results = folder.lines(
        *(
            {**GOOD, "template_id": "t", "sample": i + 1, "steps_score": own}
            for i, own in enumerate((1, 0, 1))
        )
    )
    for gate, code in {
        "pass@2 >= 1": 0,
        "t:pass^2 > 0.3": 0,
        "pass^2 > 0.4": 1,
        "pass@4 >= 0": 1,
        "pass@0 > 0": 2,
        "pass@101 > 0": 2,
    }.items():
        assert [run(command, results, "--gate", gate) for command in ("aggregate", "report")] == [
            code
        ] * 2
    err = capfd.readouterr().err
    told = (
        "pass@4 >= 0: no question has 4 results that are right or wrong; ask each 4 times "
        "(repeats=4)"
    )
    assert told in err
    assert "no metric 'pass@0'" in err


def test_standard_input_is_read_only_once(capfd: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["aggregate"],
        ["plot", "-o", "page.svg"],
        ["plan", "--detect", "0.1"],
        ["compare"],
    ):
        assert run(*command, "-", "-") == 2
        assert (
            capfd.readouterr().err
            == "Error: only one of the inputs can come from standard input (-)\n"
        )
