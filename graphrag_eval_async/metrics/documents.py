"""The documents that retrieval steps returned, and how a judge is asked about them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.judge.protocol import ResponseFormat
from graphrag_eval_async.metrics.metric import Calls, Case, Prompt, dumps
from graphrag_eval_async.steps import read_texts
from graphrag_eval_async.steps.retrieval import read_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

NO_TEXT = "no text was retrieved"


def is_retrieval(step: Mapping[str, Any]) -> bool:
    """Whether a step is a successful retrieval."""
    return step.get("name") == "retrieval" and step.get("status") == "success"


def texts_of(step: Mapping[str, Any]) -> list[str] | None:
    """Return the texts that a step returned by rank, "" for a document without text.

    None if they are not known: the output cannot be read, or it has documents, but none with the key `text`.
    """
    try:
        texts = read_texts(step.get("output"))
        is_known = not texts or any("text" in document for document in read_documents(step.get("output")))
    except MalformedStep:
        return None
    return texts if is_known else None


def retrieved_texts(case: Case, *, blank: bool = False) -> list[str] | None:
    """Return the texts that all successful retrieval steps of a response returned, each once.

    With `blank`, also "" for each document without text. None if no such step tells texts.
    """
    known = [
        texts
        for step in case.actual_steps or ()
        if is_retrieval(step)
        if (texts := texts_of(step)) is not None
    ]
    texts = [text for each in known for text in each]
    return (
        [*{text or place: text for place, text in enumerate(texts) if text or blank}.values()]
        if known
        else None
    )


async def ask_about(
    calls: Calls, prompt: Prompt, texts: Sequence[str], seed: int, check: Callable[[Any], None], **blocks: str
) -> tuple[Any, list[int]]:
    """Ask for a verdict on each text; return the reply, and the rank of each of its `documents`.

    Texts are shown in random order, which depends on `seed` and the question. `check` raises `ValueError` for
    what is wrong with a reply besides the ids.
    """
    ranks = [rank for rank, text in enumerate(texts) if text]
    Random(f"{seed} {blocks['question']}").shuffle(ranks)  # noqa: S311
    shown = [{"id": number, "text": texts[rank]} for number, rank in enumerate(ranks, 1)]

    def read(reply: Any) -> Any:
        found = prompt.form.read(reply)
        ids = [document.id for document in found.documents]
        if sorted(ids) != [*range(1, len(ranks) + 1)]:
            raise ValueError(f"documents: expected each id from 1 to {len(ranks)} once, got {ids}")
        check(found)
        return found

    form = ResponseFormat(prompt.form.schema, read)
    found = await Prompt(prompt.instructions, form).ask(calls, **blocks, documents=dumps(shown))
    return found, [ranks[document.id - 1] for document in found.documents]
