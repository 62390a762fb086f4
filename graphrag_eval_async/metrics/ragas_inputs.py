"""What metrics of ragas get: parts of a response and its question, by the names of ragas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.metrics.metric import has_text
from graphrag_eval_async.metrics.retrieved import (
    cut_off,
    is_query,
    is_retrieval,
    show_results,
    table_of,
    texts_of,
)
from graphrag_eval_async.steps.retrieval import read_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from graphrag_eval_async.metrics.metric import Case

INPUTS = {
    "user_input": "the question",
    "response": "the answer",
    "reference": "the reference answer",
    "retrieved_contexts": "the texts of retrieval steps and the rows of queries",
    "retrieved_context_ids": "the ids of the documents of retrieval steps",
    "reference_contexts": "the texts of the reference's retrieval steps",
    "reference_context_ids": "the ids of their documents",
    "reference_tool_calls": "the reference steps",
}
"""The inputs that a response and its question may have, in words, by the names of ragas."""


def read_inputs(case: Case, names: Collection[str], *, is_conversation: bool) -> dict[str, Any]:
    """Return the inputs of these names, as far as a response and its question have them.

    Args:
        case: the response and its question.
        names: the names of ragas.
        is_conversation: whether `user_input` is all messages, not the question alone.
    """
    readers = _READERS
    if is_conversation:
        readers = _READERS | {"user_input": _conversation}
    inputs = {name: read(case) for name, read in readers.items() if name in names}
    return {name: value for name, value in inputs.items() if value}


def _conversation(case: Case) -> list[Any]:
    """Return the question, a call and its output for each step, and the answer, as messages."""
    from ragas.messages import AIMessage, HumanMessage, ToolMessage

    if not has_text(case.question):
        return []
    messages: list[Any] = [HumanMessage(content=case.question)]
    for step in case.actual_steps or ():
        messages.append(AIMessage(content="", tool_calls=[_tool_call(step)]))
        messages.append(ToolMessage(content=_output_of(step)))
    messages.append(AIMessage(content=case.actual_answer or ""))
    return messages


def _question(case: Case) -> str | None:
    return _text_or_none(case.question)


def _answer(case: Case) -> str | None:
    return _text_or_none(case.actual_answer)


def _reference_answer(case: Case) -> str | None:
    return _text_or_none(case.reference_answer)


def _text_or_none(text: str | None) -> str | None:
    """Return a text, or None if it is blank."""
    if has_text(text):
        return text
    return None


def _contexts(case: Case) -> list[str]:
    """Return the texts that retrieval steps found, and the rows that queries returned, each once.

    If a query returned too many rows, the last ones are left out.
    """
    texts: list[str] = []
    for step in case.actual_steps or ():
        if is_retrieval(step):
            texts += texts_of(step) or ()
        elif is_query(step):
            table = table_of(step)
            is_empty = table is not None and table.boolean is None and not table.row_count
            if not is_empty:
                shown, _ = cut_off([show_results(table, step)])
                texts.append(shown)
    return _distinct(texts)


def _contexts_of_reference(case: Case) -> list[str]:
    """Return the texts of the retrieval steps of the reference, each once."""
    texts: list[str] = []
    for step in _reference_steps(case):
        if step.get("name") == "retrieval":
            texts += texts_of(step) or ()
    return _distinct(texts)


def _distinct(texts: Iterable[str]) -> list[str]:
    """Return the texts that are not empty, each once."""
    return [text for text in dict.fromkeys(texts) if text]


def _document_ids(case: Case) -> list[str]:
    """Return the ids of the documents of successful retrieval steps, in their order."""
    return _ids_in(step for step in case.actual_steps or () if is_retrieval(step))


def _document_ids_of_reference(case: Case) -> list[str]:
    """Return the ids of the documents of the retrieval steps of the reference."""
    return _ids_in(step for step in _reference_steps(case) if step.get("name") == "retrieval")


def _ids_in(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the documents in outputs; an output that cannot be read has none."""
    ids: list[str] = []
    for step in steps:
        try:
            documents = read_documents(step.get("output"))
        except MalformedStep:
            continue
        ids += [str(document["id"]) for document in documents if "id" in document]
    return ids


def _reference_steps(case: Case) -> list[Mapping[str, Any]]:
    """Return the reference steps of all groups."""
    return [step for group in case.reference_steps or () for step in group]


def _reference_calls(case: Case) -> list[Any]:
    """Return the reference steps as ragas has calls of tools."""
    return [_tool_call(step) for step in _reference_steps(case)]


def _tool_call(step: Mapping[str, Any]) -> Any:
    """Return a step as ragas has a call of a tool."""
    from ragas.messages import ToolCall

    arguments = step.get("args")
    if not isinstance(arguments, dict):
        arguments = {}
    return ToolCall(name=str(step.get("name")), args=arguments)


def _output_of(step: Mapping[str, Any]) -> str:
    """Return the output of a step as text, or else its error."""
    for key in ("output", "error"):
        value = step.get(key)
        if value is not None:
            return str(value)
    return ""


_READERS: dict[str, Callable[[Case], Any]] = {
    "user_input": _question,
    "response": _answer,
    "reference": _reference_answer,
    "retrieved_contexts": _contexts,
    "retrieved_context_ids": _document_ids,
    "reference_contexts": _contexts_of_reference,
    "reference_context_ids": _document_ids_of_reference,
    "reference_tool_calls": _reference_calls,
}
"""What reads each input of a response."""
