from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.cli.support import REFERENCE, Folder, failed, response, run, to_jsonl
from tests.support.cases import each

if TYPE_CHECKING:
    import pytest

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


@each("options", [["--jobs", "2", "--gate", "missing_rate <= 0"], ["--include-errors"]])
def test_shards_in_any_order_give_the_same(folder: Folder, options: list[str]) -> None:
    results = asyncio.run(run_evaluation(REFERENCE, RESPONSES, missing="skip"))
    shards = [folder.lines(*results[a::2], name=f"shard{a}") for a in (1, 0)]
    code, snapshot = aggregates(folder, *shards, "--reference", folder.reference, *options)
    expected = compute_aggregates(
        results, reference=REFERENCE, include_errors="--include-errors" in options, detail=True
    )
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
    first = folder.write("first", b"\xef\xbb\xbf\r\n \n" + to_jsonl([GOOD, *[line for line, _ in BAD]]))
    second = folder.write("second", b"nonsense\n" + orjson.dumps(GOOD))
    code, snapshot = aggregates(folder, first, second, "--rejects", folder.file("rejects"))
    assert code == 3
    assert snapshot == compute_aggregates([GOOD, GOOD], detail=True)
    *rejects, last = folder.read("rejects")
    assert [(reject["line"], reject["reason"]) for reject in rejects] == [
        (line, reason) for line, (_, reason) in enumerate(BAD, start=4)
    ]
    assert {reject["file"] for reject in rejects} == {first}
    assert (last["file"], last["line"], last["offset"], last["content"]) == (second, 1, 0, "nonsense")


def test_standard_input_is_read_only_once(capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["aggregate"], ["plot", "-o", "page.svg"], ["plan", "--detect", "0.1"], ["compare"]):
        assert run(*command, "-", "-") == 2
        assert capfd.readouterr().err == "Error: only one of the inputs can come from standard input (-)\n"
