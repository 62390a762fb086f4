"""Messages, events and spans of agent frameworks as responses; none of the frameworks is
imported.
"""

from graphrag_eval_async.removed import explain_removed
from graphrag_eval_async.traces.format import (
    TraceFormat,
    response_from_anthropic,
    response_from_langchain,
    response_from_openai,
    response_from_pydantic_ai,
    response_from_trace,
)
from graphrag_eval_async.traces.otlp import responses_from_otlp
from graphrag_eval_async.traces.trace import TraceOptions

__all__ = [
    "TraceFormat",
    "TraceOptions",
    "response_from_anthropic",
    "response_from_langchain",
    "response_from_openai",
    "response_from_pydantic_ai",
    "response_from_trace",
    "responses_from_otlp",
]


def __getattr__(name: str) -> object:
    """Name what replaced a function that was removed."""
    if message := explain_removed(f"{name}()"):
        raise ImportError(message, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
