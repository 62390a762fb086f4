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
    from collections.abc import Iterable, Iterator, Mapping

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
"""The inputs that a response and its question may have, by the names of ragas."""


def inputs_of(case: Case) -> dict[str, Any]:
    """Return the inputs of a metric that is about one question and its answer."""
    actual_steps = case.actual_steps or ()
    reference_steps = [*_reference_steps(case)]
    inputs = {
        "user_input": _text_or_none(case.question),
        "response": _text_or_none(case.actual_answer),
        "reference": _text_or_none(case.reference_answer),
        "retrieved_contexts": _contexts(actual_steps),
        "retrieved_context_ids": _document_ids(actual_steps),
        "reference_contexts": _contexts_of_reference(reference_steps),
        "reference_context_ids": _document_ids(reference_steps),
    }
    return {name: value for name, value in inputs.items() if value}


def inputs_of_conversation(case: Case) -> dict[str, Any]:
    """Return the inputs of a metric that is about all messages of a conversation.

    The conversation is the question, a call and its output for each step, and the answer.
    """
    from ragas.messages import AIMessage, HumanMessage, ToolMessage

    inputs = inputs_of(case)
    messages: list[Any] = []
    if has_text(case.question):
        messages.append(HumanMessage(content=case.question))
        for step in case.actual_steps or ():
            messages.append(AIMessage(content="", tool_calls=[_tool_call(step)]))
            messages.append(ToolMessage(content=_output_of(step)))
        messages.append(AIMessage(content=case.actual_answer or ""))
    inputs["user_input"] = messages
    inputs["reference_tool_calls"] = [_tool_call(step) for step in _reference_steps(case)]
    return {name: value for name, value in inputs.items() if value}


def _text_or_none(text: str | None) -> str | None:
    if has_text(text):
        return text
    return None


def _reference_steps(case: Case) -> Iterator[Mapping[str, Any]]:
    """Yield the reference steps of all groups."""
    for group in case.reference_steps or ():
        yield from group


def _contexts(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the texts that retrieval steps found, and the rows that queries returned, each once.

    If a query returned too many rows, the last ones are left out.
    """
    texts: list[str] = []
    for step in steps:
        if is_retrieval(step):
            texts += texts_of(step) or ()
        elif is_query(step):
            table = table_of(step)
            is_empty = table is not None and table.boolean is None and not table.row_count
            if not is_empty:
                shown, _ = cut_off([show_results(table, step)])
                texts.append(shown)
    return [text for text in dict.fromkeys(texts) if text]


def _contexts_of_reference(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the texts of the retrieval steps of a reference, each once."""
    texts: list[str] = []
    for step in steps:
        if step.get("name") == "retrieval":
            texts += texts_of(step) or ()
    return [text for text in dict.fromkeys(texts) if text]


def _document_ids(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the ids of the documents of retrieval steps, in their order."""
    ids = []
    for step in steps:
        if step.get("name") != "retrieval" or step.get("status", "success") != "success":
            continue
        try:
            documents = read_documents(step.get("output"))
        except MalformedStep:
            continue
        ids += [str(document["id"]) for document in documents if "id" in document]
    return ids


def _tool_call(step: Mapping[str, Any]) -> Any:
    """Return a step as ragas has calls of tools."""
    from ragas.messages import ToolCall

    arguments = step.get("args")
    if not isinstance(arguments, dict):
        arguments = {}
    return ToolCall(name=str(step.get("name")), args=arguments)


def _output_of(step: Mapping[str, Any]) -> str:
    """Return the output of a step as text, or else its error."""
    output = step.get("output")
    if output is None:
        output = step.get("error")
    return "" if output is None else str(output)
