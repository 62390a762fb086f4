"""What an adapter has read of a trace, and the response that it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import orjson

from graphrag_eval_async.errors import TraceError, UsageError
from graphrag_eval_async.records.aliases import UNNAMED
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.calls import Call as Call
from graphrag_eval_async.traces.calls import Early, Pending
from graphrag_eval_async.traces.plain import MAX_DEPTH, halves, history_of, said, shown, text_in, text_of
from graphrag_eval_async.traces.questions import QuestionTexts as QuestionTexts

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question

FAILURES = (
    "Error:",  # Common, and how LangGraph begins: "Error: ... Please fix your mistakes."
    "Error invoking tool ",  # LangGraph, where arguments do not fit.
    "Error executing tool ",  # Servers of MCP in Python.
    "An error occurred while running the tool",  # OpenAI Agents SDK.
)
"""How the output of a failed call begins where its format has no other way to tell: by default."""

ANSWERED = "Final result processed."
"""What the tool returns by which Pydantic AI's agents give an answer that is no text: its arguments."""

MAX_PROBLEMS = 20
"""How many problems a response lists."""

MAX_CHARACTERS = 200
"""How long the text of one is."""

Failed = Callable[[str, str], bool] | Sequence[str]


class TraceOptions(TypedDict, total=False):
    """The options of all adapters.

    Attributes:
        question_id: id of the question that the trace answers. Without it, `questions` is searched.
        questions: a reference set, or its questions. The question with the text of the user's last message
            is taken; if only case, blanks or punctuation differ, `trace_problems` says so.
        failed: which results are errors if the trace does not say: a list of texts that such results begin
            with (default `FAILURES`), or a function of the step's name and the result's text.
        step_names: name of the step by name of the tool: ``{"run_sparql": "sparql_query"}``.
        turn: "last" takes the steps since the user's last message, "all" the steps of all turns.
    """

    question_id: str | None
    questions: Iterable[Question] | QuestionTexts | None
    failed: Failed
    step_names: Mapping[str, str]
    turn: Literal["last", "all"]


@dataclass
class Trace:
    """Collects what an adapter reads, in the order of the trace.

    Attributes:
        format: its name.
        calls: of the current turn or, with `turn` "all", of all.
        question: the last text of the user.
        answer: the last text of the agent that came without calls.
        error: why the agent failed, if it did.
        tokens: by ``input_tokens`` and so on.
        elapsed_sec: in seconds.
        more: keys for the response as they are, such as the ids of the trace.
        found: whether the history is of the format, even if nothing else was read.
    """

    format: str
    turn: Literal["last", "all"] = "last"
    calls: list[Call] = field(default_factory=list)
    question: str | None = None
    answer: str | None = None
    error: str | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    elapsed_sec: float | None = None
    more: dict[str, Any] = field(default_factory=dict)
    found: bool = False
    problems: Counter[str] = field(default_factory=Counter)
    _pending: Pending = field(default_factory=Pending)
    _early: Early = field(default_factory=Early)

    def problem(self, text: str) -> None:
        """Note what is wrong with the trace, once more if it is so again."""
        self.problems[text[:MAX_CHARACTERS]] += 1

    def ask(self, text: str) -> None:
        """The user says something, which begins a turn."""
        self.question, self.answer = text, None
        if self.turn == "last":
            self.tokens.clear()
            self._take_early()
            if self.calls:
                count = len(self.calls)
                self.problem(
                    f"{count} call{'s' * (count > 1)} of earlier turns skipped; turn='all' keeps them"
                )
            self.calls = []
            self._pending = Pending()

    def call(self, name: Any, args: Any, id: Any = None) -> Call:  # noqa: A002  (as formats name it)
        """The agent calls a tool; `args` that are text are JSON, if they can be."""
        call = Call(_text_or_none(name), id_of(id))
        if call.name is None:
            self.problem("a call without a name")
        if isinstance(args, str) and args.strip():
            try:
                value = orjson.loads(args)
            except orjson.JSONDecodeError:
                self.problem(f"{call.label}: arguments are not JSON")
            else:
                if nests_deeper(value, MAX_DEPTH):
                    self.problem(f"{call.label}: arguments nest more than {MAX_DEPTH} levels deep")
                else:
                    args = value
        call.args = {} if args is None or args == "" else args
        self.answer = None
        self.calls.append(call)
        self._pending.add(call)
        early = self._early.take(call.id)
        if early is not None:
            call.output, call.failed, call.ended = early.output, early.failed, True
        return call

    def result(
        self,
        id: Any,  # noqa: A002  (as formats name it)
        output: Any,
        *,
        failed: bool | None = None,
        name: Any = None,
    ) -> None:
        """A call ends; the first that has this id and no result, or without an id this name."""
        key, name = id_of(id), _text_or_none(name)
        call = self._pending.first(key, name)
        if call is not None:
            end(call, output, failed=failed)
        elif key is not None and self._pending.knows(key):
            self.problem(f"{key}: more than one result; the first counts")
        else:
            orphan = Call(name, key)
            end(orphan, output, failed=failed)
            self._early.add(orphan)

    def waiting(self, id: Any, name: Any = None) -> Call | None:  # noqa: A002  (as formats name it)
        """The first call without a result that has this id or, without an id, this name."""
        return self._pending.first(id_of(id), _text_or_none(name))

    def knows(self, id: Any) -> bool:  # noqa: A002  (as formats name it)
        """Whether a call has this id, also if its result is there."""
        return id is not None and self._pending.knows(id_of(id))

    def identify(self, call: Call, id: Any) -> None:  # noqa: A002  (as formats name it)
        """Give a call its id, which became known later."""
        self._pending.identify(call, id_of(id))

    def reply(self, content: Any) -> None:
        """The agent says something, without calls."""
        if text := said(content):
            self.answer = text

    def finished(self) -> list[Call]:
        """The calls, after the last has been read."""
        self._take_early()
        return self.calls

    def _take_early(self) -> None:
        """Results whose calls never came are steps, too."""
        for call in self._early.take_all():
            self.problem(f"{call.label}: a result without a call")
            self.calls.append(call)

    def count(self, **tokens: Any) -> None:
        """Add tokens of one request, where they are numbers."""
        for key, value in tokens.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
                self.tokens[key] += int(value)


def end(call: Call, output: Any, *, failed: bool | None = None) -> None:
    """Give a call its result."""
    call.output, call.failed, call.ended = text_of(output), failed, True


def calls_of(value: Any, trace: Trace) -> list[Any]:
    """The calls of a message, where they are a list."""
    if isinstance(value, list):
        return value
    if value:
        trace.problem(f"calls that are no list: {text_of(value)}")
    return []


def convert(
    history: Any, name: str, read: Callable[[Any, Trace], None], options: TraceOptions
) -> dict[str, Any]:
    """The response that a history makes in the format of that name, which `read` reads."""
    value = history_of(history)
    trace = Trace(name, options.get("turn", "last"))
    given, made = halves(value)
    if given is not None and (asked := text_in(value[given])) is not None:
        trace.ask(asked)
    read(value, trace)
    if made is not None:
        trace.reply(text_in(value[made]))
    is_read = trace.found or trace.question or trace.answer or trace.more
    if value and not is_read and not trace.finished():
        raise TraceError(f"nothing of the format {name} is in it; it has {shown(value)}")
    return to_response(trace, **options)


def to_response(
    trace: Trace,
    *,
    question_id: str | None = None,
    questions: Iterable[Question] | QuestionTexts | None = None,
    failed: Failed = FAILURES,
    step_names: Mapping[str, str] | None = None,
    turn: Literal["last", "all"] = "last",  # noqa: ARG001  (`Trace` heeds it)
) -> dict[str, Any]:
    """The response that a trace makes; see `TraceOptions`."""
    trace._take_early()
    is_failed = as_function(failed)
    names = step_names or {}
    calls = [call for call in trace.calls if call.output != ANSWERED]
    steps = [_step(call, trace, is_failed, names) for call in calls]
    if len(calls) < len(trace.calls) and trace.answer is None:
        trace.answer = next(text_of(call.args) for call in reversed(trace.calls) if call.output == ANSWERED)
    if question_id is None and questions is not None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
        question_id = texts.find(trace.question, trace.problem)
    response: dict[str, Any] = {} if question_id is None else {"question_id": question_id}
    if trace.error is not None:
        response["error"] = trace.error
    if trace.answer is not None:
        response["actual_answer"] = trace.answer
    response["actual_steps"] = steps
    tokens = trace.tokens
    if tokens and "total_tokens" not in tokens:
        tokens["total_tokens"] = tokens["input_tokens"] + tokens["output_tokens"]
    response |= tokens
    if trace.elapsed_sec is not None:
        response["elapsed_sec"] = trace.elapsed_sec
    response |= {"trace_format": trace.format, **trace.more}
    if question_id is None and trace.question is not None:
        response["question"] = trace.question
    if trace.problems:
        response["trace_problems"] = listed(trace.problems)
    return response


def _step(
    call: Call, trace: Trace, failed: Callable[[str, str], bool], names: Mapping[str, str]
) -> dict[str, Any]:
    name = call.name if call.name is not None else UNNAMED
    step: dict[str, Any] = {"name": names.get(name, name)}
    if call.id is not None:
        step["id"] = str(call.id)
    if call.args is not None:
        step["args"] = call.args
    if not call.ended:
        trace.problem(f"{call.label}: no result")
        return step | {"status": "error", "error": "the trace has no result of this call"}
    output = call.output or ""
    is_error = call.failed if call.failed is not None else bool(failed(step["name"], output))
    return step | {"status": "error" if is_error else "success", "output": output}


def as_function(failed: Failed) -> Callable[[str, str], bool]:
    if callable(failed):
        return failed
    if isinstance(failed, str) or not all(isinstance(text, str) and text for text in failed):
        raise UsageError(f"failed: expected a list of texts, or a function of name and text, got {failed!r}")
    beginnings = tuple(failed)
    return lambda _, output: output.lstrip().startswith(beginnings)


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None if value is None else str(value)


def id_of(value: Any) -> str | int | None:
    """An id; text and integers are different ids, as in JSON-RPC."""
    return value if type(value) in (str, int) or value is None else str(value)


def listed(problems: Counter[str]) -> list[str]:
    """Problems as a list, with how often each was seen."""
    texts = [text if count == 1 else f"{text} ({count} times)" for text, count in problems.items()]
    more = len(texts) - MAX_PROBLEMS
    return texts if more <= 0 else [*texts[:MAX_PROBLEMS], f"... and {more} more"]
