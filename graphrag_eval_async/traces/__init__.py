"""Messages, events and spans of agent frameworks as responses; none of the frameworks is
imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from graphrag_eval_async.removed import explain_removed

if TYPE_CHECKING:
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

_OTHER_MODULES = {"TraceOptions": "trace", "responses_from_otlp": "otlp"}
"""The modules of public names that are not in `traces.format`."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, or name what replaced a removed function.

    Most programs read no traces, and the modules that read them take long to import.
    """
    if name in __all__:
        module = import_module(f"{__name__}.{_OTHER_MODULES.get(name, 'format')}")
        return getattr(module, name)
    if message := explain_removed(f"{name}()"):
        raise ImportError(message, name=__name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
