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
from graphrag_eval_async.traces.plain import MAX_DEPTH, first_value, text_of

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question

FAILURES = (
    "Error:",  # Common, and how LangGraph begins: "Error: ... Please fix your mistakes."
    "Error invoking tool ",  # LangGraph, where arguments do not fit.
    "Error executing tool ",  # Servers of MCP in Python.
    "An error occurred while running the tool",  # OpenAI Agents SDK.
)
"""How the output of a failed call begins where its format has no other way to tell: by default."""

OUTPUT_OF_ANSWER_TOOL = "Final result processed."
"""What a tool of Pydantic AI returns if the agent calls it to give an answer that is no text.

The answer is the arguments of the call.
"""

MAX_PROBLEMS = 20
"""How many problems a response lists."""

MAX_PROBLEM_CHARACTERS = 200
"""How many characters the text of one problem has."""

_MAX_TOKENS = 2**53
"""Larger counts are not exact in readers of JSON that take all numbers for doubles."""

_SHOWN_CHARACTERS = 100
"""How many characters of a question or a dataset a problem shows."""

_SHOWN_QUESTIONS = 5
"""How many ids of questions with the same text a problem shows."""

_INPUT_TOKENS = (
    "input_tokens",
    "prompt_tokens",
    "request_tokens",
    "inputTokens",
    "promptTokens",
    "prompt_token_count",
    "promptTokenCount",
)
"""Keys of the count of input tokens in a usage, in order of preference."""

_OUTPUT_TOKENS = (
    "output_tokens",
    "completion_tokens",
    "response_tokens",
    "outputTokens",
    "completionTokens",
    "candidates_token_count",
    "candidatesTokenCount",
)
"""Keys of the count of output tokens in a usage, in order of preference."""

FailureRule = Callable[[str, str], bool] | Sequence[str]
"""A function of a step's name and output that says whether its call failed, or how outputs of
failed calls begin.
"""


class TraceOptions(TypedDict, total=False):
    """The options of all adapters; `failed`, `step_names` and `turn` are those of `TraceFormat`.

    Attributes:
        question_id: id of the question that the trace answers. Without it, `questions` is searched.
        questions: a reference set, or its questions. The question with the text of the user's last
            message is taken; if only case, blanks or punctuation differ, `trace_problems` says so.
    """

    question_id: str | None
    questions: Iterable[Question] | QuestionTexts | None
    failed: FailureRule
    step_names: Mapping[str, str]
    turn: Literal["last", "all"]


@dataclass(slots=True, eq=False)
class Call:
    """One call of a tool, its result, or both.

    Attributes:
        name: name of the tool.
        id: id by which calls and results are paired.
        args: arguments: a JSON value, or text that is no JSON; None if this is a result alone.
        output: what the tool returned.
        failed: whether the call failed; None if the trace does not say.
        has_result: whether the trace has the result, even an empty one.
        turn: number of the user's message that the call follows.
        is_made_in_trace: whether a span of the trace made the call; else, histories only repeat it.
        precedes_question: whether a history in a span has the call before the user's last message.
        sort_key: a time and a number, which order the calls of spans.
    """

    name: str | None
    id: str | None = None
    args: Any = None
    output: Any = None
    failed: bool | None = None
    has_result: bool = False
    turn: int = 0
    is_made_in_trace: bool = False
    precedes_question: bool = False
    sort_key: tuple[float, float] = (inf, 0)

    @property
    def label(self) -> str:
        """The name and id of the call, for the text of a problem."""
        parts = [str(part) for part in (self.name, self.id) if part not in (None, "")]
        return " ".join(parts) or "a call"

    @property
    def is_of_earlier_turn(self) -> bool:
        """Whether the call belongs to an earlier turn of the user, in another trace."""
        return self.precedes_question and not self.is_made_in_trace

    def set_result(self, output: Any, failed: bool | None = None) -> Self:
        """Store what the tool returned, as text, and whether the call failed. Return the call."""
        self.output = text_of(output)
        self.failed = failed
        self.has_result = True
        return self


def make_call(name: Any, id: Any, args: Any = None) -> Call:  # noqa: A002  (as formats name it)
    """Return a call whose name and id, which may be of any type, are text or None."""
    if name is not None and not isinstance(name, str):
        name = str(name)
    if id is not None:
        id = str(id)  # noqa: A001
    return Call(name, id, args)


def find_unanswered(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of one message that have no result, neither themselves nor in the message.

    A result in the message belongs to the call with the same id. Without an id, it belongs to the
    call with the same name.

    Args:
        calls: the calls and results of the message.
    """
    results = {call.id or call.name for call in calls if call.has_result}
    return [call for call in calls if not call.has_result and (call.id or call.name) not in results]


@dataclass(slots=True, eq=False)
class Trace:
    """Collects what is read, in the order of the trace.

    Attributes:
        format: name of the format.
        turn: which calls count: those since the user's last message, or all.
        calls: calls of the current turn, or of all turns.
        question: text of the user's last message.
        dataset: the benchmark that the question is of, which tells apart equal questions.
        answer: last text of the agent that came without calls.
        error: why the agent failed.
        tokens: tokens of all requests to models.
        times: times of the messages.
        elapsed_sec: how long the agent took.
        extra_fields: fields for the response as they are.
        problems: what is wrong with the trace, and how often.
        turn_count: how many messages the user sent.
        repeated_results: results of calls that have a result already.
        early_results: results that came before their calls, by the id and a number that counts
            results with this id.
    """

    format: str
    turn: Literal["last", "all"] = "last"
    calls: list[Call] = field(default_factory=list)
    question: str | None = None
    dataset: Any = None
    answer: str | None = None
    error: str | None = None
    tokens: Counter[str] = field(default_factory=Counter)
    times: list[Any] = field(default_factory=list)
    elapsed_sec: float | None = None
    extra_fields: dict[str, Any] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    turn_count: int = 0
    repeated_results: list[Call] = field(default_factory=list)
    early_results: dict[tuple[str | None, int], Call] = field(default_factory=dict)
    # By id, how many results came before their calls, and how many of these the calls took.
    _early_counts: Counter[str | None] = field(default_factory=Counter)
    _taken_counts: Counter[str | None] = field(default_factory=Counter)
    # Calls that may wait for their results: by id, by ("name", name), and all of them by None.
    _waiting_calls: dict[Hashable, deque[Call]] = field(default_factory=dict)

    def add_problem(self, text: str) -> None:
        """Note something that is wrong with the trace; equal texts are counted."""
        self.problems[text[:MAX_PROBLEM_CHARACTERS]] += 1

    def start_turn(self, question: str) -> None:
        """Begin a turn with a message of the user.

        If only the last turn counts, the calls, tokens and times of earlier turns are dropped.
        """
        self.question = question
        self.answer = None
        self.turn_count += 1
        if self.turn == "all":
            return

        self.tokens.clear()
        self.times.clear()
        skipped = len(self.collect_calls())
        if skipped:
            noun = "call" if skipped == 1 else "calls"
            self.add_problem(f"{skipped} {noun} of earlier turns skipped; turn='all' keeps them")
            self.calls = []
            self._waiting_calls.clear()

    def add_part(self, part: Call) -> None:
        """Add a call with or without its result, or add a result to its call.

        A result belongs to the first call without a result that has the same id or, if the result
        has no id, the same name. A result whose call did not come yet is stored until then.
        """
        is_result_alone = part.has_result and part.args is None
        if not is_result_alone:
            call = self.add_call(part.name, part.args, part.id)
            call.is_made_in_trace = part.is_made_in_trace
            if part.has_result:
                call.set_result(part.output, part.failed)
            return

        waiting_call = self.first_waiting_call(part.id, part.name)
        if waiting_call is not None:
            waiting_call.set_result(part.output, part.failed)
        elif self.has_call_with_id(part.id):
            self.repeated_results.append(part)
        else:
            # Results with the same id are numbered, so that each call finds its own result.
            part.turn = self.turn_count
            self.early_results[part.id, self._early_counts[part.id]] = part
            self._early_counts[part.id] += 1

    def add_call(self, name: Any, args: Any, id: Any = None) -> Call:  # noqa: A002  (as formats name it)
        """Add a call of a tool, and return it.

        Arguments that are JSON text are decoded. If the result of the call came before the call,
        the call gets it.
        """
        call = make_call(name, id)
        call.turn = self.turn_count
        if call.name is None:
            self.add_problem("a call without a name")
        call.args = self._decoded_args(args, call.label)
        # A text before a call is not the answer.
        self.answer = None
        self.calls.append(call)

        self._add_waiting_call(None, call)
        self._add_waiting_call(("name", call.name), call)
        self.set_call_id(call, call.id)
        # A result that came before the call and has the same id belongs to it.
        if call.id is not None and self.early_results:
            result = self.early_results.pop((call.id, self._taken_counts[call.id]), None)
            if result is not None:
                self._taken_counts[call.id] += 1
                call.set_result(result.output, result.failed)
        return call

    def _decoded_args(self, args: Any, label: str) -> Any:
        """Return the arguments of a call, decoded if they are JSON text.

        Missing arguments become an empty object. Text that cannot be decoded is returned unchanged,
        and noted as a problem.

        Args:
            args: the arguments.
            label: name and id of the call, for the text of the problem.
        """
        if args is None or args == "":
            return {}
        if not isinstance(args, str) or not args.strip():
            return args

        value = decoded(args)
        is_json = value is not args  # Text that is not JSON is returned as the same object.
        if not is_json:
            self.add_problem(f"{label}: arguments are not JSON")
            return args
        if nests_deeper(value, MAX_DEPTH):
            self.add_problem(f"{label}: arguments nest more than {MAX_DEPTH} levels deep")
            return args
        if value is None or value == "":
            return {}
        return value

    def set_call_id(self, call: Call, id: str | None) -> None:  # noqa: A002
        """Store the id of a call, by which its result is found; do nothing if it is None."""
        if id is not None:
            call.id = id
            self._add_waiting_call(id, call)

    def _add_waiting_call(self, key: Hashable, call: Call) -> None:
        """Store a call under a key by which a result finds it: None, an id, or a name."""
        self._waiting_calls.setdefault(key, deque()).append(call)

    def first_waiting_call(self, id: str | None, name: str | None = None) -> Call | None:  # noqa: A002
        """Return the first call without a result that has this id; None if there is none.

        If `id` is None, the first call without a result that has this name is returned. If `name`
        is None, too, it is the first of all calls without a result.
        """
        key: Hashable = id
        if id is None and name is not None:
            key = ("name", name)
        calls = self._waiting_calls.get(key)
        while calls and calls[0].has_result:
            calls.popleft()
        return calls[0] if calls else None

    def has_call_with_id(self, id: str | None) -> bool:  # noqa: A002
        """Return whether a call, with or without a result, has this id; False if `id` is None."""
        return id is not None and id in self._waiting_calls

    def collect_calls(self) -> list[Call]:
        """Return the calls, when no more parts of the turn are to come.

        Results whose calls did not come are added to the calls. They are noted as problems, and so
        are repeated results.
        """
        for result in self.repeated_results:
            self.add_problem(f"{result.id}: more than one result; the first counts")
        for result in self.early_results.values():
            self.add_problem(f"{result.label}: a result without a call")
            self.calls.append(result)
        self.repeated_results.clear()
        self.early_results.clear()
        self._early_counts.clear()
        self._taken_counts.clear()
        return self.calls

    def add_token_usage(self, usage: Any) -> None:
        """Add the tokens of one request to a model, from a usage object in any of the formats.

        A usage that is no object, or has no counts, adds nothing.
        """
        if not isinstance(usage, dict):
            return
        self._add_tokens("output_tokens", first_value(usage, *_OUTPUT_TOKENS))
        self._add_tokens("input_tokens", first_value(usage, *_INPUT_TOKENS))
        # Anthropic counts input tokens that it writes to its cache, or reads there, apart.
        self._add_tokens("input_tokens", usage.get("cache_creation_input_tokens"))
        self._add_tokens("input_tokens", usage.get("cache_read_input_tokens"))

    def _add_tokens(self, key: str, count: Any) -> None:
        """Add a count of tokens under a key of the response.

        A count that is no number, negative or too large is ignored.
        """
        is_number = isinstance(count, int | float) and not isinstance(count, bool)
        if is_number and 0 <= count < _MAX_TOKENS:
            self.tokens[key] += int(count)


def to_response(
    trace: Trace,
    *,
    question_id: str | None = None,
    questions: Iterable[Question] | QuestionTexts | None = None,
    failed: FailureRule = FAILURES,
    step_names: Mapping[str, str] | None = None,
    turn: Literal["last", "all"] = "last",  # noqa: ARG001  (`Trace` heeds it)
) -> dict[str, Any]:
    """Convert a trace to a response; see `TraceOptions` for the options."""
    # Each call is a step, except calls by which an agent of Pydantic AI gives its answer.
    has_failed = as_failure_test(failed)
    answer_calls = []
    steps = []
    for call in trace.collect_calls():
        if call.output == OUTPUT_OF_ANSWER_TOOL:
            answer_calls.append(call)
        else:
            steps.append(_make_step(call, trace, has_failed, step_names or {}))

    if answer_calls and trace.answer is None:
        trace.answer = text_of(answer_calls[-1].args)

    # If the id of the question is not found, the response keeps the question's text.
    if question_id is None and questions is not None:
        texts = questions if isinstance(questions, QuestionTexts) else QuestionTexts(questions)
        question_id = texts.find(trace.question, trace.add_problem, trace.dataset)
    unmatched_question = trace.question if question_id is None else None

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
        **trace.extra_fields,
        "question": unmatched_question,
        "trace_problems": list_problems(trace.problems) or None,
    }
    return {key: value for key, value in response.items() if value is not None}


def _make_step(
    call: Call, trace: Trace, has_failed: Callable[[str, str], bool], step_names: Mapping[str, str]
) -> dict[str, Any]:
    """Return a call as a step of a response.

    A call without a result becomes a failed step, and is noted as a problem of the trace.

    Args:
        call: the call.
        trace: the trace that the call is from.
        has_failed: decides by the step's name and output whether a call has failed. It is only
            called if the trace does not say whether the call failed.
        step_names: names of steps by names of tools.
    """
    name = call.name
    if name is None:
        name = UNNAMED
    step: dict[str, Any] = {"name": step_names.get(name, name)}
    if call.id is not None:
        step["id"] = call.id
    if call.args is not None:
        step["args"] = call.args
    if not call.has_result:
        trace.add_problem(f"{call.label}: no result")
        return step | {"status": "error", "error": "the trace has no result of this call"}

    output = call.output or ""
    is_error = call.failed
    if is_error is None:  # The trace does not say whether the call failed.
        is_error = bool(has_failed(step["name"], output))
    step["status"] = "error" if is_error else "success"
    step["output"] = output
    return step


def as_failure_test(failed: FailureRule) -> Callable[[str, str], bool]:
    """Return a function that says by a step's name and output whether the call failed.

    Args:
        failed: such a function, which is returned as it is; or the texts with which outputs of
            failed calls begin.

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

    def begins_like_failure(_name: str, output: str) -> bool:
        return output.lstrip().startswith(beginnings)

    return begins_like_failure


def list_problems(problems: Counter[str]) -> list[str]:
    """Return the texts of at most `MAX_PROBLEMS` problems, with their counts if above 1.

    If there are more problems, one more text says how many.
    """
    texts = []
    for text, count in problems.items():
        if count > 1:
            texts.append(f"{text} ({count} times)")
        else:
            texts.append(text)
    unlisted = len(texts) - MAX_PROBLEMS
    if unlisted <= 0:
        return texts
    return [*texts[:MAX_PROBLEMS], f"... and {unlisted} more"]


class QuestionTexts:
    """Finds questions by their texts; built once for many traces."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._questions_by_words: dict[str, list[Question]] = {}
        for question in questions:
            words = _words_of(question.text)
            self._questions_by_words.setdefault(words, []).append(question)

    def find(
        self, text: str | None, report_problem: Callable[[str], None], dataset: Any = None
    ) -> str | None:
        """Return the id of the question with a text.

        Args:
            text: what the user asked; None if it is not known.
            report_problem: called with a text that says why no question was found, or that the
                question's text is not quite the same.
            dataset: the benchmark that the question is from; None if it is not known.

        Returns:
            None if no question has this text, or if several have it.
        """
        if text is None:
            report_problem("no question id, and no text of a question")
            return None

        asked = text.strip()
        candidates = self._questions_like(asked)
        description = f"the text {asked[:_SHOWN_CHARACTERS]!r}"
        if candidates and dataset is not None:
            candidates = _questions_of_dataset(candidates, dataset)
            description += f" in the dataset {str(dataset)[:_SHOWN_CHARACTERS]!r}"

        if not candidates:
            report_problem(f"no question has {description}")
            return None
        if len(candidates) > 1:
            ids = ", ".join(repr(question.id) for question in candidates[:_SHOWN_QUESTIONS])
            count = len(candidates)
            report_problem(f"{count} questions of the reference set have {description}: {ids}")
            return None

        [question] = candidates
        if question.text.strip() != asked:
            report_problem(
                "the question was found by its text, ignoring case, blanks and punctuation"
            )
        return question.id

    def _questions_like(self, asked: str) -> list[Question]:
        """Return the questions with exactly this text or, if there are none, with its words."""
        similar = self._questions_by_words.get(_words_of(asked), [])
        exact = [question for question in similar if question.text.strip() == asked]
        return exact or similar


def _questions_of_dataset(questions: list[Question], dataset: Any) -> list[Question]:
    """Return the questions that are from a dataset.

    If there are none, the questions that do not say which dataset they are from are returned.
    """
    datasets = [dict(question.tags).get("dataset") for question in questions]
    wanted = dataset if dataset in datasets else None
    return [
        question
        for question, question_dataset in zip(questions, datasets, strict=True)
        if question_dataset == wanted
    ]


def _words_of(text: str) -> str:
    """Return the words of a text in lower case, without punctuation, one blank apart."""
    return " ".join(re.findall(r"\w+", text.casefold()))
