"""Calls that spans of tools, retrievers and rerankers tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.histories import Found, Turn
from graphrag_eval_async.traces.plain import message_of_command, output_of
from graphrag_eval_async.traces.span_messages import indexed_values
from graphrag_eval_async.traces.spans import shown, structure, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.traces.spans import Span

OPERATIONS = {
    "execute_tool": "tool",
    "retrieval": "retrieval",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
}
OPENINFERENCE = {"TOOL": "tool", "RETRIEVER": "retrieval", "RERANKER": "rerank", "LLM": "model"}

_TEXTS = ("content", "page_content")


def kind_of(span: Span) -> str | None:
    """Whether a span is of a "tool", a "retrieval", a "rerank", a "model" or another; None if of no agent."""
    kind = span.attributes.get("openinference.span.kind")
    if isinstance(kind, str) and (found := OPENINFERENCE.get(kind.upper())) is not None:
        return found
    operation = span.attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and (found := OPERATIONS.get(operation)) is not None:
        return found
    if operation is None and {"gen_ai.tool.name", "gen_ai.tool.call.id"} <= span.attributes.keys():
        return "tool"  # As Pydantic AI writes it.
    beginnings = ("gen_ai.", "openinference.", "llm.", "retrieval.", "pydantic_ai.")
    return "other" if any(key.startswith(beginnings) for key in span.attributes) else None


def call_of(span: Span, kind: str, place: tuple[float, float], problem: Callable[[str], None]) -> Found:
    """The call that a span of a tool, a retrieval or a rerank tells."""
    found = _tool(span, place) if kind == "tool" else _retrieval(span, kind, place)
    found.failed = True if span.failed else found.failed
    found.ended |= span.end is not None or span.failed
    if found.output is None and span.failed:
        found.output = span.why()
    output = found.output
    if isinstance(output, str) and output.lstrip()[:1] in {"{", "["} and structure(output) is output:
        problem(f"{found.label}: the result is not the JSON that it begins as, perhaps cut")
    return found


def _tool(span: Span, place: tuple[float, float]) -> Found:
    named = span.name.removeprefix("execute_tool ") or None
    name = span.text("gen_ai.tool.name", "tool.name", "tool_call.function.name") or named
    keys = ("gen_ai.tool.call.arguments", "tool_call.function.arguments", "tool_arguments", "input.value")
    args = structure(span.first(*keys))
    found = Found(
        name, span.text("gen_ai.tool.call.id", "tool_call.id", "tool.id") or None, args, turn=Turn(place)
    )
    result = span.first("gen_ai.tool.call.result", "tool_response", "output.value")
    message = message_of_command(structure(result))
    if isinstance(message, dict) and message.get("kind") == "tool-return" and "return_value" in message:
        result = message["return_value"]  # Of Pydantic AI, beside what the model is shown.
    inner = message.get("data", message.get("kwargs")) if isinstance(message, dict) else None
    message = inner if isinstance(inner, dict) else message
    if isinstance(message, dict) and "tool_call_id" in message and "content" in message:  # Of LangChain.
        found.id = found.id or text_or_none(message["tool_call_id"]) or None
        result = output_of(message)
        found.failed = {"success": False, "error": True}.get(str(message.get("status")))
    found.output, found.ended = result, result is not None
    return found


def _retrieval(span: Span, kind: str, place: tuple[float, float]) -> Found:
    args = {
        "query": span.first("gen_ai.retrieval.query.text", "reranker.query", "input.value"),
        "k": span.first("gen_ai.retrieval.top_k", "gen_ai.request.top_k", "reranker.top_k"),
        "data_source": span.first("gen_ai.data_source.id"),
    }
    given = {key: value for key, value in args.items() if value is not None}
    found = Found(kind, span.span_id, given, turn=Turn(place))
    prefix = "retrieval.documents." if kind == "retrieval" else "reranker.output_documents."
    documents = structure(span.first("gen_ai.retrieval.documents", prefix[:-1], "output.value"))
    if isinstance(documents, dict) and isinstance(documents.get("documents"), list):
        documents = documents["documents"]
    documents = [_document(each) for each in documents] if isinstance(documents, list) else documents
    if indexed := [_document(each) for each in indexed_values(span.attributes, prefix)]:
        # Of LangChain's documents, these lack the ids.
        if not isinstance(documents, list) or len(documents) != len(indexed):
            documents = indexed
        pairs = zip(documents, indexed, strict=True)
        documents = [told | own if isinstance(told, dict) else own for told, own in pairs]
    found.output = shown(documents) if isinstance(documents, list) else documents
    found.ended = documents is not None
    return found


def _document(value: Any) -> Any:
    """A document as `steps.retrieval` reads it: with `id` and `text`."""
    if not isinstance(value, dict):
        return value
    inner = value.get("document")
    value = inner if isinstance(inner, dict) else value
    found = {key.removeprefix("document."): each for key, each in value.items()}
    for key in _TEXTS:
        if "text" not in found and isinstance(found.get(key), str):
            found["text"] = found.pop(key)
    if "metadata" in found:
        found["metadata"] = structure(found["metadata"])
    return found
