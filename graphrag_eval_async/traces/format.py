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

# Keys of lines of OpenTelemetry.
_OF_OTLP = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
# How kinds of items of OpenAI end.
_ITEMS = ("_call", "_call_output", "_call_item", "_output_item")
# Kinds of messages of LangChain.
_LANGCHAIN = ("human", "ai", "tool", "system", "AIMessageChunk")
# Keys of messages with calls of OpenAI.
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


_TEXTS = ("openai", "langchain", "anthropic")
"""The formats that a message without calls may have, which look alike there."""


def _formats_in(value: Any) -> list[tuple[str, ...]]:
    """Return the formats that each item of a history may have, the likeliest first.

    Items without calls are left out, unless there are no others.
    """
    formats = [_formats_of(item) for item in opened(value)[0] if isinstance(item, dict)]
    formats = [names for names in formats if names]
    with_calls = [names for names in formats if names is not _TEXTS]
    return with_calls or formats


def _formats_of(item: dict[str, Any]) -> tuple[str, ...]:
    """Return the formats that an item of a history may have; none if it is not known."""
    is_text = isinstance(item.get("content"), str)
    if len(item) == 2 and is_text and item.get("role") in ("user", "assistant"):
        return _TEXTS  # Most items are like this.

    message = dict_at(item, "message") or item  # In a choice of a completion.
    kind = str(message.get("type"))
    if "parts" in message:
        if message.get("kind") in ("request", "response"):
            return ("pydantic-ai",)
        return ()
    if _is_of_langchain(message, kind):
        return ("langchain",)
    if "blocks" in message:
        return ()  # A message of LlamaIndex: without its blocks, it would say nothing.

    block_kinds = [
        str(block.get("type")) for block in list_at(message, "content") if isinstance(block, dict)
    ]
    if any(block_kind.endswith(("tool_use", "tool_result")) for block_kind in block_kinds):
        return ("anthropic",)
    is_of_agents = message.get("object") in ("trace", "trace.span") or "raw_item" in message
    if is_of_agents or kind.endswith(_ITEMS):
        return ("openai",)
    if message.get("role") == "tool" or not _OPENAI.isdisjoint(message):
        return ("openai", "langchain")  # LangChain takes dicts of OpenAI, too.
    if "role" in message or kind == "message":
        return _TEXTS
    return ()


def _is_of_langchain(message: dict[str, Any], kind: str) -> bool:
    """Return whether a message or event has a key or kind that only LangChain writes."""
    if kind in _LANGCHAIN and ("content" in message or "data" in message):
        return True
    return "lc" in message or str(message.get("event")).startswith("on_")


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
        name: one of `FORMATS`, such as "openai", "langchain" or "vercel"; "otlp"; "text2sparql" for
            answers of that benchmark or "plain" for responses with `question` in place of an id,
            both also in an array; or "auto", which recognises all of `FORMATS`, line by line.
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
            raise UsageError(f"format: expected one of {', '.join(names)}, got {self.name!r}")
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
        """Return the response that the trace in the JSON value of a line makes.

        Keys beside the trace are the response's own, and override what the trace says.

        Args:
            value: the JSON value of a line.
            questions: where the question is found by its text, if its id is not known.
            question_id: id of the question, if it is known.

        Raises:
            TraceError: nothing is at the path of the trace, or it cannot be read.
        """
        if self._has_failed_before(value):
            line = value | {"question": _question_of_inputs(value.get("inputs"))}
            plain = replace(self, name=PLAIN, select=None)
            return plain.convert(line, questions, question_id=question_id)

        path, trace = self._select_trace(value)
        if self.name in ("auto", OTLP) and isinstance(trace, dict) and "actual_steps" in trace:
            if question_id is not None:
                trace = trace | {"question_id": question_id}
            return trace  # It is a response already.
        if not trace and (self.is_listed or self.select is not None):
            raise TraceError("it is empty")
        if self.is_grouped:
            raise TraceError("not a response: spans are grouped before")

        own_keys = self._keys_beside(path, trace)
        if self.question_id is not None and question_id is None:
            holder, key = _follow(value, self.question_id, "the question id")[-1]
            question_id = str(holder[key])
        if question_id is None:
            question_id = own_keys.get("question_id")

        read = read_listed if self.is_listed else read_trace
        response = read(
            trace,
            self.name,
            question_id=question_id,
            questions=questions,
            failed=self.failed,
            step_names=self.step_names or {},
            turn=self.turn,
        )
        for key, own_value in own_keys.items():
            if key not in _OF_TRACES:
                response[key] = own_value
        return response

    def _select_trace(self, value: Any) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the path to the trace in a line, as `_follow` does, and the trace."""
        path: list[tuple[Any, Any]] = []
        trace = value
        if self.select is not None:
            path = _follow(value, self.select, "the trace")
            holder, key = path[-1]
            trace = holder[key]
        if isinstance(trace, str):
            trace = history_of(trace)
        return path, trace

    def _has_failed_before(self, value: Any) -> bool:
        """Return whether a line has an error where `select` has its trace otherwise."""
        place = (self.select or "").partition(".")[0]
        if not place or not isinstance(value, dict):
            return False
        return bool(value.get("error")) and not value.get(place)

    def _keys_beside(self, path: list[tuple[Any, Any]], trace: Any) -> dict[str, Any]:
        """Return the keys beside a trace, with their values, which are the response's own.

        They are those of the objects on the path to the trace, and of an object that holds it.
        """
        own_keys: dict[str, Any] = {}
        for holder, key in path:
            if isinstance(holder, dict):
                own_keys |= self._keys_but(holder, [key], _APIS)
        read_keys = self._keys_that_are_read(trace)
        if isinstance(trace, dict) and read_keys:
            own_keys |= self._keys_but(trace, read_keys, _APIS | _OF_FRAMEWORKS)

        if self.question_id is not None:
            own_keys.pop(self.question_id.partition(".")[0], None)
        if own_keys.get("status") not in (None, "success", "error"):
            # A response has no other status.
            own_keys["trace_status"] = own_keys.pop("status")
        return own_keys

    def _keys_that_are_read(self, trace: Any) -> list[str]:
        """Return the keys of an object that holds a history, which are no others' own."""
        if self.is_listed:
            return list(TAKEN[self.name])
        layout = None
        if isinstance(trace, dict):
            layout = layout_of(trace)
        if layout is not None:
            return layout.holder_keys
        return opened(trace)[1]

    def _keys_but(
        self, holder: dict[str, Any], read_keys: list[str], of_apis: set[str]
    ) -> dict[str, Any]:
        """Return the keys of an object but those that are read, private, or without a value.

        Of an object of an API, which has settings of its own, few are kept.
        """
        if not self.is_listed and not of_apis.isdisjoint(holder):
            keys = holder.keys() & _OF_APIS
        else:
            keys = holder.keys() - set(read_keys)
        return {
            key: holder[key] for key in keys if not key.startswith("_") and holder[key] is not None
        }


# Keys by which an object of an API is told.
_APIS = {"object", "class", "$schemaVersion"}
# Keys of samples of Inspect, sessions of ADK and runs of LangSmith.
_OF_FRAMEWORKS = {"epoch", "app_name", "appName", "run_type"}
# Keys of these objects that are the response's own.
_OF_APIS = {"id", "model", "error"}
# Keys of a response that only its trace tells.
_OF_TRACES = ("question_id", "actual_steps", "trace_format", "trace_problems")


def _question_of_inputs(inputs: Any) -> Any:
    """Return the text of the question in what a run was given; None if it is not found."""
    if isinstance(inputs, dict):
        text = first(inputs, "question", "input", "query")
        if text:
            return text
    with suppress(TraceError):
        return read_trace(inputs, "auto").get("question")
    return None


def _follow(value: Any, path: str, what: str) -> list[tuple[Any, Any]]:
    """Return the objects and lists on a path, each with the key or index of the next.

    A key may itself have dots: the longest that is there counts.

    Raises:
        TraceError: the path leads nowhere; the message begins with `what`.
    """
    steps: list[tuple[Any, Any]] = []
    here = value
    parts = path.split(".")
    while parts:
        key: Any = None
        if isinstance(here, list) and parts[0].isdecimal() and int(parts[0]) < len(here):
            key = int(parts[0])
        elif isinstance(here, dict):
            key = _longest_key(here, parts)
        if key is None:
            keys = type(value).__name__
            if isinstance(value, dict):
                keys = ", ".join(map(repr, list(value)[:10]))
            raise TraceError(f"{what} is not at {path!r}; the line has {keys}")

        steps.append((here, key))
        here = here[key]
        parts = parts[str(key).count(".") + 1 :]
    return steps


def _longest_key(holder: dict[str, Any], parts: list[str]) -> str | None:
    """Return the longest key with a value that is a beginning of the rest of a path, or None."""
    for count in range(len(parts), 0, -1):
        key = ".".join(parts[:count])
        if holder.get(key) is not None:
            return key
    return None


def format_for(questions: Mapping[str, Question], given: str | TraceFormat) -> TraceFormat:
    """Return the format of a log.

    Raises:
        UsageError: it needs a reference set, and there is none.
    """
    traces = given if isinstance(given, TraceFormat) else TraceFormat(name=given)
    if isinstance(questions, AnyQuestion) and traces.name != PLAIN:
        raise UsageError(
            f"format: without a reference set, expected {PLAIN}; {traces.name} needs one"
        )
    return traces


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
    """Return a function that makes a response of a record that holds a trace."""
    read = partial(read_record, questions=questions)
    is_searched = traces.question_id is None and not isinstance(questions, AnyQuestion)
    texts = QuestionTexts(questions.values()) if is_searched else None

    def read_traced(record: Record) -> Response | Reject:
        response = convert_record(record, traces, texts)
        if isinstance(response, Reject):
            return response if response.reason == "not_a_trace" else read(record)
        assert isinstance(record, Line)  # noqa: S101  (nothing else has a response)
        result = read(record._replace(data=orjson.dumps(response)))
        if not isinstance(result, Reject):
            return result
        problems = response.get("trace_problems", ())
        return reject(record, result.reason, "; ".join([result.message, *problems]))

    return read_traced
