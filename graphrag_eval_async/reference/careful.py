"""Reading of templates of any shape, which finds the first problem of each template and question.

It is slower than `usual`, and reads the templates that `usual` gives up on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from msgspec import Meta, Struct, ValidationError, convert

from graphrag_eval_async.catalogue.reference_steps import KEYS_OF_EVALUATIONS
from graphrag_eval_async.catalogue.tags import Tags, read_tags
from graphrag_eval_async.errors import MalformedStep, describe
from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.question import encode_steps
from graphrag_eval_async.reference.contents import (
    NO_LIMITS,
    Contents,
    EncodedSteps,
    StepLimits,
    has_usual_steps,
)
from graphrag_eval_async.reference.doubts import doubts_of
from graphrag_eval_async.reference.shapes import (
    CountShape,
    NamesShape,
    QuestionShape,
    TagsShape,
    steps_with_places,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.steps import Comparator

STRICT_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Option of orjson with which it refuses values that JSON cannot represent."""

MAX_NAME_CHARACTERS = 64
"""How many characters of a name a message shows."""

_CHOICES = {
    "score": "exact, f1 or values_f1",
    "args_match": "exact, subset or none",
    "match_columns": "contents, name or count",
    "compare": "table",
    "order": "strict or any",
    "match": "exact, contains, number, regex or list",
}
"""The values that a key may have, for messages."""

_HINT_FOR_FLAT_STEPS = (
    "; the steps of a group are a list of their own: [[{name: ...}]], or under steps"
)
_HINT_FOR_BENCHMARKS = "; read a benchmark with convert --from, or format="


class _Problem(Exception):  # noqa: N818
    """The first problem of a template or question. The message begins with its place."""


class _Template(Struct):
    template_id: Annotated[str, Meta(min_length=1)]
    questions: list[Any]
    tags: TagsShape | None = None
    forbidden_steps: NamesShape = None
    max_steps: CountShape = None


@dataclass(frozen=True)
class _InheritedKeys:
    """Keys of a template that its questions inherit."""

    template_id: str = ""
    tags: Tags = ()
    # `forbidden_steps` and `max_steps`, unless the question has its own.
    limits: dict[str, Any] = field(default_factory=dict)


class CarefulReader:
    """Reads templates of any shape, and finds the first problem of each template and question."""

    def __init__(self, comparators: Mapping[str, Comparator]) -> None:
        self._contents = Contents(comparators)
        self._place_by_id: dict[tuple[str, str], str] = {}  # By kind of id, and id.

    def read(self, templates: Any) -> Contents:
        """Return the contents of templates, with the problems in the templates.

        If there are no problems, the contents have the probable mistakes as `doubts`.
        """
        contents = self._contents
        is_list = isinstance(templates, Sequence) and not isinstance(templates, str | bytes)
        if not is_list or not templates:
            problem = (
                f"templates: expected a list of at least one template, got {describe(templates)}"
            )
            if isinstance(templates, dict):
                # Files of benchmarks are objects.
                problem += _HINT_FOR_BENCHMARKS
            contents.problems.append(problem)
            return contents

        for index, template in enumerate(templates):
            self._read_template(template, f"templates[{index}]")
        if not contents.problems:
            contents.doubts += doubts_of(templates, contents.comparators)
        return contents

    def _read_template(self, template: Any, place: str) -> None:
        """Add a template and its questions, or their problems, to the contents."""
        questions: Any = None
        if isinstance(template, dict):
            questions = template.get("questions")

        inherited = _InheritedKeys()
        try:
            inherited = _read_inherited_keys(template, place)
            self._claim_id("template_id", inherited.template_id, place)
            self._contents.templates.append(inherited.template_id)
            if not isinstance(questions, list | tuple):
                # msgspec also accepts a set, whose items have no order.
                raise _Problem(f"{place}.questions: expected a list, got {describe(questions)}")
        except _Problem as problem:
            self._contents.problems.append(str(problem))
            if not isinstance(questions, list | tuple):
                return

        # The problems of questions are listed even if their template has a problem.
        for index, question in enumerate(questions):
            question_place = f"{place}.questions[{index}]"
            try:
                question_copy = _json_copy(question, question_place)
                if isinstance(question_copy, dict):
                    # The question's own limits take precedence.
                    question_copy = inherited.limits | question_copy
                self._read_question(question_copy, inherited, question_place)
            except _Problem as problem:
                self._contents.problems.append(str(problem))

    def _read_question(self, question: Any, inherited: _InheritedKeys, place: str) -> None:
        """Add a question to the contents.

        Args:
            question: a copy of the question, with the limits of its template. The copy is changed.
            inherited: the other keys that the question inherits from its template.
            place: place of the question, for messages.

        Raises:
            _Problem: the question is invalid.
        """
        shaped = _shaped(question, QuestionShape, place)
        self._claim_id("id", shaped.id, place)
        groups = [
            self._read_group(group, f"{place}.reference_steps[{index}]")
            for index, group in enumerate(question.get("reference_steps") or ())
        ]
        limits = StepLimits(tuple(shaped.forbidden_steps or ()), shaped.max_steps)
        _check_forbidden_steps(limits.forbidden_steps, groups, place)

        steps = EncodedSteps()
        if groups or limits != NO_LIMITS:
            # Limits also apply to questions without reference steps. Their empty list of groups
            # says that the steps of an agent count.
            data = encode_steps(groups)
            steps = EncodedSteps(data, are_usual=has_usual_steps(groups, len(data)))
        try:
            self._contents.add_question(
                shaped,
                template_id=inherited.template_id,
                template_tags=inherited.tags,
                steps=steps,
                limits=limits,
            )
        except ValueError as error:
            raise _Problem(f"{place}.{error}") from None

    def _read_group(self, group: Any, place: str) -> list[dict[str, Any]]:
        """Add the steps of a group to the contents, and return the steps.

        The steps are changed: keys that an evaluation has left are removed, and the first step
        gets the `order` of the group.

        Raises:
            _Problem: a step is invalid.
        """
        steps: list[dict[str, Any]] = []
        for step_place, step in steps_with_places(group, place):
            is_first_step = not steps
            if not is_first_step and step.get("order") is not None:
                # The order of a group is kept on its first step, so no other step may have one.
                raise _Problem(
                    f"{step_place}.order: is the group's; write {{order: strict, steps: [...]}}"
                )
            for key in KEYS_OF_EVALUATIONS:
                step.pop(key, None)
            try:
                self._contents.add_step(step)
            except MalformedStep as error:
                raise _Problem(f"{step_place}.{error.problems[0]}") from None
            steps.append(step)

        # An order that the group itself has is moved to its first step.
        if isinstance(group, dict) and group.get("order") is not None:
            steps[0]["order"] = group["order"]
        return steps

    def _claim_id(self, key: str, value: str, place: str) -> None:
        """Store that the object at a place has an id.

        Args:
            key: the key of the id: "template_id" of templates, or "id" of questions.
            value: the id.
            place: place of the object, for messages.

        Raises:
            _Problem: another object of the same kind has this id already.
        """
        first_place = self._place_by_id.setdefault((key, value), place)
        if first_place != place:
            raise _Problem(f"{place}.{key}: {value!r} is already the {key} of {first_place}")


def _read_inherited_keys(template: Any, place: str) -> _InheritedKeys:
    """Return the keys of a template that its questions inherit.

    Raises:
        _Problem: a key of the template is missing or invalid.
    """
    shaped = _shaped(template, _Template, place)
    template_id = _json_copy(shaped.template_id, f"{place}.template_id")
    try:
        tags = read_tags(_json_copy(shaped.tags, f"{place}.tags"))
    except ValueError as error:
        raise _Problem(f"{place}.{error}") from None
    limits = {"forbidden_steps": shaped.forbidden_steps, "max_steps": shaped.max_steps}
    return _InheritedKeys(template_id=template_id, tags=tags, limits=limits)


def _check_forbidden_steps(
    forbidden_steps: Sequence[str], groups: Sequence[Sequence[Mapping[str, Any]]], place: str
) -> None:
    """Check that a question does not forbid a step that it also expects.

    Raises:
        _Problem: a forbidden step is also a reference step.
    """
    expected_names = {plain_name(step["name"]) for group in groups for step in group}
    for name in forbidden_steps:
        if plain_name(name) in expected_names:
            raise _Problem(
                f"{place}.forbidden_steps: {name[:MAX_NAME_CHARACTERS]!r} is also a reference step"
            )


def _json_copy(value: Any, place: str) -> Any:
    """Return a copy of a value, with only the types that JSON has.

    Raises:
        _Problem: JSON cannot represent the value, or the value nests too deep.
    """
    try:
        text = orjson.dumps(value, option=STRICT_JSON)
        if b"null" in text:
            # orjson writes numbers that are not finite as null. This raises an error for them.
            json.dumps(value, allow_nan=False, default=str)
    except (TypeError, ValueError) as error:
        raise _Problem(f"{place}: cannot be written as JSON: {error}") from None
    copy = orjson.loads(text)
    if nests_deeper(copy, MAX_DEPTH):
        raise _Problem(f"{place}: nests more than {MAX_DEPTH} deep")
    return copy


def _shaped(value: Any, shape: Any, place: str) -> Any:
    """Return a template or question as an instance of `shape`, a struct of msgspec.

    Raises:
        _Problem: a key is missing, or the value of a key has another type or is out of range.
    """
    try:
        return convert(value, shape)
    except (ValidationError, UnicodeError) as error:
        raise _shape_problem(str(error), value, place) from None


def _shape_problem(error: str, value: Any, place: str) -> _Problem:
    """Return the problem of a template or question that lacks its shape, with a hint for the user.

    Args:
        error: the message of msgspec: "Expected `str`, got `int` - at `$.reference_answer`".
        value: the template or question.
        place: place of the template or question. The path in the message is added to it.
    """
    message, _, path = error.partition(" - at `$")
    path = path.removesuffix("`")

    if path.startswith(".tags[...]"):
        # The message of msgspec does not name the tag that is wrong, but `read_tags` does.
        try:
            read_tags(value["tags"])
        except ValueError as tags_error:
            return _Problem(f"{place}.{tags_error}")

    key = path.rpartition(".")[2]
    hint = ""
    if message.startswith("Expected `str") and message.endswith(("`int`", "`float`", "`bool`")):
        hint = "; put it in quotes"
    elif key == "tags":
        hint = "; write {key: value} or [name]"
    elif message.endswith("missing required field `steps`"):
        # The user wrote a step where a group is expected.
        message = "Expected `array`, got `object`"
        hint = _HINT_FOR_FLAT_STEPS
    elif message.startswith("Invalid enum value"):
        hint = f"; write {_CHOICES.get(key, '')}, or leave it out"
    return _Problem(f"{place}{path}: {message}{hint}")
