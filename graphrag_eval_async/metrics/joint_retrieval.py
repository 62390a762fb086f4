"""One call that judges all documents of a retrieval step, by one reference or by two."""

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
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.judge.calls import MetricCalls

ANSWER = "retrieval_answer"
CONTEXT = "retrieval_context"
OTHER = {ANSWER: CONTEXT, CONTEXT: ANSWER}
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


FORM = format_of(RetrievedDocuments)

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

    def by(self, name: str) -> RetrievedDocuments:
        """Return the verdict by the reference of the metric `name`."""
        is_answer = name == ANSWER
        documents = [
            JudgedDocument(
                each.id, each.reason, each.useful_for_answer if is_answer else each.useful_for_texts
            )
            for each in self.documents
        ]
        return RetrievedDocuments(documents, self.answer_statements if is_answer else self.texts_statements)


FORM_FOR_BOTH = format_of(RetrievedForBoth)


def joint_prompts(seed: int, *, is_shared: bool) -> list[str]:
    """Return the `prompts` of a metric; with `is_shared`, it may share its calls with the other one."""
    both = prompts_of(INSTRUCTIONS_FOR_BOTH, FORM_FOR_BOTH) if is_shared else []
    return [f"joint, seed {seed}", *prompts_of(INSTRUCTIONS, FORM), *both]


async def judge_jointly(
    name: str,
    seed: int,
    question: str,
    texts: Sequence[str],
    reference: str,
    judge: MetricCalls,
    other: str | None = None,
) -> dict[str, Any]:
    """Return recall and precision of a step's documents, each from 0 to 1.

    Recall is the share of the reference's statements that a document supports; precision is the average
    precision of the useful documents. A document without text takes up a rank and is not useful. Both are 0
    without any text. With the reference of the other metric, the call is the same as that of the other.
    """
    ranks = [rank for rank, text in enumerate(texts) if text]
    if not ranks:
        return {f"{name}_recall": 0.0, f"{name}_recall_reason": NO_TEXT, f"{name}_precision": 0.0}
    ask = partial(ask_about, texts, ranks, judge, seed)
    if other is None:
        blocks = {"question": question, "reference": reference}
        found = await ask(INSTRUCTIONS, blocks, FORM, _check_statements)
    else:
        answer, context = (reference, other) if name == ANSWER else (other, reference)
        blocks = {"question": question, "reference_answer": answer, "reference_texts": context}
        both = await ask(INSTRUCTIONS_FOR_BOTH, blocks, FORM_FOR_BOTH, _check_both)
        found = both.by(name)
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


def _check_statements(found: RetrievedDocuments) -> None:
    count = len(found.documents)
    for statement in found.statements:
        if not {*statement.documents} <= {*range(1, count + 1)}:
            raise ValueError(f"statements: expected ids from 1 to {count}, got {statement.documents}")


def _check_both(found: RetrievedForBoth) -> None:
    for name in OTHER:
        _check_statements(found.by(name))


async def ask_about(
    texts: Sequence[str],
    ranks: list[int],
    judge: MetricCalls,
    seed: int,
    instructions: str,
    blocks: Mapping[str, str],
    form: ResponseFormat[Any],
    check: Callable[[Any], None],
) -> Any:
    """Ask for a verdict on each document, shown in random order; return the reply.

    Args:
        texts: the texts of the documents.
        ranks: the places of those to show; shuffled, so that the document with the id 1 is the first.
        judge: the judge.
        seed: decides the order, together with the question.
        instructions: what to do with the `documents` and the other blocks.
        blocks: the other blocks of data, the question among them.
        form: replies with one of `documents` for each id.
        check: raises `ValueError` if something else is wrong with a reply.
    """
    Random(f"{seed} {blocks['question']}").shuffle(ranks)  # noqa: S311
    shown = [{"id": number, "text": texts[rank]} for number, rank in enumerate(ranks, 1)]

    def read(reply: Any) -> Any:
        found = form.read(reply)
        ids = [document.id for document in found.documents]
        if sorted(ids) != [*range(1, len(ranks) + 1)]:
            raise ValueError(f"documents: expected each id from 1 to {len(ranks)} once, got {ids}")
        check(found)
        return found

    prompt = partial(messages, instructions, {**blocks, "documents": dumps(shown)})
    return await judge.ask(prompt, ResponseFormat(form.schema, read))
