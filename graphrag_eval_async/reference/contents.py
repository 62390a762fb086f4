"""The content of a reference set, collected question by question while it is read and checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.catalogue.tags import Tags, read_tags
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.records.question import Question
from graphrag_eval_async.steps import check_step, compares_by_name, needs_execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.question import Matching
    from graphrag_eval_async.steps import Comparator

KEYS_BEYOND_OUTPUT = frozenset({"args_match", "order"})
"""Keys of reference steps with which equal outputs are not enough for a match."""

BYTE_ORDER_MARK = "\ufeff"


class StepLimits(NamedTuple):
    """The limits that a question sets for the steps of an agent."""

    forbidden_steps: tuple[str, ...] = ()
    max_steps: int | None = None  # None if their number is not limited.


NO_LIMITS = StepLimits()


class EncodedSteps:
    """The reference steps of a question, encoded as MessagePack.

    It is an ordinary class, since msgspec calls a hook only for classes that it cannot decode.
    """

    __slots__ = ("are_usual", "data")

    def __init__(self, data: bytes | None = None, *, are_usual: bool = True) -> None:
        self.data = data  # None if the question has no reference steps.
        self.are_usual = are_usual  # See `has_usual_steps`.


NO_STEPS = EncodedSteps()


@dataclass(slots=True)
class Contents:
    """The questions of a reference set, and the probable mistakes in it."""

    comparators: Mapping[str, Comparator]
    questions: dict[str, Question] = field(default_factory=dict)  # By id.
    templates: list[str] = field(default_factory=list)  # Their ids.
    step_names: set[str] = field(default_factory=set)
    # Equal tags are stored once, since many questions share them.
    tags: dict[Tags, Tags] = field(default_factory=dict)
    lacks_output: bool = False  # Whether a step has only the query that gives its output.
    doubts: list[str] = field(default_factory=list)  # Probable mistakes: "place: what".

    def add_step(self, step: dict[str, Any]) -> None:
        """Check a reference step whose keys have the right types, and store its name.

        Raises:
            MalformedStep: the value of a key is wrong.
        """
        check_step(step, self.comparators)
        name = step["name"]
        self.step_names.add(name)
        if step.get("output") is None and name not in self.comparators and needs_execution(step):
            self.lacks_output = True

    def add_question(
        self,
        question: Any,
        *,
        template_id: str,
        template_tags: Tags,
        steps: EncodedSteps,
        limits: StepLimits = NO_LIMITS,
    ) -> None:
        """Add a question whose keys have the right types.

        Args:
            question: an object with the attributes of `QuestionShape`.
            template_id: the id of the question's template.
            template_tags: the tags of the template, which the question inherits.
            steps: the question's reference steps, which `add_step` has checked.
            limits: the limits that the question or its template sets.

        Raises:
            ValueError: the value of a key is wrong. The message begins with the key.
        """
        # Many questions share equal tags, which are stored once.
        tags = read_tags(question.tags, template_tags)
        tags = self.tags.setdefault(tags, tags)

        answer = text_of_answer(
            question.reference_answer, match=question.match, tolerance=question.tolerance
        )

        # A usual question needs no rules beyond those of its steps, and is scored faster.
        is_usual = steps.are_usual and question.match is None and limits == NO_LIMITS
        self.questions[question.id] = Question(
            template_id=template_id,
            id=question.id,
            text=question.question_text,
            reference_answer=answer,
            data=steps.data,
            tags=tags,
            forbidden_steps=limits.forbidden_steps,
            max_steps=limits.max_steps,
            match=question.match,
            tolerance=question.tolerance,
            is_usual=is_usual,
        )


def text_of_answer(
    answer: str | list[str] | None, *, match: Matching | None, tolerance: float | None
) -> str | None:
    """Return a reference answer as text, in which each text of a list is a line.

    Args:
        answer: the reference answer of a question.
        match: how the question matches answers; None if it does not say.
        tolerance: maximum difference of numbers, as a share; None if the question does not say.

    Raises:
        ValueError: answers cannot be matched with it. The message begins with the wrong key.

    Returns:
        None if there is no reference answer.
    """
    if isinstance(answer, list):
        if match not in ("contains", "list"):
            raise ValueError("reference_answer: a list needs `match: contains` or `match: list`")
        answer = "\n".join(answer)
    if match is not None or tolerance is not None:
        # The rules for answers take long to import, and most reference sets do not need them.
        from graphrag_eval_async.steps.answers import check_match

        check_match(match, answer, tolerance)
    return answer


def has_usual_steps(groups: Sequence[Sequence[Mapping[str, Any]]], size: int) -> bool:
    """Return whether equal outputs are enough for reference steps to match steps of an agent.

    If so, steps with the same text as output need no further comparison. Only the last group is
    checked, since the other groups do not count for the score.

    Args:
        groups: the valid reference steps of a question.
        size: bytes of the encoded steps. Large steps are never usual.
    """
    if not groups or not groups[-1] or size >= LARGE_BYTES:
        return False
    for step in groups[-1]:
        output = step.get("output")
        if type(output) is not str:
            return False
        if output.startswith(BYTE_ORDER_MARK):
            return False  # The decoder of tables refuses such an output.
        if compares_by_name(step["name"]):
            return False
        if not KEYS_BEYOND_OUTPUT.isdisjoint(step):
            return False
        if step.get("score") == VALUES_F1:
            return False
    return True


def names_in_last_group(question: Question) -> set[str]:
    """Return the names of the steps in a question's last group; empty if there is no group."""
    groups = question.reference_steps
    if not groups:
        return set()
    return {step["name"] for step in groups[-1]}
