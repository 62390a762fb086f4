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
    from graphrag_eval_async.traces.trace import TraceOptions

TEXT2SPARQL, PLAIN = "text2sparql", "plain"
TAKEN = {TEXT2SPARQL: ("question", "answer", "query", "qname"), PLAIN: ("question", "answer")}
"""The keys that do not stay in a response, by format."""


def steps_of_query(query: str | None, name: str = BENCHMARK_STEP) -> list[dict[str, Any]]:
    """The step of an answer that is a SPARQL query; none if the query is empty."""
    step = {"name": name, "status": "success", "args": {"query": query}}
    return [step] if query and not query.isspace() else []


def read_listed(value: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """The response that an answer in one of these formats makes; of TEXT2SPARQL, its step is its
    query.
    """
    record = value if isinstance(value, dict) else {}
    asked, query, steps = record.get("question"), record.get("query"), record.get("actual_steps")
    is_plain, question_id = format == PLAIN, options.get("question_id")
    if not (
        question_id or "question" in record if is_plain else record.keys() & {"query", "error"}
    ):
        keys = "question and answer" if is_plain else "question and query"
        raise TraceError(f"expected an object with {keys}, got {shown(value)}")
    if not is_plain:
        if not isinstance(query, str | None):
            raise TraceError(f"query: expected text, got {shown(query)}")
        name = (options.get("step_names") or {}).get(BENCHMARK_STEP, BENCHMARK_STEP)
        steps, named = steps_of_query(query, name), record.get("qname")
        options["question_id"] = question_id or (str(named) if named else None)
    text, dataset = asked if isinstance(asked, str) else None, record.get("dataset")
    trace = Trace(format, question=text, dataset=dataset, answer=record.get("answer"))
    response = to_response(trace, **options) | {"actual_steps": steps}
    if options.get("questions") is None:  # Without a reference set, it names its question.
        response["question"] = asked
    return {key: each for key, each in response.items() if each is not None}
