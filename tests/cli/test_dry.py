"""``evaluate --dry-run``."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS
from tests.cli.judged import KEY, PRICES, config, serving
from tests.cli.support import ROOT, from_jsonl, run
from tests.judged.support import response, templates

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.support import Folder

EXAMPLES = [str(ROOT / "examples" / name) for name in ("reference.yaml", "responses.jsonl")]


@pytest.fixture(autouse=True)
def _within_the_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which would show what is written."""
    monkeypatch.chdir(folder.path)


@pytest.fixture
def dry(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a dry run prints, which writes no file."""

    def run_dry(*arguments: str) -> str:
        before = {name: os.stat(name).st_mtime_ns for name in os.listdir()}
        assert run("evaluate", *arguments, "--dry-run") == 0
        assert {name: os.stat(name).st_mtime_ns for name in os.listdir()} == before
        out, err = capfd.readouterr()
        assert not err
        return str(out)

    return run_dry


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


JOINT: dict[str, Any] = {
    "answer_correctness": {},
    "retrieval_answer": {"mode": "joint"},
    "retrieval_context": {"mode": "joint"},
    "ragas_answer_correctness": {"mode": "joint", "weights": [1, 0]},
    "faithfulness": {},
    "context_relevance": {},
    "sparql_groundedness": {},
}


@pytest.mark.parametrize(
    ("metrics", "completed", "embedded"),
    [
        pytest.param(
            {"answer_correctness": {}, "answer_relevance": {}}, 5, 5, marks=pytest.mark.ragas
        ),
        (JOINT, 10, 0),
    ],
)
def test_a_run_makes_as_many_calls(
    folder: Folder, dry: Callable[..., str], metrics: dict[str, Any], completed: int, embedded: int
) -> None:
    # One of each, since equal calls that happen to be in flight together are one call.
    responses = from_jsonl(Path(EXAMPLES[1]).read_bytes())
    one_of_each = {response["question_id"]: response for response in responses}.values()
    names = [EXAMPLES[0], folder.lines(*one_of_each)]
    shown = dry(*names, "-c", config(folder.path, None, **metrics))
    with serving() as server:
        path = config(folder.path, server, **metrics)
        assert run("evaluate", *names, "-o", "out", "-c", path) == 0
        paths = [request.path for request in server.requests]
        sizes = sum(
            len(request.raw) for request in server.requests if request.path.endswith("completions")
        )
    completions = number(r"(\d+) completions of gpt-4o-mini\n", shown)
    assert completions == paths.count("/v1/chat/completions") > completed
    embeddings = number(r"(\d+) embeddings of text-embedding-3-small\n", shown)
    assert embeddings == paths.count("/v1/embeddings") >= embedded
    sent, embedded = (int(n) for n in re.findall(r"input: about (\d+) tokens", shown))
    assert 0.5 < sent / (sizes / 4) < 1.5
    tokens_out = number(r"output: (\d+) tokens, if each has 250\n", shown)
    assert tokens_out == completions * ASSUMED_OUTPUT_TOKENS
    cost = number(r"cost: about \$([\d.]+)\n", shown)
    tokens = zip((sent, tokens_out, embedded), PRICES.values(), strict=True)
    assert cost == pytest.approx(sum(n * price for n, price in tokens) / 1e6, rel=1e-3)
    parts = dict(re.findall(r"^    (\w+): \$([\d.]+)$", shown, re.MULTILINE))
    assert {*parts} == {*metrics}
    assert sum(map(float, parts.values())) == pytest.approx(cost, rel=0.01)
    limits = {"budget_usd": cost * 3.5 / len(one_of_each)}
    shown = dry(*names, "-c", config(folder.path, None, llm={"limits": limits}, **metrics))
    assert f"enough for about 3 of these {len(one_of_each)} responses\n" in shown


@pytest.mark.ragas
@pytest.mark.parametrize(("mode", "requests"), [("joint", [4, 6, 7]), ("ragas", [17, 19, 23])])
def test_the_requests_for_a_record_with_five_documents(
    mode: str, requests: list[int], folder: Folder, dry: Callable[..., str]
) -> None:
    reference = folder.path / "five.json"
    reference.write_text(json.dumps(templates(1, 5)))
    metrics: dict[str, Any] = {"answer_correctness": {}, "answer_relevance": {"mode": mode}}
    more: list[dict[str, Any]] = [
        {"retrieval_answer": {"mode": mode}, "retrieval_context": {"mode": mode}},
        {"faithfulness": {}, "context_relevance": {}},
        {"ragas_answer_correctness": {"mode": mode}},
    ]
    for added, expected in zip(more, requests, strict=True):
        metrics |= added
        shown = dry(
            str(reference), folder.lines(response(0, 5)), "-c", config(folder.path, None, **metrics)
        )
        calls = [number(rf"(\d+) {kind} of ", shown) for kind in ("completions", "embeddings")]
        assert sum(calls) == expected


def test_model_of_the_command_line(
    dry: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    shown = dry(*EXAMPLES, "--llm", "openai/gpt-4o")
    assert number(r"(\d+) completions of gpt-4o\n", shown)
