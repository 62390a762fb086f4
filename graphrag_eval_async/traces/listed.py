"""Answers of TEXT2SPARQL and plain answers, in an array or in lines; their questions are found
by text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from graphrag_eval_async.errors import TraceError
from graphrag_eval_async.records.aliases import BENCHMARK_STEP
from graphrag_eval_async.traces.plain import describe_keys
from graphrag_eval_async.traces.trace import Trace, to_response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.traces.trace import TraceOptions

TEXT2SPARQL = "text2sparql"
"""Name of the format of answers of that benchmark."""

PLAIN = "plain"
"""Name of the format of responses with the text of a question in place of its id."""

READ_KEYS = {
    TEXT2SPARQL: ("question", "answer", "query", "qname"),
    PLAIN: ("question", "answer"),
}
"""The keys of an answer that do not stay in the response as they are, by format."""


def steps_of_query(query: str | None, name: str = BENCHMARK_STEP) -> list[dict[str, Any]]:
    """Return a list of one step, named `name`, for a SPARQL query; empty for an empty query."""
    if not query or query.isspace():
        return []
    return [{"name": name, "status": "success", "args": {"query": query}}]


def read_listed(value: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """Convert one answer to a response.

    Args:
        value: the answer. An answer of TEXT2SPARQL has a query, which becomes the response's step.
        format: `TEXT2SPARQL` or `PLAIN`.
        options: see `TraceOptions`.

    Raises:
        TraceError: the answer lacks a key of its format.
    """
    # A value that is no object has none of the keys.
    answer: dict[str, Any] = {}
    if isinstance(value, dict):
        answer = value

    if format == PLAIN:
        _check_plain(value, answer, options)
        steps = answer.get("actual_steps")
    else:
        _check_text2sparql(value, answer)
        step_names = options.get("step_names") or {}
        step_name = step_names.get(BENCHMARK_STEP, BENCHMARK_STEP)
        steps = steps_of_query(answer.get("query"), step_name)
        if not options.get("question_id"):
            question_name = answer.get("qname")
            options["question_id"] = str(question_name) if question_name else None

    question = answer.get("question")
    trace = Trace(
        format,
        question=question if isinstance(question, str) else None,
        dataset=answer.get("dataset"),
        answer=answer.get("answer"),
    )
    response = to_response(trace, **options)
    response["actual_steps"] = steps
    if options.get("questions") is None:
        # Without a reference set, the response brings its own question.
        response["question"] = question
    return {key: field for key, field in response.items() if field is not None}


def _check_plain(value: Any, answer: Mapping[str, Any], options: TraceOptions) -> None:
    """Check that a plain answer has a question, or that the options have its id.

    `answer` is the same as `value`, or empty if `value` is no object.

    Raises:
        TraceError: the answer has no question, and the options have no id.
    """
    if "question" not in answer and not options.get("question_id"):
        keys = describe_keys(value)
        raise TraceError(f"expected an object with question and answer, got {keys}")


def _check_text2sparql(value: Any, answer: Mapping[str, Any]) -> None:
    """Check that an answer of TEXT2SPARQL has a query or an error, and that a query is text.

    The query may also be None. `answer` is the same as `value`, or empty if `value` is no object.

    Raises:
        TraceError: the answer has neither the key ``query`` nor ``error``, or its query is neither
            text nor None.
    """
    if "query" not in answer and "error" not in answer:
        keys = describe_keys(value)
        raise TraceError(f"expected an object with question and query, got {keys}")
    query = answer.get("query")
    if not isinstance(query, str | None):
        raise TraceError(f"query: expected text, got {describe_keys(query)}")
