"""What is read of a trace, and the response that it makes."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import orjson

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.aliases import UNNAMED
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.traces.messages import ROLES, Call, id_of, name_of
from graphrag_eval_async.traces.plain import MAX_DEPTH, first, text_of
from graphrag_eval_async.traces.questions import QuestionTexts as QuestionTexts

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.traces.messages import Message

FAILURES = (
    "Error:",  # Common, and how LangGraph begins: "Error: ... Please fix your mistakes."
    "Error invoking tool ",  # LangGraph, where arguments do not fit.
    "Error executing tool ",  # Servers of MCP in Python.
    "An error occurred while running the tool",  # OpenAI Agents SDK.
)
"""How the output of a failed call begins where its format has no other way to tell: by default."""

ANSWERED = "Final result processed."
"""What the tool returns by which Pydantic AI's agents give an answer that is no text: its arguments."""

MAX_PROBLEMS, MAX_CHARACTERS = 20, 200
"""How many problems a response lists, and how long the text of one is."""

_OPENAI = ("openai", "responses", "agents")
"""Formats in which results of tools have no images."""

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


@dataclass(slots=True, eq=False)
class Trace:
    """Collects what is read, in the order of the trace.

    Attributes:
        calls: of the current turn or, with `turn` "all", of all.
        question: the last text of the user.
        answer: the last text of the agent that came without calls.
        error: why the agent failed, if it did.
        times: of the messages of the turns that count.
        more: keys for the response as they are, such as the ids of the trace.
        found: whether the history is of a known format, even if nothing else was read.
        turns: how often the user spoke.
        repeated: results of calls that have one.
    """

    format: str
    turn: Literal["last", "all"] = "last"
    calls: list[Call] = field(default_factory=list)
    question: str | None = None
    answer: str | None = None
    error: str | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    times: list[Any] = field(default_factory=list)
    elapsed_sec: float | None = None
    more: dict[str, Any] = field(default_factory=dict)
    found: bool = False
    problems: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    repeated: list[Call] = field(default_factory=list)
    _waiting: dict[Hashable, deque[Call]] = field(default_factory=dict)
    _early: dict[Hashable, deque[Call]] = field(default_factory=dict)  # Results before their calls.

    def problem(self, text: str) -> None:
        """Note what is wrong with the trace, once more if it is so again."""
        self.problems[text[:MAX_CHARACTERS]] += 1

    def add(self, message: Message) -> None:
        """Add what a message says, calls and returns."""
        shows = message.shows and self.format in _OPENAI and self.answer is None
        for part in message.parts:
            if part.ended:
                self.result(part)
            else:
                self.call(part.name, part.args, part.id).is_new = message.is_new
        # Right after a result, an image shows what was returned.
        if message.asks and not (shows and self.calls and self.calls[-1].ended):
            self.ask(message.text)
        elif message.answers:
            self.answer = message.text
        elif message.role not in ROLES:
            self.problem(f"a message of the unknown role {message.role or 'none'}")

    def ask(self, text: str) -> None:
        """The user says something, which begins a turn."""
        self.question, self.answer = text, None
        self.turns += 1
        if self.turn == "last":
            self.tokens.clear()
            self.times.clear()
            if count := len(self.finished()):
                calls = f"{count} call{'s' * (count > 1)}"
                self.problem(f"{calls} of earlier turns skipped; turn='all' keeps them")
                self.calls = []
                self._waiting.clear()

    def call(self, name: Any, args: Any, id: Any = None) -> Call:  # noqa: A002  (as formats name it)
        """The agent calls a tool; `args` that are text are JSON, if they can be."""
        call = Call(name_of(name), id_of(id), turn=self.turns)
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
        for key in (None, ("name", call.name)):
            self._waiting.setdefault(key, deque()).append(call)
        self.identify(call, call.id)
        if call.id is not None and (early := self._early.get(call.id)):
            call.take(early.popleft())
        return call

    def identify(self, call: Call, id: str | int | None) -> None:  # noqa: A002
        """Give a call its id, which may become known later."""
        if id is not None:
            call.id = id
            self._waiting.setdefault(id, deque()).append(call)

    def waiting(self, id: str | int | None, name: str | None = None) -> Call | None:  # noqa: A002
        """The first call without a result that has this id or, without an id, this name if there is one."""
        calls = self._waiting.get(("name", name) if id is None and name is not None else id)
        while calls and calls[0].ended:
            calls.popleft()
        return calls[0] if calls else None

    def knows(self, id: str | int | None) -> bool:  # noqa: A002
        """Whether a call has this id, also if it has ended."""
        return id is not None and id in self._waiting

    def result(self, result: Call, *, args: Any = None) -> None:
        """A call ends; the first that has this id and no result, or without an id this name.

        With `args`, a result whose call is not there is a call, too.
        """
        call = self.waiting(result.id, result.name)
        if call is None and args is not None and not self.knows(result.id):
            call = self.call(result.name, args, result.id)
        if call is not None:
            call.take(result)
        elif self.knows(result.id):
            self.problem(f"{result.id}: more than one result; the first counts")
            self.repeated.append(result)
        else:
            result.turn = self.turns
            self._early.setdefault(result.id, deque()).append(result)

    def take_early(self) -> list[Call]:
        """The results whose calls never came, which are kept no longer."""
        results = [result for queue in self._early.values() for result in queue]
        self._early.clear()
        return results

    def finished(self) -> list[Call]:
        """The calls, after the last has been read; results whose calls never came are steps, too."""
        for result in self.take_early():
            self.problem(f"{result.label}: a result without a call")
            self.calls.append(result)
        return self.calls

    def use(self, usage: Any) -> None:
        """Add the tokens of one request, as any of the formats has them."""
        if isinstance(usage, dict):
            self.count(
                input_tokens=first(usage, "input_tokens", "prompt_tokens", "request_tokens"),
                output_tokens=first(usage, "output_tokens", "completion_tokens", "response_tokens"),
            )
            for key in ("cache_creation_input_tokens", "cache_read_input_tokens"):  # Of Anthropic.
                self.count(input_tokens=usage.get(key))

    def count(self, **tokens: Any) -> None:
        """Add tokens of one request, where they are numbers."""
        for key, value in tokens.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53:
                self.tokens[key] += int(value)


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
    is_failed = as_function(failed)
    calls = trace.finished()
    answers = [call for call in calls if call.output == ANSWERED]
    steps = [_step(call, trace, is_failed, step_names or {}) for call in calls if call.output != ANSWERED]
    if answers and trace.answer is None:
        trace.answer = text_of(answers[-1].args)
    if question_id is None and questions is not None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
        question_id = texts.find(trace.question, trace.problem)
    tokens = trace.tokens
    if tokens and "total_tokens" not in tokens:
        tokens["total_tokens"] = tokens["input_tokens"] + tokens["output_tokens"]
    response: dict[str, Any] = {
        "question_id": question_id,
        "error": trace.error,
        "actual_answer": trace.answer,
        "actual_steps": steps,
        **tokens,
        "elapsed_sec": trace.elapsed_sec,
        "trace_format": trace.format,
        **trace.more,
        "question": trace.question if question_id is None else None,
        "trace_problems": listed(trace.problems) or None,
    }
    return {key: value for key, value in response.items() if value is not None}


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
    step["status"] = "error" if is_error else "success"
    step["output"] = output
    return step


def as_function(failed: Failed) -> Callable[[str, str], bool]:
    if callable(failed):
        return failed
    if isinstance(failed, str) or not all(isinstance(text, str) and text for text in failed):
        raise UsageError(f"failed: expected a list of texts, or a function of name and text, got {failed!r}")
    beginnings = tuple(failed)
    return lambda _, output: output.lstrip().startswith(beginnings)


def listed(problems: Counter[str]) -> list[str]:
    """Problems as a list, with how often each was seen."""
    texts = [text if count == 1 else f"{text} ({count} times)" for text, count in problems.items()]
    more = len(texts) - MAX_PROBLEMS
    return texts if more <= 0 else [*texts[:MAX_PROBLEMS], f"... and {more} more"]
