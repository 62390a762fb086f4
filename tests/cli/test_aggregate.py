from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import compute_aggregates, run_evaluation
from tests.cli.support import COLOURS, ODD, REFERENCE, Folder, failed, response, run, to_jsonl

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
