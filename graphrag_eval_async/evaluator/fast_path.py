"""The fast path of a response: from the bytes of a line to its scored evaluation and its result.

Most responses are usual: known keys, plain types, no nulls, and steps that equal those of the
reference or have other names. Whatever is not is left to `records.response`, which says what is
wrong, and to `steps.matching`, which compares. Both paths give equal evaluations; tests compare
them.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.decoding import CONTAINERS, MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.evaluation import EMPTY, FAILED, LONGEST_NAME, RETURNED, Evaluation
from graphrag_eval_async.records.metrics import RESOURCES, VALUES_F1
from graphrag_eval_async.records.outcomes import ANSWERED, answer_state, outcomes_of
from graphrag_eval_async.records.outputs import is_empty_json, returned_nothing
from graphrag_eval_async.records.question import decode_steps
from graphrag_eval_async.records.response import BEYOND_64_BITS
from graphrag_eval_async.records.shapes import SPARQL_RESULTS
from graphrag_eval_async.reference import KEPT_BYTES
from graphrag_eval_async.steps import compares_by_name
from graphrag_eval_async.steps.formats.results import is_same_table

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from graphrag_eval_async.records import Question

    Step: TypeAlias = dict[str, Any]

LARGE_BYTES = 128 * 1024
"""From this size on, a response is read and scored in threads, since decoding, checking and
comparing it would hold up the event loop; so it is scored if its reference steps are as large.
"""

MOST_STEPS = 100
"""Maximum number of steps of a usual response."""

NAMES_KEPT = 4096
"""Maximum names of steps that are remembered to be no other spelling of a reference step's."""

_KNOWN = frozenset(
    {"question_id", "id", "status", "error", "actual_answer", "actual_steps", *RESOURCES}
)
_OPTIONAL = (
    *("reference_steps", "reference_answer", "error", "actual_answer", "actual_steps"),
    *(*RESOURCES, "sample", "response_id", "source"),
)
_CAREFUL = frozenset(
    {"args_match", "order"}
)  # Keys of reference steps that need more than equal outputs.
_WITH_SCORE = ("steps_score", *RESOURCES)
_numbers_of = itemgetter(*RESOURCES)


class _Expected(NamedTuple):
    """A step of the last group of a question, with which a usual response is compared."""

    name: str
    output: str
    is_table: bool
    table: Any  # Its decoded results, in a small set.
    is_empty: bool | None  # Known of results.


class UsualWay:
    """Evaluates usual responses to the questions of a reference set.

    The decoded steps of a small set are kept. Those of a large one are not: the garbage collector
    walks them.
    """

    def __init__(
        self,
        questions: Mapping[str, Question],
        own: Container[str],
        names: Mapping[str, str],
        known: Container[str],
        take_sample: Callable[[str], int | None],
    ) -> None:
        """Leave to the slow path questions with limits or a `match`, and steps of the names in
        `own`.

        `own` are those with a user's comparator. `known` are the names of reference steps; `names`
        has them by their other spellings and aliases.
        """
        usual = (each for each in questions.values() if not each.limits and each.match is None)
        self._questions = {each.id: each for each in usual}
        self._own, self._names, self._known = own, names, known
        self._take_sample = take_sample
        self._keeps = sum(question.size for question in questions.values()) <= KEPT_BYTES
        self._kept: dict[str, tuple[list[list[Step]], list[_Expected]]] = {}
        self._unlike: set[str] = set()

    def evaluate(self, data: bytes, source: dict[str, Any] | None) -> Evaluation | Any:  # noqa: C901  (one pass)
        """Return the evaluation of a line below `LARGE_BYTES`; no sample is taken if it is unusual.

        Then it returns the decoded line, or None.
        """
        try:
            fields = orjson.loads(data)
        except ValueError:
            return None
        try:
            question = self._questions[fields["question_id"]]
        except (TypeError, LookupError):
            return fields
        if not _KNOWN.issuperset(fields) or None in fields.values():
            return fields
        metrics: tuple[str, ...] = RESOURCES
        try:
            numbers = _numbers_of(fields)
        except KeyError:
            metrics = tuple([key for key in RESOURCES if key in fields])
            numbers = tuple([fields[key] for key in metrics])
        for number in numbers:
            if (
                type(number) is not int and type(number) is not float
            ) or not 0 <= number < BEYOND_64_BITS:
                return fields
        get = fields.get
        answer, steps, error, own_id = (
            get("actual_answer"),
            get("actual_steps"),
            get("error"),
            get("id"),
        )
        status = get("status", "success")
        for text in (answer, error, own_id):
            if text is not None and type(text) is not str:
                return fields
        if status != "success" and status != "error":
            return fields
        failed = error is not None or status == "error"
        usable = () if steps is None else self._usable(steps)
        if usable is None:
            return fields
        state = answer_state(answer)
        score = failure = groups = None
        empties: dict[int, bool | None] = {}
        if has_steps := question.data is not None:
            prepared = self._kept.get(question.id) or self._prepare(question)
            if prepared is None:
                del self._questions[question.id]
                return fields
            groups, expected = prepared
            if self._keeps:
                groups = [[step.copy() for step in group] for group in groups]
            if failed or steps is None:
                failure = "step_error" if steps else "no_steps"
            elif not _match(groups, expected, steps, usable, empties):
                return fields
            else:
                score = 1.0 if empties else 0.0
                unanswered = (
                    state != ANSWERED and answer_state(question.reference_answer) == ANSWERED
                )
                failure = "no_steps" if not empties else "no_answer" if unanswered else "none"
                numbers = (score, *numbers)
                metrics = _WITH_SCORE if metrics is RESOURCES else ("steps_score", *metrics)
        sample = self._take_sample(question.id)
        result: dict[str, Any] = {
            "template_id": question.template_id,
            "question_id": question.id,
            "question_text": question.text,
            "reference_steps": groups,
            "reference_answer": question.reference_answer,
            "status": "error" if failed else "success",
            "error": error,
            "actual_answer": answer,
            "actual_steps": steps,
            "steps_score": score,
            "failure": failure,
            "input_tokens": get("input_tokens"),
            "output_tokens": get("output_tokens"),
            "total_tokens": get("total_tokens"),
            "elapsed_sec": get("elapsed_sec"),
            "sample": sample,
            "response_id": own_id,
            "source": source,
        }
        for key in _OPTIONAL:
            if result[key] is None:
                del result[key]
        if tags := question.tags:
            result["tags"] = dict(tags)
        has_answer = question.reference_answer is not None
        metrics, outcomes, of_error = outcomes_of(
            metrics, failed, state, has_answer, has_steps, bool(steps), failure, False
        )
        return Evaluation(
            question.template_id,
            question.id,
            failed,
            sample,
            metrics,
            numbers,
            _outcomes(steps, usable, empties) if steps else (),
            outcomes,
            of_error,
            is_answered=state == ANSWERED,
            tags=tags,
            source=source,
            result=result,
        )

    def _usable(self, steps: Any) -> list[str | None] | None:  # noqa: C901  (one pass)
        """The names of steps, None for one that failed; None in all if one of them is unusual."""
        if type(steps) is not list or len(steps) > MOST_STEPS:
            return None
        usable: list[str | None] = []
        for step in steps:
            if type(step) is not dict:
                return None
            name, status = step.get("name"), step.get("status")
            if type(name) is not str or (name not in self._unlike and not self._is_usual(name)):
                return None
            for value in step.values():
                if type(value) is not str and (type(value) is dict or type(value) is list):
                    for child in value.values() if type(value) is dict else value:
                        if type(child) in CONTAINERS and nests_deeper(step, MAX_DEPTH - 2):
                            return None
            if status == "error":
                usable.append(None)
            elif status == "success" and type(step.get("output")) is str:
                usable.append(name)
            else:
                return None
        return usable

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

    def _prepare(self, question: Question) -> tuple[list[list[Step]], list[_Expected]] | None:
        """Decode the steps of a question; None if those of the last group are compared in an
        unusual way.
        """
        if (data := question.data) is None or len(data) >= LARGE_BYTES:
            return None
        groups = decode_steps(data)
        if not groups or not groups[-1]:
            return None
        expected = []
        for step in groups[-1]:
            name, output = step["name"], step.get("output")
            if type(output) is not str or output[:1] == "\ufeff":  # The decoder refuses it.
                return None
            is_careful = not _CAREFUL.isdisjoint(step) or step.get("score") == VALUES_F1
            if name in self._own or compares_by_name(name) or is_careful:
                return None
            is_table = step.get("output_media_type") == SPARQL_RESULTS
            table = orjson.loads(output) if is_table and self._keeps else None
            is_empty = is_empty_json(output) if is_table else None
            expected.append(_Expected(name, output, is_table, table, is_empty))
        if self._keeps:
            self._kept[question.id] = groups, expected
        return groups, expected


def _match(
    groups: list[list[Step]],
    expected: list[_Expected],
    steps: list[Step],
    usable: Sequence[str | None],
    empties: dict[int, bool | None],
) -> bool:
    """Whether it is plain that all steps of the last group are matched, or none; else they must be
    compared.

    Sets `matches` of the group's steps, and whether what each matched step returned is empty.
    """
    for place, each in enumerate(expected):
        index = len(usable) - 1 if each.name in usable else -1
        while index >= 0 and (usable[index] != each.name or index in empties):
            index -= 1
        if index >= 0:
            if not _equals(each, steps[index]["output"]):
                return False
            groups[-1][place]["matches"] = steps[index].get("id")
            empties[index] = each.is_empty
        elif empties or (None in usable and any(step["name"] == each.name for step in steps)):
            return False
    # Without a match, it may have taken steps of another group.
    return len(empties) == len(expected) or (not empties and len(groups) == 1)


def _equals(expected: _Expected, output: str) -> bool:
    """Whether an output is plainly equal to the expected one, so that its comparator's score is
    1.
    """
    if output == expected.output:
        return True
    if not expected.is_table:
        return False
    try:
        return is_same_table(expected.table or orjson.loads(expected.output), orjson.loads(output))
    except (TypeError, ValueError):
        return False


def _outcomes(
    steps: list[Step], usable: Sequence[str | None], empties: dict[int, bool | None]
) -> tuple[tuple[str, int, int], ...]:
    kinds = []
    for index, name in enumerate(usable):
        if name is None:
            kinds.append((steps[index]["name"], FAILED, 1))
            continue
        is_empty = empties.get(index)
        if is_empty is None:
            output = steps[index]["output"]
            is_empty = (
                is_empty_json(output) if output[:1] == "{" else returned_nothing(steps[index])
            )
        kinds.append((name, EMPTY if is_empty else RETURNED, 1))
    return tuple(kinds)
