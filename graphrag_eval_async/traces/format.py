"""Which format a history has, and lines of logs that hold histories rather than responses."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack

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
    explain_refused_at_sight,
    layout_of,
)
from graphrag_eval_async.traces.grouping import GRACE, TRACE_IDLE, TraceGroups
from graphrag_eval_async.traces.listed import PLAIN, READ_KEYS, read_listed
from graphrag_eval_async.traces.plain import (
    describe_keys,
    dict_at,
    first_value,
    list_at,
    load_history,
    open_history,
)
from graphrag_eval_async.traces.reading import convert
from graphrag_eval_async.traces.trace import (
    FAILURES,
    FailureRule,
    QuestionTexts,
    as_failure_test,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.records import Question, Record, Response
    from graphrag_eval_async.traces.layouts import Layout
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

OTLP = "otlp"
"""Name of the format of spans, of which a trace has many, in any lines."""

_OTLP_KEYS = {"resourceSpans", "resource_spans", "resourceLogs", "resourceMetrics"}
"""Keys of lines of OpenTelemetry."""

_OPENAI_ITEM_ENDINGS = ("_call", "_call_output", "_call_item", "_output_item")
"""How kinds of items of OpenAI end."""

_LANGCHAIN_KINDS = ("human", "ai", "tool", "system", "AIMessageChunk")
"""Kinds of messages of LangChain."""

_OPENAI_CALL_KEYS = {"tool_calls", "function_call"}
"""Keys of messages with calls of OpenAI."""

_TEXT_FORMATS = ("openai", "langchain", "anthropic")
"""The formats that a message without calls may have, which look alike there."""

_LISTED_KEYS = 10
"""How many keys of a line an error lists."""


def response_from_openai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of OpenAI's APIs or Agents SDK to a response, as `response_from_trace`
    does.

    The history is one of:

    - messages of Chat Completions,
    - items or an answer of the Responses API,
    - of the Agents SDK: `result.to_input_list()`, a `RunState` as JSON, or what a
      `TracingProcessor` exports.
    """
    return read_trace(load_history(messages), "openai", **options)


def response_from_langchain(history: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert a history of LangChain or LangGraph to a response, as `response_from_trace` does.

    The history is one of:

    - messages: objects, or what `messages_to_dict`, `model_dump` or `dumpd` make of them,
    - the final state of a graph,
    - the events of `astream_events` with version "v2".

    The output of a tool is the content of its message. If only the message's `artifact` is a table
    or a list of documents, the artifact is the output.
    """
    return read_trace(load_history(history), "langchain", **options)


def response_from_anthropic(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Anthropic's Messages API to a response, as `response_from_trace` does.

    The messages are those that you send, with the last answer appended.
    """
    return read_trace(load_history(messages), "anthropic", **options)


def response_from_pydantic_ai(messages: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Convert messages of Pydantic AI, version 1 or 2, to a response, as `response_from_trace`
    does.

    The messages are `result.all_messages()` or `result.all_messages_json()`. An answer that is an
    object becomes JSON.
    """
    return read_trace(load_history(messages), "pydantic-ai", **options)


def response_from_trace(trace: Any, **options: Unpack[TraceOptions]) -> dict[str, Any]:
    """Recognise the format of a history and convert it to a response.

    Args:
        trace: one history: dicts and lists, objects of a framework, or JSON text.
        options: see `TraceOptions`.

    Returns:
        a response for `evaluate_stream`. Its `trace_format` names the format, and its
        `trace_problems` lists what is wrong with the trace.

    Raises:
        TraceError: the trace is text but not JSON, or nothing of a known format is in it.
        UsageError: an option has an invalid value.
    """
    return read_trace(load_history(trace), "auto", **options)


def read_trace(history: Any, format: str, **options: Unpack[TraceOptions]) -> dict[str, Any]:  # noqa: A002
    """Convert a history to a response.

    Args:
        history: the history, as JSON values.
        format: one of `FORMATS`, or "auto", which recognises all of them.
        options: see `TraceOptions`.

    Raises:
        TraceError: the history has another format, or no known one, or calls or results that cannot
            be read. If its format is refused by name, the message says what to export instead.
    """
    refusal = explain_refused_at_sight(history)
    if refusal is None:
        try:
            response = _convert_by_format(history, format, options)
        except TraceError:
            refusal = explain_refused(history)
            if refusal is None:
                raise
        else:
            if response["actual_steps"]:
                return response
            # Without steps, the history may only look like one of the format.
            refusal = explain_refused(history)
            if refusal is None:
                return response
    raise TraceError(f"no known format; {refusal}")


def _convert_by_format(history: Any, format: str, options: TraceOptions) -> dict[str, Any]:  # noqa: A002
    """Convert a history to a response, in the format that the history has.

    Raises:
        TraceError: the history has another format than `format`, or no known one, or calls or
            results that cannot be read.
    """
    layout = layout_of(history)
    if layout is not None:
        if format not in ("auto", layout.name):
            raise TraceError(f"its format is {layout.name}, not {format}")
        return convert(history, layout.name, options, layout)
    if format == "auto":
        format = _detect_format_without_layout(history)  # noqa: A001

    possible_formats = _formats_of_items(history)
    has_texts_alone = all(formats == _TEXT_FORMATS for formats in possible_formats)
    if format in LAYOUT_NAMES and has_texts_alone:
        # Without calls, messages of many formats look alike, so the name decides.
        return convert(history, format, options, _layout_for_texts(format))

    name = "openai" if format in ("responses", "agents") else format
    if possible_formats and not any(name in formats for formats in possible_formats):
        detected = _detect_format_without_layout(history)
        raise TraceError(f"its format is {detected}, not {format}")
    return convert(history, format, options)


def _layout_for_texts(format: str) -> Layout | None:  # noqa: A002
    """Return the layout by which messages without calls are read in a format of the table.

    None for LangChain, whose only layout in the table is that of intermediate steps, which are no
    messages.
    """
    if format == "langchain":
        return None
    return next(layout for layout in LAYOUTS if layout.name == format)


def detect(history: Any) -> str:
    """Return the name of the format of a history, one of `FORMATS`.

    Raises:
        TraceError: the history has none of these formats.
    """
    refusal = explain_refused_at_sight(history)
    if refusal is not None:
        raise TraceError(f"no known format; {refusal}")
    layout = layout_of(history)
    if layout is not None:
        return layout.name
    return _detect_format_without_layout(history)


def _detect_format_without_layout(history: Any) -> str:
    """Return the name of the format of a history that fits no row of the table of layouts.

    Raises:
        TraceError: the history has none of `FORMATS`. If its format is refused by name, the message
            says what to export instead.
    """
    if isinstance(history, dict) and not _OTLP_KEYS.isdisjoint(history):
        raise TraceError(
            "a line of OpenTelemetry holds spans of many traces; read it with the format otlp"
        )
    possible_formats = _formats_of_items(history)
    may_be_refused = not possible_formats or possible_formats[0] == _TEXT_FORMATS
    if may_be_refused:
        refusal = explain_refused(history)
        if refusal is not None:
            raise TraceError(f"no known format; {refusal}")
    if possible_formats:
        formats_of_first_item = possible_formats[0]
        return formats_of_first_item[0]  # The likeliest one comes first.
    known = f"{', '.join(FORMATS)}, and if named {', '.join(READ_KEYS)}"
    raise TraceError(f"no known format; it has {describe_keys(history)}. Known are {known}")


def _formats_of_items(history: Any) -> list[tuple[str, ...]]:
    """Return the formats that each item of a history may have, the likeliest first.

    Items of unknown formats are left out. If any item tells more than plain messages do, which look
    alike in all `_TEXT_FORMATS`, then plain messages are left out, too.
    """
    items = open_history(history).messages
    possible_formats = [_formats_of_item(item) for item in items if isinstance(item, dict)]
    known_formats = [formats for formats in possible_formats if formats]
    # Items without calls have exactly these formats.
    formats_with_calls = [formats for formats in known_formats if formats != _TEXT_FORMATS]
    return formats_with_calls or known_formats


def _formats_of_item(item: dict[str, Any]) -> tuple[str, ...]:
    """Return the formats that an item of a history may have, the likeliest first.

    The result is empty if no known format has such an item.
    """
    is_text = isinstance(item.get("content"), str)
    if len(item) == 2 and is_text and item.get("role") in ("user", "assistant"):
        return _TEXT_FORMATS  # Most items are like this.

    message = dict_at(item, "message") or item  # A choice of a completion has an envelope.
    kind = str(message.get("type"))
    if "parts" in message:
        if message.get("kind") in ("request", "response"):
            return ("pydantic-ai",)
        return ()
    if _is_of_langchain(message, kind):
        return ("langchain",)
    if "blocks" in message:
        # LlamaIndex writes what is said in blocks. Other formats would read an empty message.
        return ()
    if _has_block_of_anthropic(message):
        return ("anthropic",)
    is_of_agents_sdk = message.get("object") in ("trace", "trace.span") or "raw_item" in message
    if is_of_agents_sdk or kind.endswith(_OPENAI_ITEM_ENDINGS):
        return ("openai",)
    if message.get("role") == "tool" or not _OPENAI_CALL_KEYS.isdisjoint(message):
        return ("openai", "langchain")  # LangChain accepts the dicts of OpenAI, too.
    if "role" in message or kind == "message":
        return _TEXT_FORMATS
    return ()


def _is_of_langchain(message: dict[str, Any], kind: str) -> bool:
    """Return whether a message or event has a key or kind that only LangChain writes."""
    if kind in _LANGCHAIN_KINDS and ("content" in message or "data" in message):
        return True
    return "lc" in message or str(message.get("event")).startswith("on_")


def _has_block_of_anthropic(message: dict[str, Any]) -> bool:
    """Return whether the content of a message has a call or result as Anthropic writes them."""
    for block in list_at(message, "content"):
        if not isinstance(block, dict):
            continue
        kind = str(block.get("type"))
        if kind.endswith(("tool_use", "tool_result")):
            return True
    return False


class _PathStep(NamedTuple):
    """An object or list on a path into a line, and the key or index of the next step."""

    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """The value that the step leads to."""
        return self.holder[self.key]


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
    failed: FailureRule = FAILURES
    step_names: Mapping[str, str] | None = None
    turn: Literal["last", "all"] = "last"
    grace: float = GRACE
    trace_idle: float = TRACE_IDLE
    late: str | None = None

    def __post_init__(self) -> None:
        """Check the values of all attributes.

        Raises:
            UsageError: an attribute has an invalid value.
        """
        names = ["auto", *FORMATS, OTLP, *READ_KEYS]
        if self.name not in names:
            raise UsageError(f"format: expected one of {', '.join(names)}, got {self.name!r}")
        for attribute in ("select", "question_id"):
            path = getattr(self, attribute)
            if path is None:
                continue
            if not isinstance(path, str) or not all(path.split(".")):
                raise UsageError(
                    f"{attribute}: expected a path such as payload.messages, got {path!r}"
                )
        if self.turn not in ("last", "all"):
            raise UsageError(f'turn: expected "last" or "all", got {self.turn!r}')
        as_failure_test(self.failed)  # This raises an error if the rule is invalid.
        if self.name == OTLP:
            # This raises an error if one of the times is invalid.
            TraceGroups(grace=self.grace, trace_idle=self.trace_idle)
            if self.select is not None:
                raise UsageError("select: lines of OpenTelemetry (otlp) are read as they are")

    @property
    def is_grouped(self) -> bool:
        """Whether a trace has parts in several lines."""
        return self.name == OTLP

    @property
    def is_listed(self) -> bool:
        """Whether an array in the log holds many records, rather than one trace."""
        return self.name in READ_KEYS

    def convert(
        self, value: Any, questions: QuestionTexts | None = None, *, question_id: str | None = None
    ) -> dict[str, Any]:
        """Convert the trace in a line to a response.

        Fields beside the trace are added to the response, and override what the trace says.

        Args:
            value: the JSON value of the line.
            questions: finds the question by its text, if its id is not known.
            question_id: id of the question, if it is known.

        Raises:
            TraceError: nothing is at the path of the trace, or the trace cannot be read.
        """
        # A line has no trace if its agent failed, or if it is a response already.
        if self._has_error_in_place_of_trace(value):
            return self._convert_error(value, questions, question_id)

        path, trace = self._select_trace(value)
        may_be_response = self.name in ("auto", OTLP)
        if may_be_response and isinstance(trace, dict) and "actual_steps" in trace:
            if question_id is None:
                return trace
            return trace | {"question_id": question_id}
        if not trace and (self.is_listed or self.select is not None):
            raise TraceError("it is empty")
        if self.is_grouped:
            raise TraceError("not a response: spans are grouped before")

        # The id of the question stands at its path in the line, or beside the trace.
        line_fields = self._fields_beside_trace(path, trace)
        if self.question_id is not None and question_id is None:
            question_id = str(_follow(value, self.question_id, "the question id")[-1].value)
        if question_id is None:
            question_id = line_fields.get("question_id")

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
        for key, field in line_fields.items():
            if key not in _FIELDS_OF_TRACES:
                response[key] = field
        return response

    def _has_error_in_place_of_trace(self, value: Any) -> bool:
        """Return whether a line has an error, and no trace, since its agent failed too early."""
        if self.select is None or not isinstance(value, dict):
            return False
        first_key = self.select.partition(".")[0]
        return bool(value.get("error")) and not value.get(first_key)

    def _convert_error(
        self, value: dict[str, Any], questions: QuestionTexts | None, question_id: str | None
    ) -> dict[str, Any]:
        """Convert a line that has an error in place of a trace to a response.

        The question is searched in the inputs of the run, at the key ``inputs`` of the line.
        """
        line = value | {"question": _question_of_inputs(value.get("inputs"))}
        # Without a trace, the line is read as a plain answer.
        plain_format = replace(self, name=PLAIN, select=None)
        return plain_format.convert(line, questions, question_id=question_id)

    def _select_trace(self, value: Any) -> tuple[list[_PathStep], Any]:
        """Return the path to the trace in a line, and the trace, decoded if it is text.

        The path is empty if the line is the trace.

        Raises:
            TraceError: nothing is at the path, or text there is not JSON.
        """
        path: list[_PathStep] = []
        trace = value
        if self.select is not None:
            path = _follow(value, self.select, "the trace")
            trace = path[-1].value
        if isinstance(trace, str):
            trace = load_history(trace)
        return path, trace

    def _fields_beside_trace(self, path: list[_PathStep], trace: Any) -> dict[str, Any]:
        """Return the fields of a line that stand beside its trace, for the response.

        These are the other fields of each object on the path to the trace, and of the object that
        holds the history, if there is such an object.

        Args:
            path: the path to the trace; empty if the line is the trace.
            trace: the trace.
        """
        fields: dict[str, Any] = {}
        for holder, key in path:
            if isinstance(holder, dict):
                fields |= self._fields_without(holder, [key], _API_KEYS)
        if isinstance(trace, dict):
            history_keys = self._keys_of_history(trace)
            if history_keys:
                api_keys = _API_KEYS | _FRAMEWORK_KEYS
                fields |= self._fields_without(trace, history_keys, api_keys)

        if self.question_id is not None:
            fields.pop(self.question_id.partition(".")[0], None)
        if fields.get("status") not in (None, "success", "error"):
            # A response must have one of these statuses.
            fields["trace_status"] = fields.pop("status")
        return fields

    def _keys_of_history(self, trace: dict[str, Any]) -> list[str]:
        """Return the keys at which an object holds the history; empty if it holds no history."""
        if self.is_listed:
            return list(READ_KEYS[self.name])
        layout = layout_of(trace)
        if layout is not None:
            return layout.holder_keys
        return open_history(trace).holder_keys

    def _fields_without(
        self, holder: dict[str, Any], history_keys: list[str], api_keys: set[str]
    ) -> dict[str, Any]:
        """Return the fields of an object that a response gets, without the history in the object.

        Private fields, whose keys begin with an underscore, and fields that are None are left out.

        Args:
            holder: the object.
            history_keys: the keys at which the object holds the history.
            api_keys: keys that only objects of APIs and frameworks have. Most fields of such an
                object are settings, so only its id, model and error are returned.
        """
        is_of_api = not api_keys.isdisjoint(holder)
        if is_of_api and not self.is_listed:
            keys = holder.keys() & _KEPT_API_KEYS
        else:
            keys = holder.keys() - set(history_keys)
        return {
            key: holder[key] for key in keys if not key.startswith("_") and holder[key] is not None
        }


_API_KEYS = {"object", "class", "$schemaVersion"}
"""Keys by which an object of an API is recognised."""

_FRAMEWORK_KEYS = {
    "epoch",  # A sample of Inspect.
    "app_name",  # A session of ADK.
    "appName",
    "run_type",  # A run of LangSmith.
    "llm_context",  # The state of an agent of AutoGen.
    "content_type",  # The output of Agno.
    "timing",  # The result of smolagents.
    "schemaType",  # A log of invocations of Bedrock.
    "automatic_function_calling_history",  # A response of Gemini.
    "automaticFunctionCallingHistory",
}
"""Keys by which objects of frameworks are recognised."""

_KEPT_API_KEYS = {"id", "model", "error"}
"""Keys of these objects that are the response's own."""

_FIELDS_OF_TRACES = ("question_id", "actual_steps", "trace_format", "trace_problems")
"""Fields of a response that only its trace tells."""


def _question_of_inputs(inputs: Any) -> Any:
    """Return the question in the inputs of a run; None if there is none.

    `inputs` is an object with the question at a usual key, or a history of messages.
    """
    if isinstance(inputs, dict):
        question = first_value(inputs, "question", "input", "query")
        if question:
            return question
    with suppress(TraceError):
        return read_trace(inputs, "auto").get("question")
    return None


def _follow(value: Any, path: str, description: str) -> list[_PathStep]:
    """Return the steps on a path of keys and indices, such as ``payload.messages``.

    A key may itself contain dots. If several keys of an object match, the longest is taken.

    Args:
        value: the value in which the path begins.
        path: the keys and indices, separated by dots.
        description: what stands at the path, such as "the trace", for the error.

    Raises:
        TraceError: the path leads nowhere.
    """
    steps: list[_PathStep] = []
    holder = value
    parts = path.split(".")
    while parts:
        key: str | int | None = None
        if isinstance(holder, list) and parts[0].isdecimal() and int(parts[0]) < len(holder):
            key = int(parts[0])
        elif isinstance(holder, dict):
            key = _longest_key(holder, parts)
        if key is None:
            content = type(value).__name__
            if isinstance(value, dict):
                content = ", ".join(repr(line_key) for line_key in list(value)[:_LISTED_KEYS])
            raise TraceError(f"{description} is not at {path!r}; the line has {content}")

        steps.append(_PathStep(holder, key))
        holder = holder[key]
        count_of_parts = str(key).count(".") + 1  # A key with dots takes several parts.
        parts = parts[count_of_parts:]
    return steps


def _longest_key(holder: dict[str, Any], parts: list[str]) -> str | None:
    """Return the longest key of an object that consists of the first parts of a path.

    The parts are joined by dots. Keys without a value do not count. None if no key is left.
    """
    for count in range(len(parts), 0, -1):
        key = ".".join(parts[:count])
        if holder.get(key) is not None:
            return key
    return None


def format_for(questions: Mapping[str, Question], format: str | TraceFormat) -> TraceFormat:  # noqa: A002
    """Return a format of logs, which may be given by its name.

    Raises:
        UsageError: the format needs a reference set, and there is none.
    """
    trace_format = format if isinstance(format, TraceFormat) else TraceFormat(name=format)
    has_reference_set = not isinstance(questions, AnyQuestion)
    if not has_reference_set and trace_format.name != PLAIN:
        raise UsageError(
            f"format: without a reference set, expected {PLAIN}; {trace_format.name} needs one"
        )
    return trace_format


class UnreadTrace(Line):
    """A line that was read, but has no trace of which a response can be made.

    It may also stand for a trace in several lines.

    Attributes:
        problem: why no response can be made, for the message of the reject.
    """

    problem: str


def convert_record(
    record: Record, trace_format: TraceFormat, texts: QuestionTexts | None
) -> dict[str, Any] | Reject:
    """Convert the trace in a record to a response, or return a reject that says why not.

    Args:
        record: the record, such as a line of a log.
        trace_format: how to read the trace.
        texts: finds the question by its text, if the record has no id of a question.
    """
    if isinstance(record, UnreadTrace):
        return reject(record, "not_a_trace", record.problem)
    if not isinstance(record, Line):
        # It is a line that is too long, or a record without JSON text.
        return reject_unread(record)
    try:
        return trace_format.convert(load(record.data, offset=record.offset), texts)
    except InvalidRecord as error:
        return reject(record, error.reason, str(error))
    except TraceError as error:
        return reject(record, "not_a_trace", str(error))


def record_reader(
    trace_format: TraceFormat, questions: Mapping[str, Question]
) -> Callable[[Record], Response | Reject]:
    """Return a function that converts a record with a trace to a checked response or a reject."""
    read_response = partial(read_record, questions=questions)
    # Questions are found by their texts if the format does not say where their ids are.
    texts = None
    if trace_format.question_id is None and not isinstance(questions, AnyQuestion):
        texts = QuestionTexts(questions.values())

    def read_traced(record: Record) -> Response | Reject:
        """Convert the trace in a record to a response, and check the response."""
        response = convert_record(record, trace_format, texts)
        if isinstance(response, Reject):
            if response.reason == "not_a_trace":
                return response
            # For other reasons, the reject is that of a line without a trace.
            return read_response(record)

        assert isinstance(record, Line)  # noqa: S101  (nothing else has a response)
        result = read_response(record._replace(data=orjson.dumps(response)))
        if not isinstance(result, Reject):
            return result
        problems = response.get("trace_problems", ())
        return reject(record, result.reason, "; ".join([result.message, *problems]))

    return read_traced
