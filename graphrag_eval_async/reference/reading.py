"""Reading and checking of templates: quickly if all are usual, else with care, which says what is wrong.

The quick way decodes typed JSON text in one pass and gives up at whatever is unusual, right or wrong. Both
ways read equal questions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import orjson
from msgspec import Meta, Struct, ValidationError, convert

from graphrag_eval_async.errors import MalformedStep, describe
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.question import Question, encode_steps
from graphrag_eval_async.records.shapes import GRAPHS, MEDIA_TYPES, OF_EVALUATIONS, did_you_mean, plain_type
from graphrag_eval_async.reference.shapes import QuestionShape, ReferenceStepShape, TemplateShape
from graphrag_eval_async.steps import check_step, needs_execution

if TYPE_CHECKING:
    from graphrag_eval_async.steps import Comparator

_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Option of orjson with which values are refused that JSON cannot represent."""

MAX_DOUBTS = 1000
"""Maximum number of different probable mistakes that are kept."""


@dataclass(slots=True)
class Contents:
    """What a reference set holds, and what is wrong with it.

    Attributes:
        comparators: the user's, by name of reference step.
        questions: by id, in order.
        templates: the template ids, in order.
        step_names: the names of all steps.
        last_names: by template, the names of the steps in the last groups, which answers follow from.
        lacks_output: whether a step has no output, but a query that gives it.
        problems: what makes the set invalid, as ``place: what``.
        doubts: what is probably a mistake.
    """

    comparators: Mapping[str, Comparator]
    questions: dict[str, Question] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    step_names: set[str] = field(default_factory=set)
    last_names: dict[str, set[str]] = field(default_factory=dict)
    lacks_output: bool = False
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def check_step(self, step: dict[str, Any]) -> None:
        """Check a step whose keys have the right types. Raises `MalformedStep`."""
        check_step(step, self.comparators)
        self.step_names.add(step["name"])
        if step.get("output") is None and needs_execution(step) and step["name"] not in self.comparators:
            self.lacks_output = True


class JsonText(NamedTuple):
    """The text of a JSON file."""

    text: bytes


def read_templates(templates: Any, comparators: Mapping[str, Comparator]) -> Contents:
    """The contents of templates, whatever they are; raises `UnreadableFile` if text is not JSON."""
    text: bytes | None = None
    if isinstance(templates, JsonText):
        text = templates.text
    else:
        with suppress(TypeError):
            text = orjson.dumps(templates, option=_PLAIN)
            text = None if b"null" in text else text  # A number may not be finite.
    contents = None if text is None else _read_usual(text, comparators)
    if contents is not None:
        return contents
    if isinstance(templates, JsonText):
        from graphrag_eval_async.records.yaml_file import read_json  # YAML takes long to import

        templates = read_json(templates.text)
    return _CarefulReader(comparators).read(templates)


class _Unusual(Exception):  # noqa: N818
    """Something is left to the careful way."""


_Value: TypeAlias = str | int | float | bool | None
_NoGraph: Any = Literal[tuple(each for each in MEDIA_TYPES if each not in GRAPHS)]


class _UsualStep(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    args: dict[str, _Value | list[_Value] | dict[str, _Value]] | None = None
    output: str | None = None
    output_media_type: _NoGraph | None = None
    ordered: bool | None = None
    required_columns: list[str] | None = None
    ignore_duplicates: bool | None = None
    score: Literal["exact", "f1"] | None = None
    reference_query: str | None = None


class _Steps:
    """The steps of a question: encoded, and the names of the last group."""

    __slots__ = ("data", "last_names")

    def __init__(self, data: bytes | None, last_names: Sequence[str]) -> None:
        self.data = data
        self.last_names = last_names


class _UsualQuestion(Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, Meta(min_length=1)]
    question_text: str
    reference_answer: str | None = None
    reference_steps: _Steps | None = None


class _UsualTemplate(Struct, forbid_unknown_fields=True):
    template_id: Annotated[str, Meta(min_length=1)]
    questions: list[_UsualQuestion]


_UsualSet = Annotated[list[_UsualTemplate], Meta(min_length=1)]


def _read_usual(text: bytes, comparators: Mapping[str, Comparator]) -> Contents | None:
    """The contents of JSON text; None if anything is invalid, doubtful or unusual."""
    contents, encoder, buffer = Contents(comparators), msgspec.msgpack.Encoder(), bytearray()

    def check_steps(_type: Any, groups: Any) -> _Steps:
        """Check and encode the steps of a question. Only one question's are in memory at a time."""
        if type(groups) is not list:
            raise _Unusual
        for group in groups:
            if type(group) is not list or not group:
                raise _Unusual
            for step in group:
                convert(step, _UsualStep)
                contents.check_step(step)
        last_names = [step["name"] for group in groups[-1:] for step in group]
        encoder.encode_into(groups, buffer)  # Quicker than `encode`, which lets each text grow.
        return _Steps(bytes(buffer) if groups else None, last_names)

    try:
        templates = msgspec.json.Decoder(_UsualSet, dec_hook=check_steps).decode(text)
    except (_Unusual, MalformedStep, ValueError, TypeError, OverflowError, RecursionError):
        return None
    for template in templates:
        template_id, last_names = template.template_id, set[str]()
        for each in template.questions:
            steps, data = each.reference_steps, None
            if steps is not None and steps.data is not None:
                data = steps.data
                last_names.update(steps.last_names)
            question = Question(template_id, each.id, each.question_text, each.reference_answer, data)
            contents.questions[each.id] = question
        contents.templates.append(template_id)
        contents.last_names[template_id] = last_names
    expected = sum(len(template.questions) for template in templates)
    is_unique = len(contents.questions) == expected and len(contents.last_names) == len(templates)
    return contents if is_unique else None


class _Problem(Exception):  # noqa: N818
    """The first problem of a part of a reference set. The message begins with its place."""


_TEMPLATE_KEYS, _QUESTION_KEYS, _STEP_KEYS = (
    frozenset(shape.__struct_fields__) for shape in (TemplateShape, QuestionShape, ReferenceStepShape)
)
_OF_TABLES: Mapping[str, Any] = {"ordered": False, "required_columns": [], "ignore_duplicates": True}
"""Keys of steps that say how tables are compared, and their defaults."""

_FLAT = (
    "; put the steps of each group in their own list: in YAML, "
    '"- - name: ..." for the first step of a group and "  - name: ..." for the others; '
    'in JSON, [[{"name": ...}]]'
)


class _CarefulReader:
    """Reads templates, and finds the first problem of each template and question and all doubts."""

    def __init__(self, comparators: Mapping[str, Comparator]) -> None:
        self._contents = Contents(comparators)
        self._places: dict[tuple[str, str], str] = {}
        self._doubts: dict[tuple[str, str], list[Any]] = {}

    def read(self, templates: Any) -> Contents:
        """The contents of templates of any shape."""
        contents = self._contents
        if not isinstance(templates, Sequence) or isinstance(templates, str | bytes):
            contents.problems.append(f"templates: expected a list of templates, got {describe(templates)}")
        elif not templates:
            contents.problems.append("templates: expected at least one template")
        else:
            for index, template in enumerate(templates):
                self._read_template(template, f"templates[{index}]")
        contents.doubts = [
            f"{place}: {_describe(*doubt)}" + (f"; in {count} places" if count > 1 else "")
            for doubt, (place, count) in self._doubts.items()
        ]
        return contents

    def _read_template(self, template: Any, place: str) -> None:
        template_id, questions, head = "", None, template
        if isinstance(template, dict):
            self._doubt_keys(template, _TEMPLATE_KEYS, place)
            questions = template.get("questions")
            head = {key: value for key, value in template.items() if key in _TEMPLATE_KEYS}
            if isinstance(questions, list | tuple):
                head["questions"] = []
        try:
            template_id = _converted(_plain(head, place), TemplateShape, place).template_id
            self._take("template_id", template_id, place)
            self._contents.templates.append(template_id)
        except _Problem as problem:
            self._contents.problems.append(str(problem))
        for index, question in enumerate(questions if isinstance(questions, list | tuple) else ()):
            where = f"{place}.questions[{index}]"
            try:
                self._read_question(question, template_id, where)
            except _Problem as problem:
                self._contents.problems.append(str(problem))
            if isinstance(question, dict):
                self._doubt_question(question, where)

    def _read_question(self, raw: Any, template_id: str, place: str) -> None:
        question = _plain(raw, place)
        shape = _converted(question, QuestionShape, place)
        self._take("id", shape.id, place)
        groups = question.get("reference_steps") or []
        for group_index, group in enumerate(groups):
            for index, step in enumerate(group):
                for key in OF_EVALUATIONS:
                    step.pop(key, None)
                try:
                    self._contents.check_step(step)
                except MalformedStep as error:
                    where = f"{place}.reference_steps[{group_index}][{index}]"
                    raise _Problem(f"{where}.{error.problems[0]}") from None
        data = encode_steps(groups) if groups else None
        self._contents.questions[shape.id] = Question(
            template_id, shape.id, shape.question_text, shape.reference_answer, data
        )
        last_names = self._contents.last_names.setdefault(template_id, set())
        last_names.update(step["name"] for group in groups[-1:] for step in group)

    def _take(self, key: str, value: str, place: str) -> None:
        """Refuse an identifier that is used already."""
        if (other := self._places.setdefault((key, value), place)) != place:
            raise _Problem(f"{place}.{key}: {value!r} is already the {key} of {other}")

    def _doubt_question(self, question: Mapping[Any, Any], place: str) -> None:
        self._doubt_keys(question, _QUESTION_KEYS, place)
        groups = question.get("reference_steps")
        for group_index, group in enumerate(groups if isinstance(groups, list | tuple) else ()):
            for index, step in enumerate(group if isinstance(group, list | tuple) else ()):
                if isinstance(step, dict):
                    self._doubt_step(step, f"{place}.reference_steps[{group_index}][{index}]")

    def _doubt_step(self, step: Mapping[Any, Any], place: str) -> None:
        name, media_type = step.get("name"), plain_type(step.get("output_media_type"))
        if isinstance(name, str) and name in self._contents.comparators:
            return  # It may have any keys.
        self._doubt_keys(step, _STEP_KEYS, place)
        if isinstance(media_type, str) and media_type not in MEDIA_TYPES:
            self._doubt("media type", media_type, f"{place}.output_media_type")
        if media_type in GRAPHS:
            for key, default in _OF_TABLES.items():
                if step.get(key) not in (None, default):
                    self._doubt("key of tables", key, f"{place}.{key}")

    def _doubt_keys(self, members: Mapping[Any, Any], known: frozenset[str], place: str) -> None:
        for key in members:
            if isinstance(key, str) and key not in known:
                name = key[:64] if key.isprintable() else ascii(key[:64])
                self._doubt(", ".join(sorted(known)), key, f"{place}.{name}")

    def _doubt(self, kind: str, name: str, place: str) -> None:
        found = self._doubts.get((kind, name[:64]))
        if found is not None:
            found[1] += 1
        elif len(self._doubts) < MAX_DOUBTS:
            self._doubts[kind, name[:64]] = [place, 1]


def _describe(kind: str, name: str) -> str:
    """Describe an unknown name, or a key that does nothing."""
    if kind == "media type":
        hint = did_you_mean(name, MEDIA_TYPES, cutoff=0.8)
        return f"unknown media type {name!r}, the output is compared as text; {hint}"
    if kind == "key of tables":
        return "ignored, since the output is a graph, which has no rows and columns; remove it"
    return f"unknown key, ignored; {did_you_mean(name, kind.split(', '))}"


def _plain(value: Any, place: str) -> Any:
    """A copy of a question as JSON has it. Raises `_Problem`."""
    try:
        text = orjson.dumps(value, option=_PLAIN)
    except TypeError as error:
        raise _Problem(_unwritable(value, place) or f"{place}: cannot be written as JSON: {error}") from None
    copy = orjson.loads(text)
    if b"null" in text and (problem := _unwritable(value, place)) is not None:  # A number may not be finite.
        raise _Problem(problem)
    if nests_deeper(copy, MAX_DEPTH):
        raise _Problem(f"{place}: nests more than {MAX_DEPTH} deep")
    return copy


def _unwritable(value: Any, place: str) -> str | None:
    """The place of the first part of a value that JSON cannot represent, and why."""
    pending: list[tuple[Any, str, int]] = [(value, "", 0)]
    while pending:
        part, inner, depth = pending.pop()
        if depth > MAX_DEPTH:
            return f"{place}: nests more than {MAX_DEPTH} deep, or contains itself"
        if isinstance(part, float) and not math.isfinite(part):
            return f"{place}{inner}: {part} is not a finite number"
        members: list[tuple[Any, str]] = []
        if isinstance(part, dict):
            members = [(item, f".{key}") for key, item in part.items() if isinstance(key, str)]
            part = dict.fromkeys(part)
        elif isinstance(part, list | tuple):
            members, part = [(item, f"[{index}]") for index, item in enumerate(part)], []
        try:
            orjson.dumps(part, option=_PLAIN)
        except TypeError as error:
            return f"{place}{inner}: cannot be written as JSON: {error}"
        pending += [(item, inner + name, depth + 1) for item, name in reversed(members)]
    return None


_KINDS = {
    "str": "a string",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a number",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<at>.*)`)?\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(\w+).*?`(?: of length >= 1|, got `(\w+)`)")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


def _converted(value: Any, shape: Any, place: str) -> Any:
    """The value as its shape has it. Raises `_Problem`."""
    try:
        return convert(value, shape)
    except ValidationError as error:
        found = _MESSAGE.match(str(error))
    what, where = (found["what"], place + (found["at"] or "")) if found else ("", place)
    if missing := _MISSING.match(what):
        raise _Problem(f"{where}.{missing[1]}: missing")
    expected = _EXPECTED.match(what)
    if expected is None:  # The only key with a choice is `score`.
        raise _Problem(f"{where}: must be absent, exact or f1")
    if expected[2] is None:
        raise _Problem(f"{where}: is empty")
    hint = "; put it in quotes" if expected[1] == "str" and expected[2] in {"int", "float", "bool"} else ""
    if expected[1] == "array" and expected[2] == "object" and ".reference_steps" in where:
        hint = _FLAT
    raise _Problem(f"{where}: expected {_KINDS[expected[1]]}, got {_KINDS[expected[2]]}{hint}")
