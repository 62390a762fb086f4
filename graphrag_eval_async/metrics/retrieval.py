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
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import ResponseFormat
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Metric,
    Prompt,
    Task,
    has_text,
    to_json,
)
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, ragas_prompts, together
from graphrag_eval_async.metrics.ragas_lookup import metric_of_collections
from graphrag_eval_async.metrics.ragas_metric import run_metric
from graphrag_eval_async.metrics.retrieved import NO_TEXT, is_retrieval, texts_of
from graphrag_eval_async.steps.retrieval import average_precision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

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


PROMPT = Prompt.for_struct(INSTRUCTIONS, RetrievedDocuments)

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


PROMPT_FOR_BOTH = Prompt.for_struct(INSTRUCTIONS_FOR_BOTH, RetrievedForBoth)


class TextsVerdict(NamedTuple):
    """What a judge says about retrieved texts.

    Attributes:
        reply: the whole reply.
        documents_by_rank: the part of the reply about each text that is not blank, by the rank of
            the text from 0.
    """

    reply: Any
    documents_by_rank: dict[int, Any]


async def ask_about_texts(
    calls: Calls, prompt: Prompt, texts: Sequence[str], *, seed: int, question: str, **blocks: str
) -> TextsVerdict:
    """Ask the judge about retrieved texts, and return the verdict on each text that is not blank.

    The judge sees the texts in a random order that depends only on `seed` and the question. In this
    order, they have ids from 1.

    Args:
        calls: asks the judge.
        prompt: asks for a reply with a list `documents` and lists of statements. Each statement
            names documents by their ids.
        texts: the texts by rank; "" for a blank text.
        seed: the seed of the random order.
        question: the question, which the judge sees.
        blocks: other blocks of data that the judge sees, by name.

    Raises:
        JudgeError: there is no reply about exactly these documents.
    """
    shown_ranks = [rank for rank, text in enumerate(texts) if text]
    Random(f"{seed} {question}").shuffle(shown_ranks)  # noqa: S311
    documents = []
    for document_id, rank in enumerate(shown_ranks, start=1):
        documents.append({"id": document_id, "text": texts[rank]})

    def read_and_check(raw_reply: Any) -> Any:
        """Return the parsed reply; raise a `ValueError` if it is not about these documents."""
        reply = prompt.reply_format.read(raw_reply)
        _check_document_ids(reply, len(shown_ranks))
        return reply

    checked_format = ResponseFormat(prompt.reply_format.schema, read_and_check)
    checked_prompt = Prompt(prompt.instructions, checked_format)
    reply = await checked_prompt.ask(
        calls, question=question, **blocks, documents=to_json(documents)
    )
    documents_by_rank = {shown_ranks[document.id - 1]: document for document in reply.documents}
    return TextsVerdict(reply, documents_by_rank)


def _check_document_ids(reply: Any, count: int) -> None:
    """Check the ids in a reply: all documents are judged once, and statements name no others.

    Args:
        reply: the parsed reply.
        count: the number of documents, whose ids are 1 to `count`.

    Raises:
        ValueError: an id is missing, repeated or unknown.
    """
    ids = [document.id for document in reply.documents]
    expected_ids = list(range(1, count + 1))
    if sorted(ids) != expected_ids:
        raise ValueError(f"documents: expected each id from 1 to {count} once, got {ids}")

    # All fields of a reply other than `documents` are lists of statements.
    for field in type(reply).__struct_fields__:
        if field == "documents":
            continue
        for statement in getattr(reply, field):
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
        reference: the text to compare with: the reference answer, or the texts of the matched
            reference step.
        both_references: both these texts, if one call compares with both; otherwise None.
    """

    metric: str
    question: str
    texts: Sequence[str]
    reference: str
    both_references: BothReferences | None

    def recall(self, statements: Sequence[SupportedText]) -> dict[str, Any]:
        """Return the entries of recall: the share of supported statements, and the reason.

        Recall is from 0 to 1. It is 0 if no document has a text.

        Args:
            statements: the statements of the reference.

        Raises:
            JudgeError: a document has a text, but there is no statement.
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
        supported_count = sum(statement.is_supported for statement in statements)
        return {key: supported_count / len(statements), f"{key}_reason": "\n".join(lines)}

    def precision(self, useful_ranks: Sequence[int]) -> dict[str, Any]:
        """Return the entry of precision: the average precision of the ranking of the documents.

        Precision is from 0 to 1. It is 0 if no document is useful.

        Args:
            useful_ranks: the ranks of the useful documents, from 0.
        """
        average = 0.0
        if useful_ranks:
            average = average_precision(useful_ranks, range(len(self.texts)))
        return {f"{self.metric}_precision": average}


class BothReferences(NamedTuple):
    """The two texts with which one call compares a retrieval step, for both metrics."""

    answer: str
    texts: str


class SupportedText(NamedTuple):
    """A statement of the reference, and whether the retrieved texts support it."""

    is_supported: bool
    text: str


ScoreFunction: TypeAlias = "Callable[[RetrievedTexts, Calls], Awaitable[dict[str, Any]]]"
"""Asks a judge about a retrieval step, and returns the entries of recall, precision or both."""


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


def can_share_calls(
    answer: RetrievalAnswerConfig | None, context: RetrievalContextConfig | None
) -> bool:
    """Return whether one call can judge both metrics of retrieval steps.

    This requires that both metrics are on and "joint", with the same seed and the same judges.

    Args:
        answer: the section of the metric `retrieval_answer`; None if the metric is off.
        context: the section of the metric `retrieval_context`; None if the metric is off.
    """
    if answer is None or context is None:
        return False
    if answer.mode != "joint" or context.mode != "joint":
        return False
    return answer.seed == context.seed and answer.judges == context.judges


def metrics_sharing_calls(
    answer: RetrievalAnswerConfig, context: RetrievalContextConfig
) -> dict[str, Metric]:
    """Return both metrics of retrieval steps, by name; equal calls of both are made only once."""
    return {
        ANSWER: _retrieval_metric(ANSWER, answer, shares_calls=True),
        CONTEXT: _retrieval_metric(CONTEXT, context, shares_calls=True),
    }


def _retrieval_metric(
    name: str, config: RetrievalAnswerConfig | RetrievalContextConfig, *, shares_calls: bool
) -> Metric:
    """Return a metric with one or two tasks for each successful retrieval step.

    Args:
        name: the name of the metric, `ANSWER` or `CONTEXT`.
        config: the section of the metric.
        shares_calls: whether the other metric of retrieval steps makes the same calls.
    """
    # In one call, a task scores both recall and precision; otherwise, each has its own task. Keys
    # are the suffixes of the entries: "" for both.
    score_functions: dict[str, ScoreFunction]
    if config.mode == "joint":
        prompts = [f"joint, seed {config.seed}", *PROMPT.texts]
        if shares_calls:
            prompts += PROMPT_FOR_BOTH.texts
        score_functions = {"": partial(_score_in_one_call, config.seed)}
    else:
        prompts = ragas_prompts(name, "ContextRecallPrompt", "ContextPrecisionPrompt")
        score_functions = {"_recall": _score_recall, "_precision": _score_precision}

    make_tasks = partial(_make_tasks, name, score_functions, shares_calls)
    return Metric(name, prompts, make_tasks)


def _make_tasks(
    name: str, score_functions: Mapping[str, ScoreFunction], shares_calls: bool, case: Case
) -> list[Task]:
    """Return the tasks of a metric for the successful retrieval steps of a response.

    - A step has one task for each of `score_functions`.
    - The tasks are skipped if the question, the texts of the step or the reference are missing.
    - A step that matches no reference step has no task for the metric `CONTEXT`.

    Args:
        name: the name of the metric, `ANSWER` or `CONTEXT`.
        score_functions: the functions that score a step. The keys are the suffixes of the entries
            that a function returns: "_recall", "_precision", or "" for both.
        shares_calls: whether the other metric of retrieval steps makes the same calls.
        case: the response and its question.
    """
    tasks = []
    for index, step in enumerate(case.actual_steps or ()):
        if not is_retrieval(step):
            continue
        texts = texts_of(step)
        retrieved = _pair_with_reference(
            name, case, index=index, texts=texts or (), shares_calls=shares_calls
        )
        if retrieved is None:
            continue
        has_inputs = texts is not None and has_text(case.question, retrieved.reference)
        for part, score in score_functions.items():
            score_step = None
            if has_inputs:
                score_step = partial(score, retrieved)
            # A task without a function counts as skipped.
            tasks.append(Task(name, score_step, part, index))
    return tasks


def _pair_with_reference(
    name: str, case: Case, *, index: int, texts: Sequence[str], shares_calls: bool
) -> RetrievedTexts | None:
    """Return the texts of a retrieval step together with the reference to compare them with.

    The result is None if there is no reference: the metric is `CONTEXT`, and the step matches no
    reference step. A reference may be "", which means that its text is missing.

    Args:
        name: the name of the metric, `ANSWER` or `CONTEXT`.
        case: the response and its question.
        index: the index of the step in the response.
        texts: the texts of the step by rank.
        shares_calls: whether the other metric of retrieval steps makes the same calls.
    """
    reference_answer = case.reference_answer or ""
    reference_texts = None
    if shares_calls or name == CONTEXT:
        reference_texts = _texts_of_matched_step(case, index)

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


def _texts_of_matched_step(case: Case, index: int) -> str | None:
    """Return the texts of a matched reference step, joined by line breaks.

    The result is None if no reference step matches the actual step, and "" if the texts of the
    reference step are not known.

    Args:
        case: the response and its question.
        index: the index of the actual step.
    """
    matched_step = case.matches.get(index)
    if matched_step is None:
        return None
    texts = texts_of(matched_step) or ()
    return "\n".join(text for text in texts if text)


async def _score_in_one_call(seed: int, step: RetrievedTexts, calls: Calls) -> dict[str, Any]:
    """Ask the judge once, and return the entries of recall and precision of a retrieval step.

    If the call judges both metrics of retrieval steps, only the entries of `step.metric` are
    returned.
    """
    if not any(step.texts):
        # Both are 0, and there is nothing to ask.
        return step.recall(()) | step.precision(())

    # Choose the prompt, and the fields of its reply that are about this metric.
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
        # The reference of this metric, as the fields of the reply name it.
        side = "answer" if step.metric == ANSWER else "texts"
        statements_field = f"{side}_statements"
        useful_field = f"useful_for_{side}"

    verdict = await ask_about_texts(
        calls, prompt, step.texts, seed=seed, question=step.question, **blocks
    )
    # A statement is supported if any document supports it.
    statements = [
        SupportedText(is_supported=bool(row.documents), text=row.statement)
        for row in getattr(verdict.reply, statements_field)
    ]
    useful_ranks = [
        rank
        for rank, document in verdict.documents_by_rank.items()
        if getattr(document, useful_field)
    ]
    return step.recall(statements) | step.precision(useful_ranks)


async def _score_recall(step: RetrievedTexts, calls: Calls) -> dict[str, Any]:
    """Return the entries of recall of a retrieval step, judged by `ContextRecall` of ragas.

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
        # Ragas gives NaN if the reference has no statements.
        if not isnan(outcome.value):
            last_reply = outcome.replies[-1]
            statements = [
                SupportedText(bool(row.attributed), f"{row.statement} ({row.reason})")
                for row in last_reply.classifications
            ]
    entries = step.recall(statements)
    if step.metric == CONTEXT:
        # The published library `graphrag-eval` has no such key, so results have none either.
        del entries[f"{CONTEXT}_recall_reason"]
    return entries


async def _score_precision(step: RetrievedTexts, calls: Calls) -> dict[str, Any]:
    """Return the entry of precision of a retrieval step, judged with the prompt of RAGAS.

    The judge is asked once for each document with a text. The others are not useful.
    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/
    """
    ranks_with_text = [rank for rank, text in enumerate(step.texts) if text]
    requests = [
        ask_ragas(
            calls,
            "context_precision",
            "ContextPrecisionPrompt",
            question=step.question,
            answer=step.reference,
            context=step.texts[rank],
        )
        for rank in ranks_with_text
    ]
    replies = await together(*requests)
    useful_ranks = [
        rank for rank, reply in zip(ranks_with_text, replies, strict=True) if reply.verdict == 1
    ]
    return step.precision(useful_ranks)
