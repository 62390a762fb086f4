"""The structure of reference data: template dicts checked key by key, every problem with its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.question import Question
from graphrag_eval_async.records.question_copy import QuestionCopier

T = TypeVar("T")

_KINDS: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    list: "a list",
    dict: "a mapping",
    int: "an integer",
    float: "a number",
    type(None): "nothing",
}
_STEP_KEYS: dict[str, type] = {
    "name": str,
    "args": dict,
    "output_media_type": str,
    "ordered": bool,
    "ignore_duplicates": bool,
    "required_columns": list,
}


class TemplateReader(Generic[T]):
    """Reads templates into questions and gathers what is wrong with them.

    `prepare_step` is called with each reference step, or with what of it is laid out as it should be; what it
    returns is kept, and a `MalformedStep` that it raises adds to the problems.

    Attributes:
        templates: the template ids, in order.
        questions: the questions by id, in order.
        prepared: by question id, what became of its groups of steps; only of questions that have steps.
        problems: all that was found, as ``place: what``.
    """

    def __init__(self, prepare_step: Callable[[dict[str, Any]], T]) -> None:
        self._prepare_step = prepare_step
        self._template_places: dict[str, str] = {}
        self._question_places: dict[str, str] = {}
        self._copier = QuestionCopier(self._problem)
        self.questions: dict[str, Question] = {}
        self.prepared: dict[str, tuple[tuple[T, ...], ...]] = {}
        self.problems: list[str] = []

    @property
    def templates(self) -> tuple[str, ...]:
        return tuple(self._template_places)

    def read(self, templates: Any) -> None:
        """Read a whole reference set."""
        if not isinstance(templates, Sequence) or isinstance(templates, str | bytes):
            self._problem("templates", f"expected a list of templates, got {_kind(templates)}")
        elif not templates:
            self._problem("templates", "there are none")
        else:
            for index, template in enumerate(templates):
                self._read_template(template, f"templates[{index}]")

    def _read_template(self, template: Any, place: str) -> None:
        if not self._is_a(dict, template, place):
            return
        self._copier.check_keys(template, place)
        template_id = self._identifier(template, "template_id", place, self._template_places)
        questions = self._get(template, "questions", list, place)
        for index, question in enumerate(questions or ()):
            self._read_question(question, template_id or "", f"{place}.questions[{index}]")

    def _read_question(self, raw: Any, template_id: str, place: str) -> None:
        if not self._is_a(dict, raw, place):
            return
        raw = self._copier.copy(raw, place)
        question_id = self._identifier(raw, "id", place, self._question_places)
        text = self._get(raw, "question_text", str, place)
        answer = self._get(raw, "reference_answer", str, place, required=False)
        groups = self._get(raw, "reference_steps", list, place, required=False)
        prepared = tuple(
            self._read_group(group, f"{place}.reference_steps[{index}]")
            for index, group in enumerate(groups or ())
        )
        if question_id is not None and text is not None:
            self.questions[question_id] = Question(template_id, question_id, text, answer, groups or None)
            if prepared:
                self.prepared[question_id] = prepared

    def _read_group(self, group: Any, place: str) -> tuple[T, ...]:
        if not self._is_a(list, group, place):
            return ()
        if not group:
            self._problem(place, "a group without steps")
        return tuple(
            prepared
            for index, step in enumerate(group)
            for prepared in self._read_step(step, f"{place}[{index}]")
        )

    def _read_step(self, step: Any, place: str) -> list[T]:
        if not self._is_a(dict, step, place):
            return []
        step.pop("matches", None)  # Left over from an evaluation; only ours may stand in a result.
        before = len(self.problems)
        readable = self._read_step_keys(step, place)
        if readable["name"] is None:
            if readable["output_media_type"] is None or step.get("output") is None:
                return []
            readable["name"] = ""  # Whatever it is called, its output is to be what its media type says.
        elif len(self.problems) == before:
            readable = {}
        return self._prepare(step | readable, place)

    def _read_step_keys(self, step: dict[str, Any], place: str) -> dict[str, Any]:
        values = {
            key: self._get(step, key, kind, place, required=key == "name") for key, kind in _STEP_KEYS.items()
        }
        values["required_columns"] = [
            column
            for index, column in enumerate(values["required_columns"] or ())
            if self._is_a(str, column, f"{place}.required_columns[{index}]")
        ]
        return values

    def _prepare(self, step: dict[str, Any], place: str) -> list[T]:
        try:
            return [self._prepare_step(step)]
        except MalformedStep as error:
            for problem in error.problems:
                where, _, what = problem.partition(": ")
                if f"{place}.{where}" not in self._copier.incomplete:
                    self._problem(f"{place}.{where}", what)
            return []

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


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")
