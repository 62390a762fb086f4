"""Recall and precision of the texts that retrieval steps return, with prompts of RAGAS or in one
call.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError, MalformedStep
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
from graphrag_eval_async.steps.retrieval import average_precision, read_documents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.catalogue.judged import RetrievalAnswerConfig, RetrievalContextConfig

ANSWER, CONTEXT = "retrieval_answer", "retrieval_context"
NO_TEXT = "no text was retrieved"

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


def is_retrieval(step: Mapping[str, Any]) -> bool:
    """Whether a step is a successful retrieval."""
    return step.get("name") == "retrieval" and step.get("status") == "success"


def texts_of(step: Mapping[str, Any]) -> list[str] | None:
    """Return the texts that a step returned by rank, "" for a document without text.

    None if they are not known: the output cannot be read, or it has documents, but none with the
    key `text`.
    """
    try:
        documents = read_documents(step.get("output"))
    except MalformedStep:
        return None
    texts = [document.get("text") for document in documents]
    is_known = not documents or any("text" in document for document in documents)
    if not is_known or not all(isinstance(text, str | None) for text in texts):
        return None
    return [text if text and text.strip() else "" for text in texts]


def retrieved_texts(case: Case, *, blank: bool = False) -> list[str] | None:
    """Return the texts of all retrieval steps, each once, and if `blank`, "" for those without;
    or None.
    """
    found = [texts_of(step) for step in case.actual_steps or () if is_retrieval(step)]
    if all(texts is None for texts in found):
        return None
    texts = enumerate(chain.from_iterable(filter(None, found)))
    return [*{text or place: text for place, text in texts if text or blank}.values()]


async def ask_about(
    calls: Calls, prompt: Prompt, texts: Sequence[str], seed: int, **blocks: str
) -> tuple[Any, dict[int, Any]]:
    """Ask for a verdict on each text; return the reply, and those of its `documents` by the rank of
    the text.

    Texts are shown in random order, which depends on `seed` and the question.
    """
    ranks = [rank for rank, text in enumerate(texts) if text]
    Random(f"{seed} {blocks['question']}").shuffle(ranks)  # noqa: S311
    shown = [{"id": number, "text": texts[rank]} for number, rank in enumerate(ranks, 1)]

    def read(reply: Any) -> Any:
        found = prompt.form.read(reply)
        ids = [document.id for document in found.documents]
        if sorted(ids) != [*range(1, len(ranks) + 1)]:
            raise ValueError(f"documents: expected each id from 1 to {len(ranks)} once, got {ids}")
        # Replies begin with `documents`; all else are lists of statements.
        for statement in chain.from_iterable(
            getattr(found, name) for name in found.__struct_fields__[1:]
        ):
            if not {*statement.documents} <= {*ids}:
                raise ValueError(
                    f"statements: expected ids from 1 to {len(ids)}, got {statement.documents}"
                )
        return found

    form = ResponseFormat(prompt.form.schema, read)
    found = await Prompt(prompt.instructions, form).ask(calls, **blocks, documents=dumps(shown))
    return found, {ranks[document.id - 1]: document for document in found.documents}


class _Retrieved(NamedTuple):
    """A retrieval step to judge for the metric `name`."""

    name: str
    question: str
    texts: Sequence[str]  # By rank, "" for a document without text.
    reference: str
    both: tuple[str, str] | None  # The reference answer and texts, if one call judges by both.

    def recall(self, statements: Sequence[tuple[Any, str]]) -> Keys:
        """Return the share of statements that are supported, from 0 to 1; 0 without any text."""
        key = f"{self.name}_recall"
        if not any(self.texts):
            return {key: 0.0, f"{key}_reason": NO_TEXT}
        if not statements:
            raise JudgeError("invalid_reply", "the judge found no statement in the reference")
        lines = [f"{'+' if supported else '-'} {text}" for supported, text in statements]
        share = sum(bool(supported) for supported, _ in statements) / len(statements)
        return {key: share, f"{key}_reason": "\n".join(lines)}

    def precision(self, useful: Sequence[int]) -> Keys:
        """Return the average precision of useful ranks, from 0 to 1; 0 if there are none."""
        average = average_precision(useful, range(len(self.texts))) if useful else 0.0
        return {f"{self.name}_precision": average}


def retrieval_answer(config: RetrievalAnswerConfig) -> Metric:
    """Return the metric `retrieval_answer`, which makes calls of its own."""
    return retrieval(ANSWER, config)


def retrieval_context(config: RetrievalContextConfig) -> Metric:
    """Return the metric `retrieval_context`, which makes calls of its own."""
    return retrieval(CONTEXT, config)


def retrieval(
    name: str, config: RetrievalAnswerConfig | RetrievalContextConfig, *, is_shared: bool = False
) -> Metric:
    """Return a metric of successful retrieval steps; with `is_shared`, the other one shares its
    calls.

    `retrieval_answer` compares steps with the reference answer, `retrieval_context` those that
    match a reference step with the texts of that step. A document without text takes up a rank and
    is not useful.
    """
    if config.mode == "joint":
        prompts = [
            f"joint, seed {config.seed}",
            *PROMPT.texts,
            *(PROMPT_FOR_BOTH.texts if is_shared else ()),
        ]
        parts: dict[str, Any] = {"": partial(_jointly, config.seed)}
    else:
        prompts = ragas_prompts(name, "ContextRecallPrompt", "ContextPrecisionPrompt")
        parts = {"_recall": _recall, "_precision": _precision}

    def tasks(case: Case) -> list[Task]:
        found, answer = [], case.reference_answer or ""
        for index, step in enumerate(case.actual_steps or ()):
            if not is_retrieval(step):
                continue
            matched = case.matches.get(index) if is_shared or name == CONTEXT else None
            context = None if matched is None else "\n".join(filter(None, texts_of(matched) or ()))
            reference = answer if name == ANSWER else context
            if reference is None:
                continue
            both = (answer, context or "") if is_shared and has_text(answer, context) else None
            texts = texts_of(step)
            of_step = _Retrieved(name, case.question, texts or (), reference, both)
            is_due = texts is not None and has_text(case.question, reference)
            for part, score in parts.items():
                found.append(Task(name, partial(score, of_step) if is_due else None, part, index))
        return found

    return Metric(name, prompts, tasks)


async def _jointly(seed: int, step: _Retrieved, calls: Calls) -> Keys:
    if not any(step.texts):
        return step.recall(()) | step.precision(())
    prompt, blocks, which = PROMPT, {"reference": step.reference}, ("statements", "useful")
    if step.both is not None:
        prompt, side = PROMPT_FOR_BOTH, "answer" if step.name == ANSWER else "texts"
        blocks = dict(zip(("reference_answer", "reference_texts"), step.both, strict=True))
        which = f"{side}_statements", f"useful_for_{side}"
    found, documents = await ask_about(
        calls, prompt, step.texts, seed, question=step.question, **blocks
    )
    statements = [(each.documents, each.statement) for each in getattr(found, which[0])]
    useful = [rank for rank, document in documents.items() if getattr(document, which[1])]
    return step.recall(statements) | step.precision(useful)


async def _recall(step: _Retrieved, calls: Calls) -> Keys:
    """Formula:
    https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_recall/.
    """
    rows = []
    if any(step.texts):
        context = "\n".join(filter(None, step.texts))
        data: Keys = {"question": step.question, "context": context, "answer": step.reference}
        rows = (
            await ask_ragas(calls, "context_recall", "ContextRecallPrompt", **data)
        ).classifications
    keys = step.recall([(row.attributed, f"{row.statement} ({row.reason})") for row in rows])
    return keys if step.name == ANSWER else {f"{CONTEXT}_recall": keys[f"{CONTEXT}_recall"]}


async def _precision(step: _Retrieved, calls: Calls) -> Keys:
    """Formula:
    https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/context_precision/.
    """
    data: Keys = {"question": step.question, "answer": step.reference}
    ask = partial(ask_ragas, calls, "context_precision", "ContextPrecisionPrompt", **data)
    ranks = [rank for rank, text in enumerate(step.texts) if text]
    outputs = await together(*(ask(context=step.texts[rank]) for rank in ranks))
    return step.precision(
        [rank for rank, output in zip(ranks, outputs, strict=True) if output.verdict]
    )
