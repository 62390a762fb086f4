"""Checks of reference data, key by key. Every problem is reported with its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.copying import QuestionCopier
from graphrag_eval_async.records.decoding import MAX_DEPTH, is_shallow, nests_deeper
from graphrag_eval_async.records.json_file import decode_question, decode_template
from graphrag_eval_async.records.question import Question, encode_steps
from graphrag_eval_async.records.shapes import (
    OF_EVALUATIONS,
    QUESTION_KEYS,
    TEMPLATE_KEYS,
    Doubts,
    ReferenceStepShape,
    kinds_of,
)

_KINDS: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    list: "a list",
    dict: "a mapping",
    int: "an integer",
    float: "a number",
    type(None): "nothing",
}
_STEP_KINDS = kinds_of(ReferenceStepShape)
_STRINGS = frozenset({str})
_LEFT_OVER = frozenset(OF_EVALUATIONS)

_FLAT = (
    "expected groups of steps, got steps; put the steps of each group in their own list: in YAML, "
    '"- - name: ..." for the first step of a group and "  - name: ..." for the others; '
    'in JSON, [[{"name": ...}]]'
)
_PLAIN_ONLY = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)


class TemplateReader:
    """Reads templates into questions and collects their problems.

    `check_step` is called with each reference step, or with its well-formed keys. If it raises
    `MalformedStep`, the problems of that error are added. Steps whose names are in `own` may have any keys.

    Attributes:
        templates: template ids, in order.
        questions: questions by id, in order.
        problems: all problems found, as ``place: what``.
        doubts: probable mistakes.
        last_names: by template, the names of the steps in the last groups, which answers follow from.
    """

    def __init__(self, check_step: Callable[[dict[str, Any]], object], own: Collection[str] = ()) -> None:
        self._check_step = check_step
        self.doubts = Doubts(own)
        self._template_places: dict[str, str] = {}
        self._question_places: dict[str, str] = {}
        self._copier = QuestionCopier(self._problem)
        self.questions: dict[str, Question] = {}
        self.problems: list[str] = []
        self.last_names: dict[str, set[str]] = {}

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(self._template_places)

    def read(self, templates: Any) -> None:
        """Read a whole reference set."""
        if not isinstance(templates, Sequence) or isinstance(templates, str | bytes):
            self._problem("templates", f"expected a list of templates, got {_kind(templates)}")
        elif not templates:
            self._problem("templates", "expected at least one template")
        else:
            for index, template in enumerate(templates):
                if type(template) is msgspec.Raw:
                    template = decode_template(template)
                self._read_template(template, f"templates[{index}]")

    def _read_template(self, template: Any, place: str) -> None:
        if not self._is_a(dict, template, place):
            return
        self._copier.check_keys(template, place)
        self.doubts.look_at_keys(template, TEMPLATE_KEYS, place)
        template_id = self._identifier(template, "template_id", place, self._template_places)
        questions = self._get(template, "questions", list, place)
        for index, question in enumerate(questions or ()):
            where = f"{place}.questions[{index}]"
            raw, exact = decode_question(question) if type(question) is msgspec.Raw else _copy(question)
            if not exact or not self._read_plain(raw, template_id or "", where):
                self._read_question(raw, template_id or "", where)
            if isinstance(raw, dict):
                self.doubts.look_at_question(raw, where)

    def _read_plain(self, raw: Any, template_id: str, place: str) -> bool:
        """Try to read a question quickly; return False if it has anything wrong or unusual, as few have."""
        if type(raw) is not dict:
            return False
        question_id, text, answer = raw.get("id"), raw.get("question_text"), raw.get("reference_answer")
        if type(question_id) is not str or not question_id or question_id in self._question_places:
            return False
        if type(text) is not str or not (answer is None or type(answer) is str):
            return False
        groups = raw.get("reference_steps")
        try:
            shallow = self._check_plain([] if groups is None else groups) and QUESTION_KEYS.issuperset(raw)
            if not shallow and nests_deeper(raw, MAX_DEPTH):
                return False
            steps = encode_steps(groups) if groups else None
        except (MalformedStep, TypeError, OverflowError):
            return False
        self._question_places[question_id] = place
        self._add(Question(template_id, question_id, text, answer, steps), groups)
        return True

    def _add(self, question: Question, groups: Any) -> None:
        self.questions[question.id] = question
        if question.data is not None:
            self.last_names.setdefault(question.template_id, set()).update(
                each["name"] for each in groups[-1]
            )

    def _check_plain(self, groups: Any) -> bool:
        """Check steps, and return whether they nest only a few levels deep.

        Raises:
            MalformedStep, TypeError: a step has something wrong or unusual.
        """
        if type(groups) is not list:
            raise TypeError
        shallow = True
        for group in groups:
            if type(group) is not list or not group:
                raise TypeError
            for step in group:
                if type(step) is not dict or not _LEFT_OVER.isdisjoint(step) or not _has_plain_keys(step):
                    raise TypeError
                shallow = shallow and is_shallow(step)
                self._check_step(step)
        return shallow

    def _read_question(self, raw: Any, template_id: str, place: str) -> None:
        if not self._is_a(dict, raw, place):
            return
        raw = self._copier.copy(raw, place)
        question_id = self._identifier(raw, "id", place, self._question_places)
        text = self._get(raw, "question_text", str, place)
        answer = self._get(raw, "reference_answer", str, place, required=False)
        single = raw.get("reference_steps")
        if isinstance(single, dict) and "name" in single:  # A step without lists.
            raw = {**raw, "reference_steps": [single]}
        groups = self._get(raw, "reference_steps", list, place, required=False)
        if groups and all(isinstance(step, dict) for step in groups):
            self._problem(f"{place}.reference_steps", f"question {question_id!r}: {_FLAT}")
            for index, step in enumerate(groups):
                self._read_step(step, f"{place}.reference_steps[{index}]")
        else:
            for index, group in enumerate(groups or ()):
                self._read_group(group, f"{place}.reference_steps[{index}]")
        if question_id is not None and text is not None:
            steps = encode_steps(groups) if groups and not self.problems else None
            self._add(Question(template_id, question_id, text, answer, steps), groups)

    def _read_group(self, group: Any, place: str) -> None:
        if isinstance(group, dict):
            self._problem(place, "expected a list, got a mapping; a group is a list, even with a single step")
            return
        if not self._is_a(list, group, place):
            return
        if not group:
            self._problem(place, "the group has no steps")
        for index, step in enumerate(group):
            self._read_step(step, f"{place}[{index}]")

    def _read_step(self, step: Any, place: str) -> None:
        if not self._is_a(dict, step, place):
            return
        for key in OF_EVALUATIONS:
            step.pop(key, None)
        readable = self._read_step_keys(step, place)
        if readable["name"] is None:
            if readable["output_media_type"] is None or step.get("output") is None:
                return
            readable["name"] = ""  # Its output can be checked against the media type without a name.
        try:
            self._check_step(step | readable)
        except MalformedStep as error:
            for problem in error.problems:
                where, _, what = problem.partition(": ")
                if f"{place}.{where}" not in self._copier.incomplete:
                    self._problem(f"{place}.{where}", what)

    def _read_step_keys(self, step: dict[str, Any], place: str) -> dict[str, Any]:
        values = {
            key: self._get(step, key, kind, place, required=key == "name")
            for key, kind in _STEP_KINDS.items()
        }
        values["required_columns"] = [
            column
            for index, column in enumerate(values["required_columns"] or ())
            if self._is_a(str, column, f"{place}.required_columns[{index}]")
        ]
        return values

    def _identifier(self, mapping: dict[str, Any], key: str, place: str, seen: dict[str, str]) -> str | None:
        value: str | None = self._copier.copy(self._get(mapping, key, str, place), place, f".{key}")
        if value is None:
            return None
        if not value:
            self._problem(f"{place}.{key}", "is empty")
            return None
        if value in seen:
            self._problem(f"{place}.{key}", f"{value!r} is already the {key} of {seen[value]}")
            return None
        seen[value] = place
        return value

    def _get(
        self, mapping: dict[str, Any], key: str, kind: type, place: str, *, required: bool = True
    ) -> Any:
        value = mapping.get(key)
        if value is None and not required:
            return None
        if key not in mapping:
            self._problem(f"{place}.{key}", "missing")
            return None
        return value if self._is_a(kind, value, f"{place}.{key}") else None

    def _is_a(self, kind: type, value: Any, place: str) -> bool:
        if type(value) is kind or (kind in {dict, str} and isinstance(value, kind)):
            return True
        if place in self._copier.refused:
            return False
        hint = "; put it in quotes" if kind is str and type(value) in {int, float, bool} else ""
        self._problem(place, f"expected {_KINDS[kind]}, got {_kind(value)}{hint}")
        return False

    def _problem(self, place: str, what: str) -> None:
        self.problems.append(f"{place}: {what}")


def _copy(question: Any) -> tuple[Any, bool]:
    """A copy and True, or the original and False if it may not be representable as JSON."""
    try:
        text = orjson.dumps(question, option=_PLAIN_ONLY)
    except (TypeError, ValueError):
        return question, False
    if b"null" in text:  # It may be a number that is not finite.
        return question, False
    return orjson.loads(text), True


def _has_plain_keys(step: dict[str, Any]) -> bool:
    kinds = _STEP_KINDS
    for key, value in step.items():
        if value is not None and key in kinds and type(value) is not kinds[key]:
            return False
    if step.get("name") is None:
        return False
    return _STRINGS.issuperset(map(type, step.get("required_columns") or ()))


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")
