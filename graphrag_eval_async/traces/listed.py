"""Answers of TEXT2SPARQL and plain answers, in an array or in lines; their questions are found
by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.aliases import BENCHMARK_STEP
from graphrag_eval_async.traces.plain import shown
from graphrag_eval_async.traces.trace import Trace, to_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.traces.trace import TraceOptions

TEXT2SPARQL, PLAIN = "text2sparql", "plain"
TAKEN = {TEXT2SPARQL: ("question", "answer", "query", "qname"), PLAIN: ("question", "answer")}
"""The keys that do not stay in a response, by format."""


def steps_of_query(query: str | None, name: str = BENCHMARK_STEP) -> list[dict[str, Any]]:
    """Return the step of an answer that is a SPARQL query; none if the query is empty."""
    if not query or query.isspace():
        return []
    return [{"name": name, "status": "success", "args": {"query": query}}]


def read_listed(value: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """Return the response of one answer: of TEXT2SPARQL, whose step is its query, or plain."""
    record = value if isinstance(value, dict) else {}
    if format == PLAIN:
        _check_plain(value, record, options)
        steps = record.get("actual_steps")
    else:
        _check_text2sparql(value, record)
        step_names = options.get("step_names") or {}
        steps = steps_of_query(record.get("query"), step_names.get(BENCHMARK_STEP, BENCHMARK_STEP))
        if not options.get("question_id"):
            name = record.get("qname")
            options["question_id"] = str(name) if name else None

    question = record.get("question")
    trace = Trace(
        format,
        question=question if isinstance(question, str) else None,
        dataset=record.get("dataset"),
        answer=record.get("answer"),
    )
    response = to_response(trace, **options)
    response["actual_steps"] = steps
    if options.get("questions") is None:
        # Without a reference set, the response brings its own question.
        response["question"] = question
    return {key: field for key, field in response.items() if field is not None}


def _check_plain(value: Any, record: Mapping[str, Any], options: TraceOptions) -> None:
    """Raise a `TraceError` if a plain answer has no question."""
    if "question" not in record and not options.get("question_id"):
        raise TraceError(f"expected an object with question and answer, got {shown(value)}")


def _check_text2sparql(value: Any, record: Mapping[str, Any]) -> None:
    """Raise a `TraceError` if an answer of TEXT2SPARQL has neither query nor error."""
    if "query" not in record and "error" not in record:
        raise TraceError(f"expected an object with question and query, got {shown(value)}")
    query = record.get("query")
    if not isinstance(query, str | None):
        raise TraceError(f"query: expected text, got {shown(query)}")
