"""Inputs of metrics of ragas: parts of a response and its question, by the names of ragas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.metrics.metric import has_text
from graphrag_eval_async.metrics.retrieved import (
    is_query,
    is_retrieval,
    join_results,
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
    """Return the inputs of a metric of ragas that a response and its question have, by name.

    Missing and empty inputs are left out.

    Args:
        case: the response and its question.
        names: the names of the metric's inputs in ragas. Names of inputs that no response has are
            ignored.
        is_conversation: whether `user_input` is the whole conversation instead of the question.
    """
    readers = dict(INPUT_READERS)
    if is_conversation:
        readers["user_input"] = _conversation
    inputs = {}
    for name, read_input in readers.items():
        if name not in names:
            continue
        value = read_input(case)
        if value:
            inputs[name] = value
    return inputs


def _conversation(case: Case) -> list[Any]:
    """Return a response and its question as messages of ragas; none if the question is blank.

    The messages are the question, then a tool call and the tool's output for each step, and at last
    the answer.
    """
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
    """Return the question, or None if it is blank."""
    return _text_or_none(case.question)


def _answer(case: Case) -> str | None:
    """Return the actual answer, or None if it is missing or blank."""
    return _text_or_none(case.actual_answer)


def _reference_answer(case: Case) -> str | None:
    """Return the reference answer, or None if it is missing or blank."""
    return _text_or_none(case.reference_answer)


def _text_or_none(text: str | None) -> str | None:
    """Return a text, or None if it is missing or blank."""
    if has_text(text):
        return text
    return None


def _contexts(case: Case) -> list[str]:
    """Return the texts that retrieval steps returned, and one text with the rows of each query.

    Repeated texts are left out, and so are the last rows of a query that returned too many.
    """
    texts: list[str] = []
    for step in case.actual_steps or ():
        if is_retrieval(step):
            texts += texts_of(step) or ()
        elif is_query(step):
            table = table_of(step)
            # Only a table can be empty; results of another form and answers to ASK are shown.
            is_empty = table is not None and table.boolean is None and table.row_count == 0
            if not is_empty:
                rows, _ = join_results([show_results(table, step)])
                texts.append(rows)
    return _distinct(texts)


def _contexts_of_reference(case: Case) -> list[str]:
    """Return the texts that the reference's retrieval steps returned, without repetitions."""
    texts: list[str] = []
    for step in _reference_steps(case):
        if step.get("name") == "retrieval":
            texts += texts_of(step) or ()
    return _distinct(texts)


def _distinct(texts: Iterable[str]) -> list[str]:
    """Return the texts without empty and repeated ones, in their order."""
    return [text for text in dict.fromkeys(texts) if text]


def _document_ids(case: Case) -> list[str]:
    """Return the ids of the documents that successful retrieval steps returned, in their order."""
    return _ids_in(step for step in case.actual_steps or () if is_retrieval(step))


def _document_ids_of_reference(case: Case) -> list[str]:
    """Return the ids of the documents that the reference's retrieval steps returned."""
    return _ids_in(step for step in _reference_steps(case) if step.get("name") == "retrieval")


def _ids_in(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the documents that retrieval steps returned, in their order.

    An output that cannot be read, and a document without an id, are skipped.
    """
    ids: list[str] = []
    for step in steps:
        try:
            documents = read_documents(step.get("output"))
        except MalformedStep:
            continue
        ids += [str(document["id"]) for document in documents if "id" in document]
    return ids


def _reference_steps(case: Case) -> list[Mapping[str, Any]]:
    """Return the reference steps of a question, from all groups in their order."""
    return [step for group in case.reference_steps or () for step in group]


def _reference_calls(case: Case) -> list[Any]:
    """Return the reference steps as tool calls of ragas."""
    return [_tool_call(step) for step in _reference_steps(case)]


def _tool_call(step: Mapping[str, Any]) -> Any:
    """Return a step as a tool call of ragas; without arguments if these are not a dict."""
    from ragas.messages import ToolCall

    arguments = step.get("args")
    if not isinstance(arguments, dict):
        arguments = {}
    return ToolCall(name=str(step.get("name")), args=arguments)


def _output_of(step: Mapping[str, Any]) -> str:
    """Return the output of a step as text; its error if it has no output; "" if it has neither."""
    for key in ("output", "error"):
        value = step.get(key)
        if value is not None:
            return str(value)
    return ""


INPUT_READERS: dict[str, Callable[[Case], Any]] = {
    "user_input": _question,
    "response": _answer,
    "reference": _reference_answer,
    "retrieved_contexts": _contexts,
    "retrieved_context_ids": _document_ids,
    "reference_contexts": _contexts_of_reference,
    "reference_context_ids": _document_ids_of_reference,
    "reference_tool_calls": _reference_calls,
}
"""The function that reads each input from a response and its question."""
