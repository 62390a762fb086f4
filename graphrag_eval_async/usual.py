"""The usual way of a response: from the bytes of a line to its scored evaluation and its result.

Most responses are usual: known keys, plain types, no nulls, and steps that equal those of the reference or
have other names. Whatever is not is left to `records.response`, which says what is wrong, and to
`steps.matching`, which compares. Both ways give equal evaluations; tests compare them.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.decoding import CONTAINERS, MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.evaluation import (
    ANSWERED,
    EMPTY,
    FAILED,
    LONGEST_NAME,
    RETURNED,
    Evaluation,
    answer_state,
    outcome_of,
)
from graphrag_eval_async.records.metrics import RESOURCES
from graphrag_eval_async.records.outcomes import REFERENCE_QUERY, says_something
from graphrag_eval_async.records.outputs import is_empty_json, returned_nothing
from graphrag_eval_async.records.question import decode_steps
from graphrag_eval_async.records.response import BEYOND_64_BITS
from graphrag_eval_async.records.shapes import SPARQL_RESULTS
from graphrag_eval_async.reference import KEPT_BYTES
from graphrag_eval_async.steps import compares_by_name
from graphrag_eval_async.steps.sparql.results import is_same_table

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from graphrag_eval_async.records import Question

    Step: TypeAlias = dict[str, Any]

LARGE_BYTES = 128 * 1024
"""From this size on, a response is read and scored in threads, since decoding, checking and comparing it
would hold up the event loop; so it is scored if its reference steps are as large."""

MOST_STEPS = 100
"""Maximum number of steps of a usual response."""

NAMES_KEPT = 4096
"""Maximum names of steps that are remembered to be no other spelling of a reference step's."""

_KNOWN = frozenset({"question_id", "id", "status", "error", "actual_answer", "actual_steps", *RESOURCES})
_WITH_SCORE = ("steps_score", *RESOURCES)
_numbers_of = itemgetter(*RESOURCES)


class UsualWay:
    """Evaluates usual responses to the questions of a reference set.

    The decoded steps of a small set are kept. Those of a large one are not: the garbage collector walks them.
    """

    def __init__(
        self,
        questions: Mapping[str, Question],
        own: Container[str],
        names: Mapping[str, str],
        known: Container[str],
        take_sample: Callable[[str], int | None],
    ) -> None:
        """Leave steps to the careful way that are compared by a user's comparator, named in `own`.

        `known` are the names of reference steps; `names` has them by their other spellings and aliases.
        """
        self._questions = dict(questions)
        self._own, self._names, self._known = own, names, known
        self._take_sample = take_sample
        self._keeps = sum(question.size for question in questions.values()) <= KEPT_BYTES
        self._kept: dict[str, tuple[list[list[Step]], list[Any]]] = {}
        self._unlike: set[str] = set()

    def evaluate(self, data: bytes, source: dict[str, Any] | None) -> Evaluation | None:  # noqa: C901  (one pass)
        """Return the evaluation of a line of less than `LARGE_BYTES`; None if it is unusual.

        Only then, the question's next sample is taken.
        """
        try:
            fields = orjson.loads(data)
            question = self._questions[fields["question_id"]]
        except (ValueError, TypeError, LookupError):
            return None
        if not _KNOWN.issuperset(fields) or None in fields.values():
            return None
        metrics: tuple[str, ...] = RESOURCES
        try:
            numbers = _numbers_of(fields)
        except KeyError:
            metrics = tuple([key for key in RESOURCES if key in fields])
            numbers = tuple([fields[key] for key in metrics])
        for number in numbers:
            if (type(number) is not int and type(number) is not float) or not 0 <= number < BEYOND_64_BITS:
                return None
        get = fields.get
        answer, steps, error, own_id = get("actual_answer"), get("actual_steps"), get("error"), get("id")
        status = get("status", "success")
        for text in (answer, error, own_id):
            if text is not None and type(text) is not str:
                return None
        if status != "success" and status != "error":
            return None
        failed = error is not None or status == "error"
        kinds = self._kinds(steps)
        if kinds is None:
            return None
        state = answer_state(answer)
        template_id, reference_answer = question.template_id, question.reference_answer
        result: dict[str, Any] = {
            "template_id": template_id,
            "question_id": question.id,
            "question_text": question.text,
        }
        score = failure = None
        has_steps = question.data is not None
        if has_steps:
            prepared = self._kept.get(question.id) or self._prepare(question)
            if prepared is None:
                return None
            groups, documents = prepared
            if self._keeps:
                groups = [[step.copy() for step in group] for group in groups]
            result["reference_steps"] = groups
            if failed or steps is None:
                failure = "step_error" if steps else "no_steps"
            else:
                taken = self._match(groups[-1], documents, steps, kinds)
                if taken is None or (
                    not taken and len(groups) > 1
                ):  # It may have taken steps of another group.
                    return None
                score = float(taken)
                unanswered = state != ANSWERED and says_something(reference_answer)
                failure = "no_steps" if not taken else "no_answer" if unanswered else "none"
                numbers = (score, *numbers)
                metrics = _WITH_SCORE if metrics is RESOURCES else ("steps_score", *metrics)
        if reference_answer is not None:
            result["reference_answer"] = reference_answer
        result["status"] = "error" if failed else "success"
        if error is not None:
            result["error"] = error
        if answer is not None:
            result["actual_answer"] = answer
        if steps is not None:
            result["actual_steps"] = steps
        result["steps_score"] = score
        result["failure"] = failure
        for key in RESOURCES:
            if key in fields:
                result[key] = fields[key]
        if (sample := self._take_sample(question.id)) is not None:
            result["sample"] = sample
        if own_id is not None:
            result["response_id"] = own_id
        if source is not None:
            result["source"] = source
        metrics, tallies, of_error = outcome_of(
            metrics,
            failed,
            state,
            reference_answer is not None,
            has_steps,
            False,
            bool(steps),
            failure,
            False,
        )
        return Evaluation(
            template_id,
            question.id,
            failed,
            sample,
            metrics,
            numbers,
            kinds,
            tallies,
            of_error,
            is_answered=state == ANSWERED,
            source=source,
            result=result,
        )

    def _kinds(self, steps: Any) -> tuple[tuple[str, int, int], ...] | None:  # noqa: C901  (one pass)
        """The outcomes of steps; None if one of them is unusual."""
        if steps is None:
            return ()
        if type(steps) is not list or len(steps) > MOST_STEPS:
            return None
        kinds, unlike = [], self._unlike
        for step in steps:
            if type(step) is not dict:
                return None
            name, status, output = step.get("name"), step.get("status"), step.get("output")
            if type(name) is not str or (name not in unlike and not self._is_usual(name)):
                return None
            for value in step.values():
                if type(value) is dict or type(value) is list:
                    for child in value.values() if type(value) is dict else value:
                        if type(child) in CONTAINERS and nests_deeper(step, MAX_DEPTH - 2):
                            return None
            if status == "error":
                kinds.append((name, FAILED, 1))
            elif status == "success" and type(output) is str:
                is_json = output[:1] == "{"  # As most are.
                is_empty = is_empty_json(output) if is_json else returned_nothing(step)
                kinds.append((name, EMPTY if is_empty else RETURNED, 1))
            else:
                return None
        return tuple(kinds)

    def _is_usual(self, name: str) -> bool:
        """Whether a step's name is that of a reference step, or unlike all of them."""
        if len(name) > LONGEST_NAME or compares_by_name(name):
            return False
        if name not in self._known and (name in self._names or plain_name(name) in self._names):
            return False
        if len(self._unlike) >= NAMES_KEPT:
            self._unlike.clear()
        self._unlike.add(name)
        return True

    def _prepare(self, question: Question) -> tuple[list[list[Step]], list[Any]] | None:
        """Decode the steps of a question; None if those of the last group are compared in an unusual way.

        Also returns, of a small set, the decoded results in JSON of the steps of the last group.
        """
        if (data := question.data) is None or len(data) >= LARGE_BYTES:
            return None
        groups = decode_steps(data)
        if not groups or not groups[-1]:
            return None
        for group in groups:
            for step in group:
                if step.get(REFERENCE_QUERY) is not None:
                    return None
        for step in groups[-1]:
            name = step["name"]
            if type(step.get("output")) is not str or name in self._own or compares_by_name(name):
                return None
        if not self._keeps:
            return groups, []
        documents = [_is_table(step) and orjson.loads(step["output"]) for step in groups[-1]]
        self._kept[question.id] = groups, documents
        return groups, documents

    def _match(
        self, group: list[Step], documents: list[Any], steps: list[Step], kinds: Sequence[Any]
    ) -> bool | None:
        """Whether all steps of a group are matched, or none is named; None if they must be compared.

        Sets `matches` of the group's steps.
        """
        taken: list[int] = []
        for place, expected in enumerate(group):
            latest, is_named, own = -1, False, expected["name"]
            for index, (name, kind, _) in enumerate(kinds):
                if name == own:
                    is_named = True
                    if kind != FAILED and index not in taken:
                        latest = index
            if latest >= 0 and _equals(expected, documents and documents[place], steps[latest]["output"]):
                expected["matches"] = steps[latest].get("id")
                taken.append(latest)
            elif is_named or taken:
                return None
        return len(taken) == len(group)


def _is_table(step: Step) -> bool:
    return step.get("output_media_type") == SPARQL_RESULTS


def _equals(expected: Step, document: Any, output: str) -> bool:
    """Whether an output is plainly equal to the expected one, so that its comparator's score is 1."""
    if output == expected["output"]:
        return True
    try:
        return _is_table(expected) and is_same_table(
            document or orjson.loads(expected["output"]), orjson.loads(output)
        )
    except (TypeError, ValueError):
        return False
