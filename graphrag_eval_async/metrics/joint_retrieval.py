"""Recall and precision of all documents that a retrieval step returned, judged in one call."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import ResponseFormat, format_of
from graphrag_eval_async.metrics.metric import dumps, messages, prompts_of
from graphrag_eval_async.steps import average_precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.judge.protocol import MetricJudge

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


NO_TEXT = "no text was retrieved"
FORM = format_of(RetrievedDocuments)
JOINT_PROMPTS = prompts_of(INSTRUCTIONS, FORM)


async def judge_jointly(
    name: str, seed: int, question: str, texts: Sequence[str], reference: str, judge: MetricJudge
) -> dict[str, Any]:
    """Return recall and precision of a step's documents, each from 0 to 1.

    Recall is the share of the reference's statements that a document supports; precision is the average
    precision of the useful documents. A document without text takes up a rank and is not useful. Both are 0
    without any text.

    Args:
        name: prefix of the keys.
        seed: decides the order in which the judge sees the documents.
        question: the question.
        texts: the texts by rank; "" for a document without text.
        reference: what to compare with.
        judge: the judge.
    """
    ranks = [rank for rank, text in enumerate(texts) if text]
    if not ranks:
        return {f"{name}_recall": 0.0, f"{name}_recall_reason": NO_TEXT, f"{name}_precision": 0.0}
    Random(f"{seed} {question}").shuffle(ranks)  # noqa: S311
    shown = [{"id": number, "text": texts[rank]} for number, rank in enumerate(ranks, 1)]
    blocks = {"question": question, "reference": reference, "documents": dumps(shown)}
    read = partial(_checked, count=len(ranks))
    found = await judge.ask(partial(messages, INSTRUCTIONS, blocks), ResponseFormat(FORM.schema, read))
    if not found.statements:
        raise JudgeError("invalid_reply", "the judge found no statement in the reference")
    useful = [ranks[document.id - 1] for document in found.documents if document.useful]
    supported = [bool(statement.documents) for statement in found.statements]
    marks = zip(supported, found.statements, strict=True)
    return {
        f"{name}_recall": sum(supported) / len(supported),
        f"{name}_recall_reason": "\n".join(
            f"{'+' if mark else '-'} {each.statement}" for mark, each in marks
        ),
        f"{name}_precision": average_precision(useful, range(len(texts))) if useful else 0.0,
    }


def _checked(reply: Any, *, count: int) -> RetrievedDocuments:
    """Return the verdict if it is about the documents 1 to `count`; raise `ValueError` if not."""
    found = FORM.read(reply)
    ids = [document.id for document in found.documents]
    if sorted(ids) != [*range(1, count + 1)]:
        raise ValueError(f"documents: expected each id from 1 to {count} once, got {ids}")
    for statement in found.statements:
        if not {*statement.documents} <= {*ids}:
            raise ValueError(f"statements: expected ids from 1 to {count}, got {statement.documents}")
    return found
