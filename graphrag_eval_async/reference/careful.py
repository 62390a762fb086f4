"""Reading of templates of any shape, which finds all mistakes in them.

It is slower than `usual`, and reads the templates that `usual` gives up on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.tags import Tags, read_tags
from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.question import encode_steps
from graphrag_eval_async.reference.contents import (
    NO_LIMITS,
    Contents,
    EncodedSteps,
    StepLimits,
    has_usual_steps,
    text_of_answer,
)
from graphrag_eval_async.reference.doubts import MAX_DOUBTS, doubt_about_id
from graphrag_eval_async.reference.key_checks import KeyCheck, describe_value, ignores_steps
from graphrag_eval_async.reference.kinds import (
    MAX_NAME_CHARACTERS,
    QUESTION,
    TEMPLATE,
    suggest_key,
)
from graphrag_eval_async.reference.layout import (
    LAYOUT_OF_TEMPLATE,
    is_question,
    is_whole_set,
    problem_of_layout,
)
from graphrag_eval_async.reference.mistakes import Mistakes
from graphrag_eval_async.reference.shapes import QuestionShape
from graphrag_eval_async.reference.step_checks import StepsReader
from graphrag_eval_async.reference.strict_json import problem_as_json, to_strict_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.records.document import Document
    from graphrag_eval_async.steps import Comparator

_KEYS_OF_LIMITS = ("forbidden_steps", "max_steps")
"""Keys of a template that its questions inherit, unless they have their own."""


@dataclass(frozen=True)
class _InheritedKeys:
    """Keys of a template that its questions inherit."""

    template_id: str = ""
    tags: Tags = ()
    limits: Mapping[str, Any] = field(default_factory=dict)  # `forbidden_steps` and `max_steps`.


class CarefulReader:
    """Reads templates of any shape.

    Attributes:
        problems: what makes the templates invalid.
        doubts: what is probably a mistake.
    """

    def __init__(
        self, comparators: Mapping[str, Comparator], document: Document | None = None
    ) -> None:
        """Prepare to read templates.

        Args:
            comparators: your own comparison of steps, by name of reference step.
            document: the file of the templates; None if they are from no file.
        """
        self.problems = Mistakes()
        self.doubts = Mistakes(most=MAX_DOUBTS)
        self._contents = Contents(comparators)
        self._is_json = document is not None and document.is_json
        self._keys = KeyCheck(self.problems, self.doubts, is_json=self._is_json)
        self._steps = StepsReader(self._contents, self._keys, self.problems, self.doubts, document)
        # The place of the object that has an id, by the key of the id, such as "template_id", and
        # the id.
        self._place_by_id: dict[tuple[str, str], str] = {}

    def read(self, templates: Any) -> Contents:
        """Return the contents of templates, and add their mistakes to `problems` and `doubts`.

        Questions with problems are left out of the contents.
        """
        is_list = isinstance(templates, Sequence) and not isinstance(templates, str | bytes)
        if is_list and templates:
            for index, template in enumerate(templates):
                self._read_template(template, f"templates[{index}]")
        else:
            self.problems.add("templates", problem_of_layout(templates, is_json=self._is_json))
            if isinstance(templates, dict):
                self._read_wrapped(templates)
        return self._contents

    def _read_wrapped(self, document: dict[Any, Any]) -> None:
        """Add the problems inside an object that stands where the list of templates should be."""
        if "questions" in document and "template_id" in document:
            self._read_template(document, "file")
            return
        for key, value in document.items():
            if is_whole_set(str(key), value):
                for index, template in enumerate(value):
                    self._read_template(template, f"file.{key}[{index}]")

    def _read_template(self, template: Any, place: str) -> None:
        """Add a template and its questions to the contents, or their problems to `problems`."""
        if not isinstance(template, dict):
            self.problems.add(
                place,
                f"expected a template, {LAYOUT_OF_TEMPLATE}, got {describe_value(template)}",
            )
            return
        if is_question(template):
            self.problems.add(
                place,
                f"expected a template, got a question; put questions in templates: "
                f"[{LAYOUT_OF_TEMPLATE}]",
            )
            self._read_question(template, _InheritedKeys(), place)
            return

        key_of_questions = _key_of_questions(template)
        inherited = self._read_inherited_keys(template, key_of_questions, place)
        questions = template.get(key_of_questions)
        if isinstance(questions, list | tuple):
            # The problems of questions are listed even if their template has a problem.
            for index, question in enumerate(questions):
                self._read_question(question, inherited, f"{place}.{key_of_questions}[{index}]")
        elif "questions" in template:
            cure = "begin each question with `- id: `"
            if self._is_json:
                cure = 'write [{"id": ..., "question_text": ...}]'
            self.problems.add(
                f"{place}.questions",
                f"expected a list of questions, got {describe_value(questions)}; {cure}",
            )

    def _read_inherited_keys(
        self, template: dict[Any, Any], key_of_questions: str, place: str
    ) -> _InheritedKeys:
        """Return the keys of a template that its questions inherit, if the template is valid.

        Its id is added to the contents.

        Args:
            template: the template.
            key_of_questions: the key under which it has its questions.
            place: its place, for messages.
        """
        # The questions are read one by one, so they are not copied here.
        other_members = {key: value for key, value in template.items() if key != key_of_questions}
        members = self._json_copy(other_members, place)
        if members is None:
            return _InheritedKeys()
        if key_of_questions in template:
            members[key_of_questions] = []
        values, is_valid = self._keys.check(members, TEMPLATE, place)
        if not is_valid:
            return _InheritedKeys()

        template_id = values["template_id"]
        self._claim_id("template_id", template_id, place)
        self._contents.templates.append(template_id)
        limits = {key: values[key] for key in _KEYS_OF_LIMITS if key in values}
        try:
            tags = read_tags(values.get("tags"))
        except ValueError as error:
            self.problems.add_text(f"{place}.{error}")
            tags = ()
        return _InheritedKeys(template_id=template_id, tags=tags, limits=limits)

    def _read_question(self, question: Any, inherited: _InheritedKeys, place: str) -> None:
        """Add a question to the contents, or its problems to `problems`."""
        if not isinstance(question, dict):
            self.problems.add(
                place,
                "expected a question, {id: ..., question_text: ...}, got "
                f"{describe_value(question)}",
            )
            return
        members = self._json_copy(question, place)
        if members is None:
            return
        # The limits that a question sets itself take precedence over those of its template.
        members = {**inherited.limits, **members}

        problems_before = self.problems.total
        required = {}
        if members.get("match") is not None:
            required["reference_answer"] = "`match` compares answers with it"
        checked = self._keys.check(
            members, QUESTION, place, required=required, unchecked=["reference_steps"]
        )
        question_id = checked.values.get("id")
        if question_id is not None:
            self._claim_id("id", question_id, place)
        self._add_doubts(checked.values, place)

        groups = self._steps.read_groups(members.get("reference_steps"), f"{place}.reference_steps")
        self._check_misplaced_steps(members, place)
        if self.problems.total == problems_before and groups is not None:
            self._add_question(QuestionShape(**checked.values), groups, inherited, place)
        else:
            self._check_answer(checked.values, place)

    def _add_doubts(self, values: Mapping[str, Any], place: str) -> None:
        """Add the probable mistakes in the valid keys of a question."""
        text = values.get("question_text")
        if text is not None and not text.strip():
            self.doubts.add(f"{place}.question_text", "empty; write what the agent is asked")
        if values.get("reviewed") is False:
            self.doubts.add(
                f"{place}.reviewed",
                "the reference answer comes from an agent; review it, then delete this key",
            )

    def _check_misplaced_steps(self, members: Mapping[str, Any], place: str) -> None:
        """Add the problems of steps that a question has under a wrong key, such as `steps`."""
        for key in members:
            if key in QUESTION.type_by_key:
                continue
            suggestion = suggest_key(key[:MAX_NAME_CHARACTERS], QUESTION)
            if ignores_steps(members, key, QUESTION, suggestion):
                self._steps.read_groups(members[key], f"{place}.{key}")

    def _check_answer(self, values: Mapping[str, Any], place: str) -> None:
        """Add a problem if the reference answer of a question cannot be matched.

        Args:
            values: the valid keys of a question that has other problems.
            place: place of the question, for messages.
        """
        if values.get("match") is None or values.get("reference_answer") is None:
            return
        try:
            text_of_answer(
                values["reference_answer"], match=values["match"], tolerance=values.get("tolerance")
            )
        except ValueError as error:
            self.problems.add_text(f"{place}.{error}")

    def _add_question(
        self, shaped: Any, groups: list[list[dict[str, Any]]], inherited: _InheritedKeys, place: str
    ) -> None:
        """Add a question to the contents, or the problem of keys that do not go together.

        Each of its keys and steps is valid by itself.

        Args:
            shaped: the question, as an instance of `QuestionShape`.
            groups: its steps, which are in the contents already.
            inherited: keys of its template.
            place: its place, for messages.
        """
        limits = StepLimits(tuple(shaped.forbidden_steps or ()), shaped.max_steps)
        self._check_forbidden_steps(limits.forbidden_steps, groups, place)

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
            self.problems.add_text(f"{place}.{error}")

    def _check_forbidden_steps(
        self,
        forbidden_steps: Sequence[str],
        groups: Sequence[Sequence[Mapping[str, Any]]],
        place: str,
    ) -> None:
        """Add a problem for each forbidden step that the question also expects."""
        expected_names = {plain_name(step["name"]) for group in groups for step in group}
        for name in forbidden_steps:
            if plain_name(name) in expected_names:
                self.problems.add(
                    f"{place}.forbidden_steps",
                    f"{name[:MAX_NAME_CHARACTERS]!r} is also a reference step; remove one of them",
                )

    def _claim_id(self, key: str, value: str, place: str) -> None:
        """Store the id of the object at a place, and add the mistakes in it.

        It is a problem if another object has the id, and a doubt if the id looks mistyped.

        Args:
            key: the key of the id: "template_id" of templates, or "id" of questions.
            value: the id.
            place: place of the object, for messages.
        """
        first_place = self._place_by_id.setdefault((key, value), place)
        if first_place != place:
            self.problems.add(
                f"{place}.{key}", f"{value!r} is already the {key} of {first_place}; choose another"
            )
        doubt = doubt_about_id(value)
        if doubt is not None:
            self.doubts.add(f"{place}.{key}", doubt)

    def _json_copy(self, members: dict[Any, Any], place: str) -> dict[str, Any] | None:
        """Return a copy of an object, with only the types that JSON has.

        Keys and values that JSON cannot represent are problems, and absent from the copy.

        Returns:
            None if the object nests too deep, which is a problem, too.
        """
        try:
            text = to_strict_json(members)
        except (TypeError, ValueError, RecursionError):
            text = to_strict_json(self._without_unwritable(members, place))
        copy = orjson.loads(text)
        if nests_deeper(copy, MAX_DEPTH):
            self.problems.add(place, f"nests more than {MAX_DEPTH} deep")
            return None
        return dict(copy)

    def _without_unwritable(self, members: dict[Any, Any], place: str) -> dict[str, Any]:
        """Return the members of an object that JSON can represent, and add problems of the others.

        An integer that is too large becomes text, so that the members can be checked further.
        """
        writable = {}
        for key, value in members.items():
            key_place = f"{place}.{str(key)[:MAX_NAME_CHARACTERS]}"
            problem = problem_as_json(value)
            if not isinstance(key, str):
                problem = f"expected text as key, got {describe_value(key)}; put it in quotes"
                self.problems.add(key_place, problem)
            elif problem_as_json(key) is not None or problem is not None:
                self.problems.add(key_place, f"cannot be written as JSON: {problem}")
                if isinstance(value, int):
                    # The message says that the number should be written as text.
                    writable[key] = str(value)
            else:
                writable[key] = value
        return writable


def _key_of_questions(template: dict[Any, Any]) -> str:
    """Return the key under which a template has its questions, which may be wrong."""
    if "questions" in template:
        return "questions"
    for key, value in template.items():
        if not isinstance(key, str) or not isinstance(value, list):
            continue
        suggestion = suggest_key(key[:MAX_NAME_CHARACTERS], TEMPLATE)
        if suggestion.kind is TEMPLATE and suggestion.key == "questions":
            return key
    return "questions"
