"""Recall and precision of the texts that retrieval steps return, with prompts of RAGAS or in one
call.

Recall is that of `ContextRecall` of ragas. Precision has the prompt and the formula of
`ContextPrecision`, but not its class: a document without text takes up a rank here, and the value
of a perfect ranking is 1, where ragas has 0.9999999999.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isnan
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import ResponseFormat
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Keys,
    Metric,
    Prompt,
    Task,
    dumps,
    has_text,
)
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts, together
from graphrag_eval_async.metrics.ragas_lookup import metric_of_collections
from graphrag_eval_async.metrics.ragas_metric import run_metric
from graphrag_eval_async.metrics.retrieved import NO_TEXT, is_retrieval, texts_of
from graphrag_eval_async.steps.retrieval import average_precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.catalogue.judged import RetrievalAnswerConfig, RetrievalContextConfig

ANSWER = "retrieval_answer"
CONTEXT = "retrieval_context"

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


class Verdict(NamedTuple):
    """What a judge said about the texts of a step.

    Attributes:
        reply: the whole reply.
        by_rank: the verdict on each text that is not blank, by its rank from 0.
    """

    reply: Any
    by_rank: dict[int, Any]


async def ask_about(
    calls: Calls, prompt: Prompt, texts: Sequence[str], *, seed: int, question: str, **blocks: str
) -> Verdict:
    """Ask for a verdict on each text that is not blank.

    The judge sees the texts in random order, which depends on `seed` and the question.

    Args:
        calls: asks the judge.
        prompt: the reply that it asks for begins with `documents`, and else has lists of
            statements only, each with the ids of documents.
        texts: the texts by rank.
        seed: makes the order reproducible.
        question: the question, which the judge sees.
        blocks: what else the judge sees.
    """
    shown_ranks = [rank for rank, text in enumerate(texts) if text]
    Random(f"{seed} {question}").shuffle(shown_ranks)  # noqa: S311
    documents = [
        {"id": number, "text": texts[rank]} for number, rank in enumerate(shown_ranks, start=1)
    ]

    def read(raw_reply: Any) -> Any:
        reply = prompt.form.read(raw_reply)
        _check_ids(reply, len(shown_ranks))
        return reply

    checked_prompt = Prompt(prompt.instructions, ResponseFormat(prompt.form.schema, read))
    reply = await checked_prompt.ask(calls, question=question, **blocks, documents=dumps(documents))
    by_rank = {shown_ranks[document.id - 1]: document for document in reply.documents}
    return Verdict(reply, by_rank)


def _check_ids(reply: Any, count: int) -> None:
    """Raise a `ValueError` unless a reply has a verdict on each of `count` documents, and its
    statements name only these.
    """
    ids = [document.id for document in reply.documents]
    if sorted(ids) != [*range(1, count + 1)]:
        raise ValueError(f"documents: expected each id from 1 to {count} once, got {ids}")
    for name in type(reply).__struct_fields__:
        if name == "documents":
            continue
        for statement in getattr(reply, name):
            if not set(ids).issuperset(statement.documents):
                raise ValueError(
                    f"statements: expected ids from 1 to {count}, got {statement.documents}"
                )


@dataclass(frozen=True)
class RetrievedTexts:
    """The texts of a retrieval step, to judge for a metric.

    Attributes:
        metric: the metric's name.
        question: the question.
        texts: the texts by rank; "" for a document without text.
        reference: what the texts are compared with: the reference answer, or the texts of the
            matched reference step.
        both_references: the reference answer and these texts, if one call judges by both.
    """

    metric: str
    question: str
    texts: Sequence[str]
    reference: str
    both_references: BothReferences | None

    def recall(self, statements: Sequence[SupportedText]) -> Keys:
        """Return the share of statements that are supported, from 0 to 1; 0 without any text.

        Raises:
            JudgeError: there is no statement.
        """
        key = f"{self.metric}_recall"
        if not any(self.texts):
            return {key: 0.0, f"{key}_reason": NO_TEXT}
        if not statements:
            raise JudgeError("invalid_reply", "the judge found no statement in the reference")
        lines = []
        for statement in statements:
            sign = "+" if statement.is_supported else "-"
            lines.append(f"{sign} {statement.text}")
        supported = sum(statement.is_supported for statement in statements)
        return {key: supported / len(statements), f"{key}_reason": "\n".join(lines)}

    def precision(self, useful_ranks: Sequence[int]) -> Keys:
        """Return the average precision of useful ranks, from 0 to 1; 0 if there are none."""
        average = 0.0
        if useful_ranks:
            average = average_precision(useful_ranks, range(len(self.texts)))
        return {f"{self.metric}_precision": average}


class BothReferences(NamedTuple):
    """What the texts of a step are compared with by both metrics."""

    answer: str
    texts: str


class SupportedText(NamedTuple):
    """A statement of the reference, and whether the retrieved texts support it."""

    is_supported: bool
    text: str


def retrieval_answer(config: RetrievalAnswerConfig) -> Metric:
    """Return the metric `retrieval_answer`, which makes calls of its own.

    It compares retrieval steps with the reference answer. A document without text takes up a rank
    and is not useful.
    """
    return _retrieval_metric(ANSWER, config, shares_calls=False)


def retrieval_context(config: RetrievalContextConfig) -> Metric:
    """Return the metric `retrieval_context`, which makes calls of its own.

    It compares retrieval steps that match a reference step with the texts of that step.
    """
    return _retrieval_metric(CONTEXT, config, shares_calls=False)


def share_calls(
    answer: RetrievalAnswerConfig | None, context: RetrievalContextConfig | None
) -> bool:
    """Return whether both metrics of retrieval steps are on, and ask alike."""
    if answer is None or context is None:
        return False
    if answer.mode != "joint" or context.mode != "joint":
        return False
    return answer.seed == context.seed and answer.judges == context.judges


def metrics_sharing_calls(
    answer: RetrievalAnswerConfig, context: RetrievalContextConfig
) -> dict[str, Metric]:
    """Return both metrics of retrieval steps by name; each call is for both."""
    return {
        ANSWER: _retrieval_metric(ANSWER, answer, shares_calls=True),
        CONTEXT: _retrieval_metric(CONTEXT, context, shares_calls=True),
    }


def _retrieval_metric(
    name: str, config: RetrievalAnswerConfig | RetrievalContextConfig, *, shares_calls: bool
) -> Metric:
    """Return a metric of successful retrieval steps.

    With `shares_calls`, the other metric of retrieval steps makes the same calls.
    """
    # The functions that score a step, by the part of the metric that they give.
    parts: dict[str, Any]
    if config.mode == "joint":
        prompts = [f"joint, seed {config.seed}", *PROMPT.texts]
        if shares_calls:
            prompts += PROMPT_FOR_BOTH.texts
        parts = {"": partial(_score_in_one_call, config.seed)}
    else:
        prompts = ragas_prompts(name, "ContextRecallPrompt", "ContextPrecisionPrompt")
        parts = {"_recall": _score_recall, "_precision": _score_precision}

    def tasks(case: Case) -> list[Task]:
        tasks = []
        for index, step in enumerate(case.actual_steps or ()):
            if not is_retrieval(step):
                continue
            texts = texts_of(step)
            retrieved = _retrieved_texts(
                name, case, index=index, texts=texts or (), shares_calls=shares_calls
            )
            if retrieved is None:
                continue
            is_complete = texts is not None and has_text(case.question, retrieved.reference)
            for part, score in parts.items():
                score_step = partial(score, retrieved) if is_complete else None
                tasks.append(Task(name, score_step, part, index))
        return tasks

    return Metric(name, prompts, tasks)


def _retrieved_texts(
    name: str, case: Case, *, index: int, texts: Sequence[str], shares_calls: bool
) -> RetrievedTexts | None:
    """Return the texts of the step at an index, to judge for a metric.

    None if the metric is not about this step, since it matches no reference step.
    """
    reference_answer = case.reference_answer or ""
    reference_texts = None
    matched_step = case.matches.get(index)
    if matched_step is not None and (shares_calls or name == CONTEXT):
        known_texts = texts_of(matched_step) or ()
        reference_texts = "\n".join(text for text in known_texts if text)

    reference: str | None = reference_answer
    if name == CONTEXT:
        reference = reference_texts
    if reference is None:
        return None

    both_references = None
    if shares_calls and has_text(reference_answer, reference_texts):
        both_references = BothReferences(reference_answer, reference_texts or "")
    return RetrievedTexts(
        metric=name,
        question=case.question,
        texts=texts,
        reference=reference,
        both_references=both_references,
    )


async def _score_in_one_call(seed: int, step: RetrievedTexts, calls: Calls) -> Keys:
    """Return recall and precision, judged with the library's own prompt."""
    if not any(step.texts):
        return step.recall(()) | step.precision(())
    if step.both_references is None:
        prompt = PROMPT
        blocks = {"reference": step.reference}
        statements_field = "statements"
        useful_field = "useful"
    else:
        prompt = PROMPT_FOR_BOTH
        blocks = {
            "reference_answer": step.both_references.answer,
            "reference_texts": step.both_references.texts,
        }
        side = "answer" if step.metric == ANSWER else "texts"
        statements_field = f"{side}_statements"
        useful_field = f"useful_for_{side}"

    verdict = await ask_about(
        calls, prompt, step.texts, seed=seed, question=step.question, **blocks
    )
    statements = [
        SupportedText(is_supported=bool(row.documents), text=row.statement)
        for row in getattr(verdict.reply, statements_field)
    ]
    useful_ranks = [
        rank for rank, document in verdict.by_rank.items() if getattr(document, useful_field)
    ]
    return step.recall(statements) | step.precision(useful_ranks)


async def _score_recall(step: RetrievedTexts, calls: Calls) -> Keys:
    """Return the recall, judged by `ContextRecall` of ragas.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_recall/
    """
    texts = [text for text in step.texts if text]
    statements = []
    if texts:
        inputs = {
            "user_input": step.question,
            "retrieved_contexts": texts,
            "reference": step.reference,
        }
        outcome = await run_metric(metric_of_collections("ContextRecall"), inputs, calls)
        # Without statements, ragas gives NaN.
        if not isnan(outcome.value):
            rows = outcome.replies[-1].classifications
            statements = [
                SupportedText(bool(row.attributed), f"{row.statement} ({row.reason})")
                for row in rows
            ]
    keys = step.recall(statements)
    if step.metric == CONTEXT:
        # The published library has no such key.
        del keys[f"{CONTEXT}_recall_reason"]
    return keys


async def _score_precision(step: RetrievedTexts, calls: Calls) -> Keys:
    """Return the precision, judged with the prompt of RAGAS, one document a call.

    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/
    """
    ranks = [rank for rank, text in enumerate(step.texts) if text]
    replies = await together(
        *(
            ask_ragas(
                calls,
                "context_precision",
                "ContextPrecisionPrompt",
                question=step.question,
                answer=step.reference,
                context=step.texts[rank],
            )
            for rank in ranks
        )
    )
    useful_ranks = [rank for rank, reply in zip(ranks, replies, strict=True) if reply.verdict]
    return step.precision(useful_ranks)
