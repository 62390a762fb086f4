"""Recall and precision of the texts that retrieval steps return, with prompts of RAGAS or in one call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.documents import NO_TEXT, ask_about, is_retrieval, texts_of
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Keys,
    Metric,
    Prompt,
    Task,
    has_text,
    lines_of,
)
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts, together
from graphrag_eval_async.steps import average_precision

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config.model import RetrievalAnswerConfig, RetrievalContextConfig

ANSWER, CONTEXT = "retrieval_answer", "retrieval_context"

INSTRUCTIONS = """\
<documents> were retrieved to answer <question>; their order means nothing. <reference> is what a correct \
answer rests on.

1. For each document: is it useful, that is, does it help to arrive at <reference>?
2. Split <reference> into statements, each one atomic fact, and list for each the ids of the documents \
from which it can be concluded; an empty list if none.

Reply with JSON: "documents", for each document {"id", "reason" in a few words, "useful"}; "statements", \
for each statement {"statement", "documents": ids}."""


class JudgedDocument(Struct, frozen=True):
    """Whether a document is useful."""

    id: int
    reason: Annotated[str, Meta(description="Why it is useful or not, in a few words.")]
    useful: bool


class SupportedStatement(Struct, frozen=True):
    """A statement of the reference, and the documents that support it."""

    statement: str
    documents: Annotated[list[int], Meta(description="Ids of the documents that support it.")]


class RetrievedDocuments(Struct, frozen=True):
    """The verdict on the documents of a retrieval step."""

    documents: list[JudgedDocument]
    statements: list[SupportedStatement]


PROMPT = Prompt.of(INSTRUCTIONS, RetrievedDocuments)

INSTRUCTIONS_FOR_BOTH = """\
<documents> were retrieved to answer <question>; their order means nothing. A correct answer is \
<reference_answer>, and <reference_texts> are what it rests on. Judge <documents> by each of the two alone.

1. For each document: does it help to arrive at <reference_answer>? And at <reference_texts>?
2. Split each of the two into statements, each one atomic fact, and list for each statement the ids of the \
documents from which it can be concluded; an empty list if none.

Reply with JSON: "documents", for each document {"id", "reason" in a few words, "useful_for_answer", \
"useful_for_texts"}; "answer_statements" and "texts_statements", for each statement {"statement", \
"documents": ids}."""


class TwiceJudgedDocument(Struct, frozen=True):
    """Whether a document is useful, by each of two references."""

    id: int
    reason: Annotated[str, Meta(description="Why it is useful or not, in a few words.")]
    useful_for_answer: bool
    useful_for_texts: bool


class RetrievedForBoth(Struct, frozen=True):
    """The verdict on the documents of a retrieval step by two references."""

    documents: list[TwiceJudgedDocument]
    answer_statements: list[SupportedStatement]
    texts_statements: list[SupportedStatement]


PROMPT_FOR_BOTH = Prompt.of(INSTRUCTIONS_FOR_BOTH, RetrievedForBoth)


def can_share(answer: RetrievalAnswerConfig | None, context: RetrievalContextConfig | None) -> bool:
    """Whether one call can judge a step for both metrics."""
    if answer is None or context is None or not answer.mode == context.mode == "joint":
        return False
    return (answer.seed, answer.judges) == (context.seed, context.judges)


class _Retrieved(NamedTuple):
    """A retrieval step to judge for the metric `name`."""

    name: str
    question: str
    texts: Sequence[str]  # By rank, "" for a document without text.
    references: Mapping[str, str]  # By name of metric; both if both metrics share a call.


def retrieval(
    name: str, config: RetrievalAnswerConfig | RetrievalContextConfig, *, is_shared: bool = False
) -> Metric:
    """Return a metric of successful retrieval steps; with `is_shared`, the other one shares its calls.

    `retrieval_answer` compares steps with the reference answer, `retrieval_context` those that match a
    reference step with the texts of that step. A document without text takes up a rank and is not useful.
    """
    if config.mode == "joint":
        prompts = [f"joint, seed {config.seed}", *PROMPT.texts, *(PROMPT_FOR_BOTH.texts if is_shared else ())]
        parts: dict[str, Any] = {"": partial(_jointly, config.seed)}
    else:
        prompts = ragas_prompts(name, "ContextRecallPrompt", "ContextPrecisionPrompt")
        parts = {"_recall": _recall, "_precision": _precision}

    def tasks(case: Case) -> list[Task]:
        found = []
        for index, step in enumerate(case.actual_steps or ()):
            references = {ANSWER: case.reference_answer or ""}
            if index in case.matches:
                references[CONTEXT] = _joined(texts_of(case.matches[index]) or ())
            if not is_retrieval(step) or name not in references:
                continue
            if not (is_shared and len(references) == 2 and has_text(*references.values())):
                references = {name: references[name]}
            texts = texts_of(step)
            is_complete = texts is not None and has_text(case.question, references[name])
            of_step = _Retrieved(name, case.question, texts or [], references)
            for part, score in parts.items():
                found.append(Task(name, partial(score, of_step) if is_complete else None, part, index))
        return found

    return Metric(name, prompts, tasks)


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


async def _jointly(seed: int, step: _Retrieved, calls: Calls) -> Keys:
    """Return the share of the reference's statements that a document supports, and the average precision."""
    name, references = step.name, step.references
    if not any(step.texts):
        return {f"{name}_recall": 0.0, f"{name}_recall_reason": NO_TEXT, f"{name}_precision": 0.0}
    prompt, blocks, fields = PROMPT, {"reference": references[name]}, ("statements", "useful")
    if len(references) == 2:
        prompt, which = PROMPT_FOR_BOTH, "answer" if name == ANSWER else "texts"
        blocks = {"reference_answer": references[ANSWER], "reference_texts": references[CONTEXT]}
        fields = f"{which}_statements", f"useful_for_{which}"
    found, ranks = await ask_about(calls, prompt, step.texts, seed, _check, question=step.question, **blocks)
    statements: list[SupportedStatement] = getattr(found, fields[0])
    if not statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference")
    useful = [rank for rank, each in zip(ranks, found.documents, strict=True) if getattr(each, fields[1])]
    lines = [f"{'+' if each.documents else '-'} {each.statement}" for each in statements]
    return {
        f"{name}_recall": sum(bool(each.documents) for each in statements) / len(statements),
        f"{name}_recall_reason": "\n".join(lines),
        f"{name}_precision": average_precision(useful, range(len(step.texts))) if useful else 0.0,
    }


def _check(found: RetrievedDocuments | RetrievedForBoth) -> None:
    ids = {*range(1, len(found.documents) + 1)}
    for statement in [each for field in found.__struct_fields__[1:] for each in getattr(found, field)]:
        if not ids.issuperset(statement.documents):
            raise ValueError(f"statements: expected ids from 1 to {len(ids)}, got {statement.documents}")


async def _recall(step: _Retrieved, calls: Calls) -> Keys:
    """Return the share of the reference's statements that the judge attributes to the texts, from 0 to 1.

    0 without any text. Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_recall/
    """
    score, reason = 0.0, NO_TEXT
    if any(step.texts):
        data: Keys = {"context": _joined(step.texts), "answer": step.references[step.name]}
        found = await ask_ragas(
            calls, "context_recall", "ContextRecallPrompt", question=step.question, **data
        )
        rows = found.classifications
        if not rows:
            raise JudgeError("invalid_reply", "the judge found no statement in the reference")
        score = sum(row.attributed for row in rows) / len(rows)
        reason = lines_of((row.attributed, row.statement, row.reason) for row in rows)
    return {f"{step.name}_recall": score} | (
        {f"{ANSWER}_recall_reason": reason} if step.name == ANSWER else {}
    )


async def _precision(step: _Retrieved, calls: Calls) -> Keys:
    """Return the average precision of the texts that the judge finds useful, from 0 to 1; 0 if none is.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/
    """
    data: Keys = {"question": step.question, "answer": step.references[step.name]}
    ask = partial(ask_ragas, calls, "context_precision", "ContextPrecisionPrompt", **data)
    ranks = [rank for rank, text in enumerate(step.texts) if text]
    outputs = await together(*(ask(context=step.texts[rank]) for rank in ranks))
    useful = [rank for rank, output in zip(ranks, outputs, strict=True) if output.verdict]
    return {f"{step.name}_precision": average_precision(useful, range(len(step.texts))) if useful else 0.0}
