"""Which format a history has, and lines of logs that hold histories rather than responses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import orjson

from graphrag_eval_async.errors import TraceError, UsageError
from graphrag_eval_async.records import Line, Reject, read_record
from graphrag_eval_async.records.decoding import InvalidRecord, load
from graphrag_eval_async.records.question import AnyQuestion
from graphrag_eval_async.records.reject import reject, reject_unread
from graphrag_eval_async.removed import explain_removed
from graphrag_eval_async.traces.frameworks import (
    LAYOUT_NAMES,
    LAYOUTS,
    explain_refused,
    layout_of,
)
from graphrag_eval_async.traces.grouping import GRACE, TRACE_IDLE, TraceGroups
from graphrag_eval_async.traces.listed import PLAIN, TAKEN, read_listed
from graphrag_eval_async.traces.plain import dict_at, first, history_of, list_at, opened, shown
from graphrag_eval_async.traces.reading import convert
from graphrag_eval_async.traces.trace import FAILURES, Failed, QuestionTexts, as_function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.traces.trace import TraceOptions


FORMATS = (
    "openai",
    "responses",
    "agents",
    "langchain",
    "anthropic",
    "pydantic-ai",
    *(name for name in LAYOUT_NAMES if name != "langchain"),
)
"""Names of the formats of which a history has one trace."""

OTLP = "otlp"  # The format of spans, of which a trace has many, in any lines.

_OF_OTLP = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
# How kinds of items of OpenAI end.
_ITEMS = (
    "_call",
    "_call_output",
    "_call_item",
    "_output_item",
)
_LANGCHAIN = ("human", "ai", "tool", "system", "AIMessageChunk")
_OPENAI = {"tool_calls", "function_call"}


def response_from_openai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of OpenAI's APIs or Agents SDK to a response, as `response_from_trace`
    does.

    It has messages of Chat Completions; items or an answer of the Responses API; or of the Agents
    SDK, `result.to_input_list()`, a `RunState` as JSON, or what a `TracingProcessor` exports.
    """
    return read_trace(history_of(messages), "openai", **options)


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response, as `response_from_trace` does.

    It has messages (objects, `messages_to_dict`, `model_dump` or `dumpd`), or is the final state of
    a graph, or the events of `astream_events` with version "v2". If the content of a tool's message
    has no rows, its `artifact` is the output, provided that this is a table or a list of documents.
    """
    return read_trace(history_of(history), "langchain", **options)


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response, as `response_from_trace` does.

    They are those that you send, with the last answer appended.
    """
    return read_trace(history_of(messages), "anthropic", **options)


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response, as `response_from_trace`
    does.

    They are `result.all_messages()` or `result.all_messages_json()`. An object as an answer becomes
    JSON.
    """
    return read_trace(history_of(messages), "pydantic-ai", **options)


def response_from_trace(trace: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Recognise the format of a history and convert it to a response.

    Args:
        trace: one history: dicts and lists, objects of a framework, or JSON text.
        options: see `TraceOptions`.

    Returns:
        a response for `evaluate_stream`. Its `trace_format` names the format, and its
        `trace_problems` lists what is wrong with the trace.

    Raises:
        TraceError: text is not JSON, or nothing of a known format is in it.
        UsageError: an option has an invalid value.
    """
    return read_trace(history_of(trace), "auto", **options)


def read_trace(value: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """Return the response that a history makes, in one of `FORMATS` or in any ("auto").

    Raises:
        TraceError: the history is of another format, or of none, or has calls or results that
            cannot be read.
    """
    layout = layout_of(value)
    if format == "auto":
        format = _detect_other(value) if layout is None else layout.name  # noqa: A001
    if layout is not None:
        if layout.name != format:
            raise TraceError(f"its format is {layout.name}, not {format}")
        return convert(value, format, options, layout)

    name = format
    if format in ("responses", "agents"):
        name = "openai"
    formats = _formats_in(value)
    if format in LAYOUT_NAMES and all(names is _TEXTS for names in formats):
        # Without calls, messages of many formats look alike.
        named = next(layout for layout in LAYOUTS if layout.name == format)
        return convert(value, format, options, named if name != "langchain" else None)
    if formats and not any(name in names for names in formats):
        raise TraceError(f"its format is {_detect_other(value)}, not {format}")
    return convert(value, format, options)


def detect(value: Any) -> str:
    """Return the name of the format of a history.

    Raises:
        TraceError: it has none of `FORMATS`.
    """
    layout = layout_of(value)
    if layout is not None:
        return layout.name
    return _detect_other(value)


def _detect_other(value: Any) -> str:
    """Return the name of the format of a history that has no layout.

    Raises:
        TraceError: it has none of `FORMATS`.
    """
    if isinstance(value, dict) and not _OF_OTLP.isdisjoint(value):
        raise TraceError(
            "a line of OpenTelemetry holds spans of many traces; read it with the format otlp"
        )
    formats = _formats_in(value)
    if not formats or formats[0] is _TEXTS:
        refused = explain_refused(value)
        if refused is not None:
            raise TraceError(f"no known format; {refused}")
    if formats:
        return formats[0][0]
    known = f"{', '.join(FORMATS)}, and if named {', '.join(TAKEN)}"
    raise TraceError(f"no known format; it has {shown(value)}. Known are {known}")


_TEXTS = ("openai", "langchain", "anthropic")  # Messages that are only text look alike there.


def _formats_in(value: Any) -> list[tuple[str, ...]]:
    """The formats, the likeliest first, that each item of a history may have; of text only if
    all are.
    """
    found = [
        each for item in opened(value)[0] if isinstance(item, dict) and (each := _formats_of(item))
    ]
    return [names for names in found if names is not _TEXTS] or found


def _formats_of(item: dict[str, Any]) -> tuple[str, ...]:
    if (
        len(item) == 2
        and item.get("role") in ("user", "assistant")
        and isinstance(item.get("content"), str)
    ):
        return _TEXTS  # As most are.
    item = dict_at(item, "message") or item  # Of a choice of a completion.
    kind = str(item.get("type"))
    if "parts" in item:
        return ("pydantic-ai",) if item.get("kind") in ("request", "response") else ()
    is_langchain = kind in _LANGCHAIN and ("content" in item or "data" in item)
    if is_langchain or "lc" in item or str(item.get("event")).startswith("on_"):
        return ("langchain",)
    if "blocks" in item:
        return ()  # A message of LlamaIndex: without its blocks, it would say nothing.
    blocks = [block for block in list_at(item, "content") if isinstance(block, dict)]
    if any(str(block.get("type")).endswith(("tool_use", "tool_result")) for block in blocks):
        return ("anthropic",)
    if item.get("object") in ("trace", "trace.span") or "raw_item" in item or kind.endswith(_ITEMS):
        return ("openai",)
    if item.get("role") == "tool" or not _OPENAI.isdisjoint(item):
        return ("openai", "langchain")  # LangChain takes dicts of OpenAI, too.
    return _TEXTS if "role" in item or kind == "message" else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFormat:
    """How to read a log of traces.

    Each line has one trace, except with "otlp": there, lines have spans of OpenTelemetry, and a
    trace is evaluated `grace` seconds after its root span came, or after `trace_idle` seconds
    without a span of it. The evaluated traces are kept for late spans, up to 32 MiB.

    A line may hold a trace in two keys: first ``messages``, ``input``, ``request`` or the like,
    then ``output``, ``response``, ``completion`` or ``choices``. Other keys are those of the
    response and override the trace. An API's object, with the key ``object``, gives only ``id``,
    ``model`` and ``error``. A ``status`` other than "success" and "error" becomes ``trace_status``.

    Attributes:
        name: "openai", "responses", "agents", "langchain", "anthropic", "pydantic-ai", "otlp",
            "text2sparql" for answers of that benchmark or "plain" for responses with `question` in
            place of an id, both also in an array, or "auto", which recognises all but these, line
            by line.
        select: path to the trace in a line, of keys and indices, such as ``payload.messages``. None
            means that the whole line is the trace.
        question_id: path to the question's id in a line; with "otlp", the name of the attribute
            that has it. Without it, the question is found by its text.
        failed: texts that results of failed calls begin with, or a function of the step's name and
            the result's text; used if the trace does not say which calls failed.
        step_names: name of the step by name of the tool.
        turn: "last" takes the steps and tokens since the user's last message, "all" those of all
            turns.
        grace: seconds to wait for late spans after the root span, of a source that is live; for
            "otlp".
        trace_idle: seconds to wait for a root span after the last span; for "otlp".
        late: file for the responses of traces with spans that came after their evaluation; for
            "otlp".

    Raises:
        UsageError: an attribute has an invalid value.
    """

    name: str = "auto"
    select: str | None = None
    question_id: str | None = None
    failed: Failed = FAILURES
    step_names: Mapping[str, str] | None = None
    turn: Literal["last", "all"] = "last"
    grace: float = GRACE
    trace_idle: float = TRACE_IDLE
    late: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        names = ["auto", *FORMATS, OTLP, *TAKEN]
        if self.name not in names:
            expected = f"format: expected one of {', '.join(names)}, got {self.name!r}"
            raise UsageError(explain_removed(f"--format {self.name}") or expected)
        for key in ("select", "question_id"):
            path = getattr(self, key)
            if path is not None and (not isinstance(path, str) or not all(path.split("."))):
                raise UsageError(f"{key}: expected a path such as payload.messages, got {path!r}")
        if self.turn not in ("last", "all"):
            raise UsageError(f'turn: expected "last" or "all", got {self.turn!r}')
        as_function(self.failed)
        if self.name == OTLP:
            TraceGroups(grace=self.grace, trace_idle=self.trace_idle)  # It checks them.
            if self.select is not None:
                raise UsageError("select: lines of OpenTelemetry (otlp) are read as they are")

    @property
    def is_grouped(self) -> bool:
        """Whether a trace has parts in several lines."""
        return self.name == OTLP

    @property
    def is_listed(self) -> bool:
        """Whether an array holds many records; else it is one trace."""
        return self.name in TAKEN

    def convert(
        self, value: Any, questions: QuestionTexts | None = None, *, question_id: str | None = None
    ) -> dict[str, Any]:
        """The response that the trace in the JSON value of a line makes; to a question, where that
        is known.

        Keys beside the trace are the response's own, and override what the trace says.
        """
        place = (self.select or "").partition(".")[0]
        if place and isinstance(value, dict) and value.get("error") and not value.get(place):
            # It failed before it had a trace.
            value = value | {"question": _asked(value.get("inputs"))}
            return replace(self, name=PLAIN, select=None).convert(
                value, questions, question_id=question_id
            )
        way = [] if self.select is None else _way(value, self.select, "the trace")
        trace = way[-1][0][way[-1][1]] if way else value
        trace = history_of(trace) if isinstance(trace, str) else trace
        if self.name in ("auto", OTLP) and isinstance(trace, dict) and "actual_steps" in trace:
            return trace if question_id is None else trace | {"question_id": question_id}
        if not trace and (self.is_listed or self.select is not None):
            raise TraceError("it is empty")
        if self.is_grouped:
            raise TraceError("not a response: spans are grouped before")
        own = self._beside(way, trace)
        if self.question_id is not None and question_id is None:
            holder, key = _way(value, self.question_id, "the question id")[-1]
            question_id = str(holder[key])
        read = read_listed if self.is_listed else read_trace
        response = read(
            trace,
            self.name,
            question_id=own.get("question_id") if question_id is None else question_id,
            questions=questions,
            failed=self.failed,
            step_names=self.step_names or {},
            turn=self.turn,
        )
        return response | {key: each for key, each in own.items() if key not in _OF_TRACES}

    def _beside(self, way: list[tuple[Any, Any]], trace: Any) -> dict[str, Any]:
        """What the objects on the way to a trace, and the trace itself, have beside the trace."""
        own: dict[str, Any] = {}
        if self.is_listed:
            taken_whole = list(TAKEN[self.name])
        else:
            layout = layout_of(trace) if isinstance(trace, dict) else None
            taken_whole = opened(trace)[1] if layout is None else layout.holder_keys
        for holder, *taken in (*way, (trace, *taken_whole)):
            if isinstance(holder, dict) and taken:  # Objects of APIs have settings of theirs.
                is_api = not self.is_listed and holder.keys() & _APIS
                keys = holder.keys() & _OF_APIS if is_api else holder.keys() - taken
                own |= {
                    key: holder[key] for key in keys if key[:1] != "_" and holder[key] is not None
                }
        if self.question_id is not None:
            own.pop(self.question_id.partition(".")[0], None)
        if own.get("status") not in (None, "success", "error"):  # Another is none of a response.
            own["trace_status"] = own.pop("status")
        return own


# The last are keys of samples of Inspect, sessions of ADK and runs of LangSmith.
_APIS = {"object", "class", "$schemaVersion", "epoch", "app_name", "appName", "run_type"}
_OF_APIS = {"id", "model", "error"}
_OF_TRACES = ("question_id", "actual_steps", "trace_format", "trace_problems")


def _asked(inputs: Any) -> Any:
    """The text of the question in what a run was given; None if it is not found."""
    text = first(inputs, "question", "input", "query") if isinstance(inputs, dict) else None
    with suppress(TraceError):
        return text or read_trace(inputs, "auto").get("question")
    return None


def _way(value: Any, path: str, what: str) -> list[tuple[Any, Any]]:
    """The objects and lists down to what stands at a path, each with its key, which may itself
    have dots.
    """
    way = []
    here, parts = value, path.split(".")
    while parts:
        key: Any = None
        if isinstance(here, list) and parts[0].isdecimal() and int(parts[0]) < len(here):
            key = int(parts[0])
        elif isinstance(here, dict):
            names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
            key = next((name for name in names if here.get(name) is not None), None)
        if key is None:
            keys = (
                ", ".join(map(repr, list(value)[:10]))
                if isinstance(value, dict)
                else type(value).__name__
            )
            raise TraceError(f"{what} is not at {path!r}; the line has {keys}")
        way.append((here, key))
        here, parts = here[key], parts[str(key).count(".") + 1 :]
    return way


def format_for(questions: Mapping[str, Question], given: str | TraceFormat) -> TraceFormat:
    """The given format; a `UsageError` if it needs a reference set, and there is none."""
    found = given if isinstance(given, TraceFormat) else TraceFormat(name=given)
    if isinstance(questions, AnyQuestion) and found.name != PLAIN:
        raise UsageError(
            f"format: without a reference set, expected {PLAIN}; {found.name} needs one"
        )
    return found


class UnreadTrace(Line):
    """A line, or what is known of a trace in several lines, of which no response can be made.

    Attributes:
        problem: why, for the message of the reject.
    """

    problem: str


def convert_record(
    record: Record, traces: TraceFormat, texts: QuestionTexts | None
) -> dict[str, Any] | Reject:
    """Return the response that the trace of a record makes, or why it makes none."""
    if isinstance(record, UnreadTrace):
        return reject(record, "not_a_trace", record.problem)
    if not isinstance(record, Line):
        return reject_unread(record)
    try:
        return traces.convert(load(record.data, offset=record.offset), texts)
    except InvalidRecord as error:
        return reject(record, error.reason, str(error))
    except TraceError as error:
        return reject(record, "not_a_trace", str(error))


def record_reader(
    traces: TraceFormat, questions: Mapping[str, Question]
) -> Callable[[Record], Response | Reject]:
    """What makes a response of a record that holds a trace."""
    read = partial(read_record, questions=questions)
    is_searched = traces.question_id is None and not isinstance(questions, AnyQuestion)
    texts = QuestionTexts(questions.values()) if is_searched else None

    def read_traced(record: Record) -> Response | Reject:
        response = convert_record(record, traces, texts)
        if isinstance(response, Reject):
            return response if response.reason == "not_a_trace" else read(record)
        assert isinstance(record, Line)  # noqa: S101  (nothing else has a response)
        found = read(record._replace(data=orjson.dumps(response)))
        if not isinstance(found, Reject):
            return found
        problems = response.get("trace_problems", ())
        return reject(record, found.reason, "; ".join([found.message, *problems]))

    return read_traced
