"""A judged set of records whose every call a test can tell apart."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async import evaluate_stream
from tests.support.data import question, template
from tests.support.judge_server import JudgeServer, Reply, completion, reply_to
from tests.support.loop import leaving_nothing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping

    from graphrag_eval_async import EvaluationStream
    from tests.support.judge_server import Request, Script

KEY = "sk-secret-0123456789"
PRICING = {
    "input_usd_per_million": 1.0,
    "output_usd_per_million": 10.0,
    "embedding_usd_per_million": 0.5,
}

METRICS: dict[str, Any] = {
    "answer_correctness": {},
    "answer_relevance": {"strictness": 1},
    "retrieval_answer": {},
    "retrieval_context": {},
    "ragas_answer_correctness": {},
    "custom_evaluations": [
        {
            "name": "custom",
            "inputs": ["question", "actual_answer"],
            "instructions": "Judge.",
            "outputs": {"custom_score": "fraction 0-1: how good it is", "custom_reason": "why"},
        }
    ],
}
"""All that there are."""


def config(
    server: JudgeServer, *, limits: Any = None, cache: str | None = None, **metrics: Any
) -> dict[str, Any]:
    """A configuration; without metrics, all are on."""
    connection = {"provider": "openai", "base_url": server.base_url, "api_key": KEY}
    llm = {
        "generation": connection | {"model": "gpt-4o-mini"},
        "embedding": connection | {"model": "text-embedding-3-small"},
        "limits": {"max_failed_calls": None} | (limits or {}),
        "pricing": PRICING,
    }
    return {"llm": llm if cache is None else llm | {"cache": cache}, **(metrics or METRICS)}


def _documents(kind: str, record: int, count: int) -> str:
    """The output of a retrieval step."""
    return json.dumps(
        [{"id": f"doc{i}", "text": f"{kind} text {record}.{i}"} for i in range(count)]
    )


def templates(records: int, documents: int = 1) -> list[dict[str, Any]]:
    """A reference set with the questions q0, q1, .... Each text names its record, so that
    requests do.
    """
    questions = []
    for i in range(records):
        step = {
            "name": "retrieval",
            "args": {"k": documents},
            "output": _documents("known", i, documents),
        }
        texts = {"question_text": f"riddle {i}", "reference_answer": f"known answer {i}"}
        questions.append(question(step, question_id=f"q{i}", **texts))
    return template(*questions)


OTHER_STEP = {"name": "other", "id": "b", "status": "success", "output": "1"}


def response(record: int, documents: int = 1, **more: Any) -> dict[str, Any]:
    """A response that all metrics apply to."""
    step = {"name": "retrieval", "id": "a", "status": "success"}
    steps = [step | {"output": _documents("found", record, documents)}, OTHER_STEP]
    answer = f"given answer {record}"
    return {"question_id": f"q{record}", "actual_answer": answer, "actual_steps": steps, **more}


def steps_only(record: int) -> dict[str, Any]:
    """A response of which only the steps can be scored."""
    return {"question_id": f"q{record}", "actual_steps": [OTHER_STEP]}


class Call(NamedTuple):
    """Which call a request belongs to: what it is for, and of which record."""

    purpose: str
    record: int


REPLIES: dict[str, Any] = {
    "AnswerClaims": {
        "reference_claims": ["one", "two"],
        "actual_claims": ["one"],
        "reason": "one is there",
        "matches": [{"reference": 0, "actual": 0}],
    },
    "AnswerRelevanceOutput": {"question": "what was asked", "noncommittal": 0},
    "StatementGeneratorOutput": {"statements": ["one"]},
    "ClassificationWithReason": {
        "TP": [{"statement": "one", "reason": "there"}],
        "FP": [],
        "FN": [{"statement": "two", "reason": "missing"}],
    },
    "ContextRecallOutput": {
        "classifications": [
            {"statement": text, "reason": "there", "attributed": found}
            for text, found in (("one", 1), ("two", 0))
        ]
    },
    "ContextPrecisionOutput": {"reason": "useful", "verdict": 1},
    "custom": {"custom_score": 0.5, "custom_reason": "so so"},
}
"""Sensible ones, by the title of the schema."""

PURPOSES = {
    "AnswerClaims": "answer_correctness",
    "AnswerRelevanceOutput": "answer_relevance",
    "ClassificationWithReason": "classes",
    "custom": "custom",
}
MARK = re.compile(r"(riddle|known answer|given answer|known text|found text) (\d+)")

CLAIMS = [
    "answer_reference_claims_count",
    "answer_actual_claims_count",
    "answer_matching_claims_count",
]
KEYS = {
    "answer_correctness": (
        "answer_eval_error",
        [*CLAIMS, "answer_correctness_reason", "answer_recall", "answer_precision", "answer_f1"],
    ),
    "answer_relevance": ("answer_relevance_error", ["answer_relevance"]),
    "ragas_answer_correctness": (
        "ragas_answer_correctness_error",
        [
            f"ragas_answer_correctness{suffix}"
            for suffix in ("", "_tp", "_fp", "_fn", "_similarity")
        ],
    ),
    "custom": ("custom_error", ["custom_score", "custom_reason"]),
    **{
        f"retrieval_{side}_{name}": (
            f"retrieval_{side}_{name}_error",
            [f"retrieval_{side}_{key}" for key in (name, f"{name}_reason", "f1")],
        )
        for side in ("answer", "context")
        for name in ("recall", "precision")
    },
}
"""Of each metric: the key of its error, and those that it then lacks."""

RAGAS = ("given_statements", "known_statements", "similarity", "classes")
METRIC_OF = {
    "relevance_vectors": "answer_relevance",
    **dict.fromkeys(RAGAS, "ragas_answer_correctness"),
}
"""The metric of a call that is for a part of it."""


def title_of(request: Request) -> str:
    """Of the schema that a completion is to fit, even if it only stands in a message."""
    match request.body:
        case {"response_format": {"json_schema": {"name": str(name)}}} | {
            "tools": [{"function": {"name": str(name)}}]
        }:
            return name
    text = request.body["messages"][0]["content"]
    return next(title for title in REPLIES if f'"title":"{title}"' in text)


def call_of(request: Request) -> Call:
    if not request.is_chat:
        marks = [MARK.match(text) for text in request.body["input"]]
        first = next(filter(None, marks))
        purpose = "similarity" if first[1].endswith("answer") else "relevance_vectors"
        return Call(purpose, int(first[2]))
    title = title_of(request)
    users = [
        message["content"] for message in request.body["messages"] if message["role"] == "user"
    ]
    found = MARK.findall(users[0])
    kinds, record = {kind for kind, _ in found}, int(found[0][1])
    side = "answer" if "known answer" in kinds else "context"
    if title.startswith("Context"):
        return Call(f"retrieval_{side}_{'recall' if 'Recall' in title else 'precision'}", record)
    if title == "StatementGeneratorOutput":
        return Call("known_statements" if "known answer" in kinds else "given_statements", record)
    return Call(PURPOSES[title], record)


def sensible(request: Request) -> Reply:
    """A reply that fits: 100 tokens in and 20 out."""
    return completion(REPLIES[title_of(request)]) if request.is_chat else reply_to(request)


def aimed(fault: Callable[[Request], Reply], *targets: Call, times: int = 10**9) -> Script:
    """A script in which only these calls meet a fault, each so many times."""
    left = dict.fromkeys(targets, times)

    def script(request: Request) -> Reply:
        call = call_of(request)
        if left.get(call, 0) <= 0:
            return sensible(request)
        left[call] -= 1
        return fault(request)

    return script


def requests_of(server: JudgeServer, call: Call) -> int:
    return sum(call_of(request) == call for request in server.requests)


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a result, those of its first step among them, but for costs."""
    keys = {**result, **result["actual_steps"][0]}
    return {k: v for k, v in keys.items() if k != "actual_steps" and not k.endswith("_cost")}


async def collect_by_question(stream: AsyncIterator[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Results by question; each comes once."""
    results = [result async for result in stream]
    by_question = {result["question_id"]: result for result in results}
    assert len(by_question) == len(results)
    return by_question


@asynccontextmanager
async def serving(script: Script = sensible, **more: Any) -> AsyncGenerator[JudgeServer]:
    """A server; afterwards, all connections are closed and all tasks are gone."""
    async with leaving_nothing(), JudgeServer(script, **more) as server:
        yield server
        await server.until(lambda: server.counts.connections == 0)


def stream_of(
    server: JudgeServer, records: int = 2, *, documents: int = 1, limits: Any = None, **more: Any
) -> EvaluationStream:
    """All metrics of so many records."""
    responses = [response(i, documents) for i in range(records)]
    return evaluate_stream(
        templates(records, documents), responses, config=config(server, limits=limits), **more
    )


def costs_of(result: Mapping[str, Any]) -> list[float]:
    """All costs that a result names, each once."""
    items = [pair for part in (result, *result.get("actual_steps", [])) for pair in part.items()]
    return [value for key, value in items if key.endswith("_cost") and not key.endswith("_f1_cost")]


def dollars(server: JudgeServer) -> float:
    """What the replies cost that the server sent whole."""
    counts = server.counts
    return (counts.input_tokens + counts.output_tokens * 10 + counts.embedding_tokens * 0.5) / 1e6
