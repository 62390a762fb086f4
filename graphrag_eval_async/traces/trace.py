"""What is read of a trace, and the response that it makes."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.aliases import UNNAMED
from graphrag_eval_async.records.decoding import nests_deeper
from graphrag_eval_async.records.outputs import decoded
from graphrag_eval_async.traces.plain import MAX_DEPTH, first, text_of

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
"""What the tool returns by which Pydantic AI's agents give an answer that is no text: its
arguments.
"""

# How many problems a response lists, and how long the text of one is.
MAX_PROBLEMS, MAX_CHARACTERS = (
    20,
    200,
)

_INPUT_TOKENS = (
    "input_tokens",
    "prompt_tokens",
    "request_tokens",
    "inputTokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
)
_OUTPUT_TOKENS = (
    "output_tokens",
    "completion_tokens",
    "response_tokens",
    "outputTokens",
    "completionTokens",
    "candidates_token_count",
    "candidatesTokenCount",
)

Failed = Callable[[str, str], bool] | Sequence[str]


class TraceOptions(TypedDict, total=False):
    """The options of all adapters; `failed`, `step_names` and `turn` are those of `TraceFormat`.

    Attributes:
        question_id: id of the question that the trace answers. Without it, `questions` is searched.
        questions: a reference set, or its questions. The question with the text of the user's last
            message is taken; if only case, blanks or punctuation differ, `trace_problems` says so.
    """

    question_id: str | None
    questions: Iterable[Question] | QuestionTexts | None
    failed: Failed
    step_names: Mapping[str, str]
    turn: Literal["last", "all"]


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool, its result, or both."""

    name: str | None
    id: str | None = None
    args: Any = None  # JSON, or text that is no object; None of a result alone.
    output: Any = None
    failed: bool | None = None  # None if the trace does not say.
    ended: bool = False
    turn: int = 0  # Number of the user's message that it follows.
    # Whether the span that tells of it is about its making, not passing it on.
    is_new: bool = False
    is_before: bool = False  # Whether a history of a span has it before the user's last message.
    place: tuple[float, float] = (inf, 0)  # Orders calls of spans: a time, and a number.

    @property
    def label(self) -> str:
        """Its name and id, for a problem."""
        return (
            " ".join(str(each) for each in (self.name, self.id) if each not in (None, ""))
            or "a call"
        )

    @property
    def is_old(self) -> bool:
        """Whether it belongs to an earlier turn of the user: no span of the trace made it."""
        return self.is_before and not self.is_new

    def end(self, output: Any, failed: bool | None = None) -> Self:
        """Give it its result."""
        self.output, self.failed, self.ended = text_of(output), failed, True
        return self


def call_of(name: Any, id: Any, args: Any = None) -> Call:  # noqa: A002  (as formats name it)
    """A call whose name and id may be of any type."""
    name = name if isinstance(name, str) or name is None else str(name)
    return Call(name, None if id is None else str(id), args)


@dataclass(slots=True, eq=False)
class Trace:
    """Collects what is read, in the order of the trace."""

    format: str
    turn: Literal["last", "all"] = "last"
    calls: list[Call] = field(default_factory=list)  # Of the current turn, or of all turns.
    question: str | None = None
    dataset: Any = None  # Of a benchmark, to tell equal questions of several apart.
    answer: str | None = None  # The last text of the agent that came without calls.
    error: str | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    times: list[Any] = field(default_factory=list)  # Of messages.
    elapsed_sec: float | None = None
    more: dict[str, Any] = field(default_factory=dict)  # Keys for the response as they are.
    problems: Counter[str] = field(default_factory=Counter)
    turns: int = 0  # How often the user spoke.
    repeated: list[Call] = field(default_factory=list)  # Results of calls that have one.
    # Results before calls, by id and number.
    early: dict[Hashable, Call] = field(default_factory=dict)
    _came: Counter[Hashable] = field(default_factory=Counter)  # By id, how many of these came.
    _taken: Counter[Hashable] = field(default_factory=Counter)  # And for how many the call came.
    _waiting: dict[Hashable, deque[Call]] = field(default_factory=dict)

    def problem(self, text: str) -> None:
        """Note what is wrong with the trace, once more if it is so again."""
        self.problems[text[:MAX_CHARACTERS]] += 1

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

    def part(self, part: Call) -> None:
        """A call, or a result: of the first call without one that has its id or, without an id,
        its name.
        """
        if part.args is not None or not part.ended:
            call = self.call(part.name, part.args, part.id)
            call.is_new = part.is_new
            if part.ended:
                call.end(part.output, part.failed)
        elif (waiting := self.waiting(part.id, part.name)) is not None:
            waiting.end(part.output, part.failed)
        elif self.knows(part.id):
            self.repeated.append(part)
        else:
            part.turn = self.turns
            self.early[part.id, self._came[part.id]] = part
            self._came[part.id] += 1

    def call(self, name: Any, args: Any, id: Any = None) -> Call:  # noqa: A002  (as formats name it)
        """The agent calls a tool; `args` that are text are JSON, if they can be."""
        call = call_of(name, id)
        call.turn = self.turns
        if call.name is None:
            self.problem("a call without a name")
        if isinstance(args, str) and args.strip():
            value = decoded(args)
            if value is args:
                self.problem(f"{call.label}: arguments are not JSON")
            elif nests_deeper(value, MAX_DEPTH):
                self.problem(f"{call.label}: arguments nest more than {MAX_DEPTH} levels deep")
            else:
                args = value
        call.args = {} if args is None or args == "" else args
        self.answer = None
        self.calls.append(call)
        for key in (None, ("name", call.name)):
            self._waiting.setdefault(key, deque()).append(call)
        self.identify(call, call.id)
        if call.id is not None and self.early:
            result = self.early.pop((call.id, self._taken[call.id]), None)
            if result is not None:
                self._taken[call.id] += 1
                call.end(result.output, result.failed)
        return call

    def identify(self, call: Call, id: str | None) -> None:  # noqa: A002
        """Give a call its id, which may become known later."""
        if id is not None:
            call.id = id
            self._waiting.setdefault(id, deque()).append(call)

    def waiting(self, id: str | None, name: str | None = None) -> Call | None:  # noqa: A002
        """The first call without a result that has this id or, without an id, this name if there
        is one.
        """
        calls = self._waiting.get(("name", name) if id is None and name is not None else id)
        while calls and calls[0].ended:
            calls.popleft()
        return calls[0] if calls else None

    def knows(self, id: str | None) -> bool:  # noqa: A002
        """Whether a call has this id, also if it has ended."""
        return id is not None and id in self._waiting

    def finished(self) -> list[Call]:
        """The calls, after the last has been read; results whose calls never came are steps,
        too.
        """
        for result in self.repeated:
            self.problem(f"{result.id}: more than one result; the first counts")
        for result in self.early.values():
            self.problem(f"{result.label}: a result without a call")
            self.calls.append(result)
        for kept in (self.repeated, self.early, self._came, self._taken):
            kept.clear()
        return self.calls

    def use(self, usage: Any) -> None:
        """Add the tokens of one request, where they are numbers, as any of the formats has them."""
        if not isinstance(usage, dict):
            return
        # Anthropic counts some of those that it is given apart.
        apart = (usage.get("cache_creation_input_tokens"), usage.get("cache_read_input_tokens"))
        given = first(usage, *_INPUT_TOKENS)
        made = first(usage, *_OUTPUT_TOKENS)
        for key, count in [
            ("output_tokens", made),
            *(("input_tokens", each) for each in (given, *apart)),
        ]:
            if (
                isinstance(count, int | float)
                and not isinstance(count, bool)
                and 0 <= count < 2**53
            ):
                self.tokens[key] += int(count)


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
    steps = [
        _step(call, trace, is_failed, step_names or {}) for call in calls if call.output != ANSWERED
    ]
    if answers and trace.answer is None:
        trace.answer = text_of(answers[-1].args)
    if question_id is None and questions is not None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
        question_id = texts.find(trace.question, trace.problem, trace.dataset)
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
    """Return the step that a call makes; a call without a result is a failed step."""
    name = call.name
    if name is None:
        name = UNNAMED
    step: dict[str, Any] = {"name": names.get(name, name)}
    if call.id is not None:
        step["id"] = call.id
    if call.args is not None:
        step["args"] = call.args
    if not call.ended:
        trace.problem(f"{call.label}: no result")
        return step | {"status": "error", "error": "the trace has no result of this call"}

    output = call.output or ""
    is_error = call.failed
    if is_error is None:
        is_error = bool(failed(step["name"], output))
    step["status"] = "error" if is_error else "success"
    step["output"] = output
    return step


def as_function(failed: Failed) -> Callable[[str, str], bool]:
    """Return a function of a step's name and output that says whether the call failed.

    Raises:
        UsageError: `failed` is neither a function nor a list of texts.
    """
    if callable(failed):
        return failed
    if isinstance(failed, str) or not all(isinstance(text, str) and text for text in failed):
        raise UsageError(
            f"failed: expected a list of texts, or a function of name and text, got {failed!r}"
        )
    beginnings = tuple(failed)
    return lambda _, output: output.lstrip().startswith(beginnings)


def listed(problems: Counter[str]) -> list[str]:
    """Return problems as a list, with how often each was seen."""
    texts = []
    for text, count in problems.items():
        times = f" ({count} times)" if count > 1 else ""
        texts.append(text + times)
    unlisted = len(texts) - MAX_PROBLEMS
    if unlisted <= 0:
        return texts
    return [*texts[:MAX_PROBLEMS], f"... and {unlisted} more"]


class QuestionTexts:
    """Finds questions by their texts; built once for many traces."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._normalised: dict[str, list[Question]] = {}
        for question in questions:
            self._normalised.setdefault(_normalised(question.text), []).append(question)

    def find(
        self, question: str | None, problem: Callable[[str], None], dataset: Any = None
    ) -> str | None:
        """Return the id of the question that the user asked.

        Args:
            question: its text.
            problem: called with what is unclear.
            dataset: the benchmark that it is of, if it is known.

        Returns:
            the id; None if no question has this text, or several have.
        """
        if question is None:
            problem("no question id, and no text of a question")
            return None

        asked = question.strip()
        alike = self._normalised.get(_normalised(asked), [])
        exact = [candidate for candidate in alike if candidate.text.strip() == asked]
        candidates = exact or alike
        where = ""
        if candidates and dataset is not None:
            candidates = _questions_of_dataset(candidates, dataset)
            where = f" in the dataset {str(dataset)[:100]!r}"

        if len(candidates) == 1:
            if candidates[0].text.strip() != asked:
                problem("the question was found by its text, ignoring case, blanks and punctuation")
            return candidates[0].id
        text = f"the text {asked[:100]!r}{where}"
        if not candidates:
            problem(f"no question has {text}")
            return None
        ids = ", ".join(repr(candidate.id) for candidate in candidates[:5])
        problem(f"{len(candidates)} questions of the reference set have {text}: {ids}")
        return None


def _questions_of_dataset(questions: list[Question], dataset: Any) -> list[Question]:
    """Return the questions of a dataset or, if none is of it, those of no dataset."""
    datasets = [dict(question.tags).get("dataset") for question in questions]
    wanted = dataset if dataset in datasets else None
    return [
        question
        for question, question_dataset in zip(questions, datasets, strict=True)
        if question_dataset == wanted
    ]


def _normalised(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
