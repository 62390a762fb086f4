"""Metrics with the prompts of ragas: these prompts byte for byte, and the scores of ragas' own
metrics.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.metrics.judging import make_metric
from graphrag_eval_async.metrics.metric import Case
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts
from tests.metrics.ragas_support import Script, ScriptedJudge, ScriptedLLM, fixed, outcome
from tests.support.deadlines import TEST_SECONDS

from ragas.metrics import collections as ragas  # isort: skip

pytestmark = pytest.mark.ragas

ROOT = Path(__file__).parents[2]
NAME = "ragas_answer_correctness"

SILENT = """
import socket, sys
attempts = []

def refuse(event, args):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
        attempts.append((event, args))
        raise RuntimeError(f"{event} {args}")

sys.addaudithook(refuse)
import asyncio
from graphrag_eval_async.catalogue.judged import JUDGED, JUDGED_BY_NAME
from graphrag_eval_async.metrics.judging import make_metric
for metric in JUDGED:
    make_metric(metric.name, metric.section())
loaded = {"ragas", "pydantic", "numpy", "openai"} & {*sys.modules}
assert not loaded, loaded

import ragas._analytics  # As a user may who has ragas: its telemetry is on until we import it.
assert not ragas._analytics.do_not_track()

from tests.metrics.test_ragas import CASE, SCRIPT
from tests.metrics.ragas_support import outcome
for name in ("answer_relevance", "retrieval_answer", "ragas_answer_correctness"):
    keys = asyncio.run(outcome(make_metric(name, JUDGED_BY_NAME[name].section()), CASE, SCRIPT))
    assert keys and not any(key.endswith("error") for key in keys), keys

from ragas import _analytics
_analytics._analytics_batcher._flush_thread.join(100)
assert not _analytics._analytics_batcher._flush_thread.is_alive()
event = _analytics.EvaluationEvent(
    user_id="u", metrics=[], num_rows=1, evaluation_type="SINGLE_TURN", language="english"
)
_analytics._analytics_batcher.add_evaluation(event)
_analytics._analytics_batcher.flush()
_analytics.track(event)
assert not attempts, attempts
"""

ROW = {"statement": "S", "reason": "R"}
SCRIPT = fixed(
    AnswerRelevanceOutput={"question": "Why?", "noncommittal": 0},
    ContextPrecisionOutput={"reason": "R", "verdict": 1},
    ContextRecallOutput={"classifications": [ROW | {"attributed": 1}]},
    StatementGeneratorOutput={"statements": ["S"]},
    ClassificationWithReason={"TP": [ROW], "FP": [], "FN": []},
    NLIStatementOutput={"statements": [ROW | {"verdict": 1}, ROW | {"verdict": 0}]},
)


def step(*texts: str | None, **more: Any) -> dict[str, Any]:
    documents = [{"id": index, "text": text} for index, text in enumerate(texts)]
    return {"name": "retrieval", "status": "success", "output": documents, **more}


CASE = Case("Why?", reference_answer="Because.", actual_answer="So.", actual_steps=[step("T")])


def metric(name: str, **config: Any) -> Any:
    return make_metric(name, JUDGED_BY_NAME[name].section(**config))


def test_ragas_is_imported_on_demand_sends_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    home = {
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment = os.environ | home | {"RAGAS_DO_NOT_TRACK": "false"}
    command = [sys.executable, "-W", "error", "-c", SILENT]
    done = subprocess.run(
        command,
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=environment,
        text=True,
        timeout=TEST_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.rglob("*"))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ragas_prompts("m", "A", "B") == ["ragas 0.4.3 A, B"]
    monkeypatch.setitem(sys.modules, "ragas", None)
    with pytest.raises(ConfigError, match="m: needs the extra ragas; "):
        ragas_prompts("m")


Q = {"question": "Q"}


@pytest.mark.parametrize(
    ("name", "prompt", "data"),
    [
        pytest.param(
            "answer_relevancy",
            "AnswerRelevancePrompt",
            {"response": "R {b} é"},
            id="answer relevancy",
        ),
        pytest.param(
            "answer_correctness",
            "StatementGeneratorPrompt",
            {"question": "Q", "answer": "A"},
            id="correctness statements",
        ),
        pytest.param(
            "answer_correctness",
            "CorrectnessClassifierPrompt",
            {**Q, "answer": ["S"], "ground_truth": []},
            id="correctness verdicts",
        ),
        pytest.param(
            "context_recall",
            "ContextRecallPrompt",
            {**Q, "context": "C\n\0", "answer": "A"},
            id="context recall",
        ),
        pytest.param(
            "context_precision",
            "ContextPrecisionPrompt",
            {**Q, "context": "C", "answer": "A"},
            id="context precision",
        ),
        pytest.param(
            "faithfulness",
            "StatementGeneratorPrompt",
            {"question": "Q", "answer": "A"},
            id="faithfulness statements",
        ),
        pytest.param(
            "faithfulness",
            "NLIStatementPrompt",
            {"context": "C", "statements": ["S", "é"]},
            id="faithfulness verdicts",
        ),
    ],
)
async def test_prompts_are_those_of_ragas(name: str, prompt: str, data: dict[str, Any]) -> None:
    asking = ScriptedJudge(SCRIPT)
    await ask_ragas(asking, name, prompt, **data)
    theirs = getattr(import_module(f"ragas.metrics.collections.{name}.util"), prompt)
    text = theirs().to_string(theirs.input_model(**data))
    assert asking.messages == [[{"role": "user", "content": text}]]


NOT_BINARY = [ROW | {"attributed": 1}, ROW | {"attributed": -1}]


@pytest.mark.parametrize(
    ("name", "model", "reply", "key"),
    [
        pytest.param(
            "answer_relevance",
            "AnswerRelevanceOutput",
            {"question": "a", "noncommittal": 2},
            "noncommittal",
            id="noncommittal",
        ),
        pytest.param(
            "retrieval_answer",
            "ContextPrecisionOutput",
            {"reason": "", "verdict": 0.5},
            "verdict",
            id="verdict",
        ),
        pytest.param(
            "retrieval_answer",
            "ContextRecallOutput",
            {"classifications": NOT_BINARY},
            "attributed",
            id="attributed",
        ),
        pytest.param(NAME, "StatementGeneratorOutput", None, "the reply", id="statements"),
    ],
)
async def test_a_reply_that_does_not_fit_is_an_error(
    name: str, model: str, reply: Any, key: str
) -> None:
    def wrong(title: str, data: Any, repeat: int) -> Any:
        return reply if title == model else SCRIPT.reply(title, data, repeat)

    asking = ScriptedJudge(Script(wrong))
    keys = await outcome(metric(name), CASE, asking)
    # Others are awaited, and paid for.
    assert len(asking.asked) == {"answer_relevance": 3}.get(name, 2)
    (error,) = (text for each, text in keys.items() if each.endswith("_error"))
    assert error.startswith(f"invalid_reply: {key}: ")


# Answer relevance


vectors = st.lists(st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=3)
QUESTIONS = ["", "a", "b", "c", "Why?"]
guesses = st.tuples(st.sampled_from(QUESTIONS), st.integers(0, 1))


@given(
    st.lists(guesses, min_size=1, max_size=5),
    st.fixed_dictionaries(dict.fromkeys(QUESTIONS, vectors)),
)
def test_answer_relevance_agrees_with_ragas(
    guessed: list[tuple[str, int]], table: dict[str, list[float]]
) -> None:
    outputs = [{"question": question, "noncommittal": flag} for question, flag in guessed]
    script = fixed(AnswerRelevanceOutput=outputs)._replace(vector=table.__getitem__)
    llm = ScriptedLLM(script)
    relevancy = ragas.AnswerRelevancy(llm=llm, embeddings=llm, strictness=len(guessed))
    theirs = asyncio.run(relevancy.ascore("Why?", "So.")).value
    asking = ScriptedJudge(script)
    ours = asyncio.run(outcome(metric("answer_relevance", strictness=len(guessed)), CASE, asking))
    questions = [question for question, _ in guessed if question]
    if not questions:
        assert theirs == 0
        error = "invalid_reply: the judge generated no question from the answer"
        assert ours == {"answer_relevance_error": error}
        return
    assert ours["answer_relevance"] == pytest.approx(theirs, abs=1e-9)
    is_noncommittal = all(flag for question, flag in guessed if question)
    assert ("answer_relevance_reason" in ours) == is_noncommittal
    assert asking.embedded == ([] if is_noncommittal else [["Why?", *questions]])


# Answer correctness


counts = st.integers(0, 4)
weights = st.tuples(st.floats(0, 10), st.floats(0, 10)).filter(any)


@given(
    st.tuples(counts, counts, counts),
    st.tuples(counts, counts),
    weights | st.just((1.0, 0.0)) | st.just((0.0, 1.0)),
    st.floats(0, 5),
    st.tuples(vectors, vectors),
)
def test_answer_correctness_agrees_with_ragas(
    sizes: tuple[int, int, int],
    found: tuple[int, int],
    weights: tuple[float, float],
    beta: float,
    pair: tuple[list[float], list[float]],
) -> None:
    def reply(title: str, data: dict[str, Any], _: int) -> Any:
        if title == "StatementGeneratorOutput":
            return {"statements": ["s"] * found[data["answer"] != "So."]}
        return {kind: [ROW] * size for kind, size in zip(("TP", "FP", "FN"), sizes, strict=True)}

    script = Script(reply, {"So.": pair[0], "Because.": pair[1]}.__getitem__)
    llm = ScriptedLLM(script)
    theirs = ragas.AnswerCorrectness(llm=llm, embeddings=llm, weights=list(weights), beta=beta)
    value = asyncio.run(theirs.ascore("Why?", "So.", "Because.")).value
    keys = asyncio.run(outcome(metric(NAME, weights=weights, beta=beta), CASE, script))
    if all(found) and any(sizes):
        assert keys[NAME] == pytest.approx(value, abs=1e-9)
        assert [keys[f"{NAME}_{name}"] for name in ("tp", "fp", "fn")] == list(sizes)
        assert (f"{NAME}_similarity" in keys) == (weights[1] != 0)
        config = {"weights": weights, "beta": beta, "threshold": 0.5}
        binary = asyncio.run(outcome(metric(NAME, **config), CASE, script))
        assert binary[NAME] == (keys[NAME] >= 0.5)
    elif found[1] and not found[0]:  # A refusal, which ragas calls right.
        assert (keys[NAME], keys[f"{NAME}_fn"]) == (0, found[1])
    else:
        assert keys.keys() == {f"{NAME}_error"}
        assert keys[f"{NAME}_error"].startswith("invalid_reply: ")


# Retrieval and faithfulness


flags = st.integers(0, 1)
corpus = st.fixed_dictionaries(dict.fromkeys("abcdef", flags))


@given(
    corpus, st.lists(st.sampled_from("abcdef"), min_size=1, max_size=8), st.lists(flags, max_size=6)
)
def test_retrieval_agrees_with_ragas(
    verdicts: dict[str, int], texts: list[str], rows: list[int]
) -> None:
    def reply(title: str, data: dict[str, Any], _: int) -> Any:
        if title == "ContextPrecisionOutput":
            return {"reason": "So.", "verdict": verdicts[data["context"]]}
        return {"classifications": [ROW | {"attributed": flag} for flag in rows]}

    script = Script(reply)
    llm = ScriptedLLM(script)
    inputs: dict[str, Any] = {
        "user_input": "Why?",
        "retrieved_contexts": texts,
        "reference": "Because.",
    }
    recall = asyncio.run(ragas.ContextRecall(llm=llm).ascore(**inputs)).value
    precision = asyncio.run(ragas.ContextPrecision(llm=llm).ascore(**inputs)).value
    case = CASE._replace(actual_steps=[step(*texts)])
    keys = asyncio.run(outcome(metric("retrieval_answer"), case, script))
    assert keys["retrieval_answer_precision"] == pytest.approx(precision, abs=1e-9)
    if rows:
        assert keys["retrieval_answer_recall"] == pytest.approx(recall, abs=1e-9)
        lines = "\n".join("-+"[flag] + " S (R)" for flag in rows)
        assert keys.pop("retrieval_answer_recall_reason") == lines
    else:
        assert keys["retrieval_answer_recall_error"].startswith("invalid_reply: ")
    matched = case._replace(matches={0: step("Because.")}, reference_answer=None)
    other = asyncio.run(outcome(metric("retrieval_context"), matched, script))
    assert other == {key.replace("answer", "context"): value for key, value in keys.items()}


async def test_faithfulness_with_the_prompts_of_ragas() -> None:
    asking = ScriptedJudge(SCRIPT)
    keys = await outcome(metric("faithfulness", mode="ragas"), CASE, asking)
    assert keys == {"faithfulness": 0.5, "faithfulness_reason": "+ S (R)\n- S (R)"}
    assert asking.asked[1] == ("NLIStatementOutput", {"context": "T", "statements": ["S"]})
    nothing = CASE._replace(actual_steps=[step()])
    keys = await outcome(metric("faithfulness", mode="ragas"), nothing, SCRIPT)
    assert keys == {"faithfulness": 0.0, "faithfulness_reason": "- S (no text was retrieved)"}
