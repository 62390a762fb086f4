"""Reading and checking of templates: quickly if all are usual, else with care, which says what is
wrong.

The quick way decodes typed JSON in one pass and gives up at whatever is unusual. Both read equal
questions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, time
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
import orjson
from msgspec import Meta, Raw, Struct, ValidationError, convert

from graphrag_eval_async.catalogue.media_types import CSV, GRAPHS, MEDIA_TYPES, plain_type
from graphrag_eval_async.catalogue.metrics import VALUES_F1
from graphrag_eval_async.catalogue.reference_steps import KEYS_OF_EVALUATIONS
from graphrag_eval_async.catalogue.tags import Tags, read_tags
from graphrag_eval_async.errors import MalformedStep, describe
from graphrag_eval_async.records.aliases import plain_name
from graphrag_eval_async.records.decoding import MAX_DEPTH, nests_deeper
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.records.question import Matching, Question, encode_steps
from graphrag_eval_async.reference.shapes import (
    CountShape,
    GroupShape,
    NamesShape,
    QuestionShape,
    ReferenceStepShape,
    Score,
    TagsShape,
    TemplateShape,
)
from graphrag_eval_async.steps import check_step, compares_by_name, needs_execution
from graphrag_eval_async.steps.answers import check_match
from graphrag_eval_async.steps.formats.delimited import has_cells_like_terms
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from graphrag_eval_async.steps import Comparator

_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Option of orjson with which values are refused that JSON cannot represent."""

MAX_DOUBTS = 1000
"""Maximum number of different probable mistakes that are kept."""


NO_LIMITS: tuple[tuple[str, ...], int | None] = ((), None)
"""The forbidden steps and the maximum number of steps of a question without limits."""


@dataclass(slots=True)
class Contents:
    """What a reference set holds, what makes it invalid (``place: what``), and what is probably
    a mistake.
    """

    comparators: Mapping[str, Comparator]
    questions: dict[str, Question] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    step_names: set[str] = field(default_factory=set)
    # By template; filled when needed.
    last_names: dict[str, set[str]] = field(default_factory=dict)
    tags: dict[Tags, Tags] = field(default_factory=dict)  # Each once; many questions share them.
    lacks_output: bool = False
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def check_step(self, step: dict[str, Any]) -> None:
        """Check a step whose keys have the right types. Raises `MalformedStep`."""
        check_step(step, self.comparators)
        self.step_names.add(step["name"])
        if (
            step.get("output") is None
            and needs_execution(step)
            and step["name"] not in self.comparators
        ):
            self.lacks_output = True

    def add_question(
        self,
        template_id: str,
        shape: Any,
        data: bytes | None,
        of_template: Tags,
        limits: tuple[tuple[str, ...], int | None] = NO_LIMITS,
        *,
        has_usual_steps: bool = True,
    ) -> None:
        """Add the question of a shape; raises a `ValueError` that names the key if it is wrong."""
        tags = read_tags(shape.tags, of_template)
        tags = self.tags.setdefault(tags, tags)
        answer, match, tolerance = shape.reference_answer, shape.match, shape.tolerance
        if type(answer) is list:
            if match not in ("contains", "list"):
                raise ValueError(
                    "reference_answer: a list needs `match: contains` or `match: list`"
                )
            answer = "\n".join(answer)
        if match is not None or tolerance is not None:
            check_match(match, answer, tolerance)
        own = template_id, shape.id, shape.question_text, answer, data, tags
        is_usual = has_usual_steps and match is None and limits == NO_LIMITS
        self.questions[shape.id] = Question(*own, *limits, match, tolerance, is_usual)


def read_templates(templates: Any, comparators: Mapping[str, Comparator]) -> Contents:
    """The contents of templates, whatever they are; a JSON file is `Raw`, or an `UnreadableFile`
    error.
    """
    text = templates if isinstance(templates, Raw) else None
    if text is None:
        with suppress(TypeError):
            written = orjson.dumps(templates, option=_PLAIN)
            text = None if b"null" in written else Raw(written)  # A number may not be finite.
    if text is not None and (contents := _read_usual(text, comparators)) is not None:
        return contents
    if isinstance(templates, Raw):
        from graphrag_eval_async.records.yaml_file import read_json  # YAML takes long to import

        templates = read_json(bytes(templates))
    else:
        with suppress(RecursionError):  # The reader says what nests too deep.
            templates = _with_iso_text(templates)
    return _CarefulReader(comparators).read(templates)


def _with_iso_text(value: Any) -> Any:
    """Return a value with ISO 8601 text in place of dates and times, as YAML files are read."""
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {_with_iso_text(key): _with_iso_text(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_iso_text(item) for item in value]
    return value


_UNUSUAL_KEYS = frozenset({"args_match", "order"})
"""Keys of reference steps with which equal outputs are not enough."""


def has_usual_steps(groups: Sequence[Sequence[Mapping[str, Any]]], size: int) -> bool:
    """Return whether steps match a step of the agent if its output is plainly equal.

    Args:
        groups: the reference steps of a question, which are valid.
        size: bytes of the encoded steps.
    """
    if not groups or not groups[-1] or size >= LARGE_BYTES:
        return False
    for step in groups[-1]:
        output = step.get("output")
        if type(output) is not str or output.startswith("\ufeff"):
            return False  # The decoder of tables refuses a byte order mark.
        if compares_by_name(step["name"]) or not _UNUSUAL_KEYS.isdisjoint(step):
            return False
        if step.get("score") == VALUES_F1:
            return False
    return True


class _Problem(Exception):  # noqa: N818
    """The first problem of a template or question. The message begins with its place."""


_Value: TypeAlias = str | int | float | bool | None
_WITH_DOUBTS = (*GRAPHS, CSV)
"""Media types of outputs that are looked at for what is probably a mistake."""

_UsualMediaType: Any = Literal[tuple(name for name in MEDIA_TYPES if name not in _WITH_DOUBTS)]


class _UsualStep(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    args: dict[str, _Value | list[_Value] | dict[str, _Value]] | None = None
    output: str | None = None
    output_media_type: _UsualMediaType | None = None
    ordered: bool | None = None
    required_columns: list[str] | None = None
    ignore_duplicates: bool | None = None
    score: Score = None
    args_match: Literal["exact", "subset", "none"] | None = None
    order: Literal["strict", "any"] | None = None
    reference_query: str | None = None


class _UsualQuestion(Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, Meta(min_length=1)]
    question_text: str
    reference_answer: str | list[str] | None = None
    match: Matching | None = None
    tolerance: Annotated[float, Meta(ge=0)] | None = None
    reference_steps: SimpleNamespace | None = None  # The encoded steps.
    tags: TagsShape | None = None


class _UsualTemplate(Struct, forbid_unknown_fields=True):
    template_id: Annotated[str, Meta(min_length=1)]
    questions: list[_UsualQuestion]
    tags: TagsShape | None = None


_NO_STEPS = SimpleNamespace(data=None, is_usual=True)


def _read_usual(text: Raw, comparators: Mapping[str, Comparator]) -> Contents | None:
    """The contents of JSON text; None if anything is invalid, doubtful or unusual."""
    contents, encoder, buffer = Contents(comparators), msgspec.msgpack.Encoder(), bytearray()

    def check_steps(_type: Any, groups: Any) -> SimpleNamespace:
        """Check and encode the steps of a question. Only one question's are in memory at a time."""
        for group in groups if type(groups) is list else (None,):
            if type(group) is not list or not group:
                raise _Problem
            for step in group:
                convert(step, _UsualStep)
                if step is not group[0] and step.get("order") is not None:
                    raise _Problem
                contents.check_step(step)
        encoder.encode_into(groups, buffer)  # Quicker than `encode`, which lets each text grow.
        if not groups:
            return _NO_STEPS
        is_usual = has_usual_steps(groups, len(buffer))
        return SimpleNamespace(data=bytes(buffer), is_usual=is_usual)

    try:
        templates = msgspec.json.Decoder(list[_UsualTemplate], dec_hook=check_steps).decode(text)
    except (_Problem, MalformedStep, ValueError, TypeError, OverflowError, RecursionError):
        return None
    try:
        for template in templates:
            _add_usual(contents, template)
    except ValueError:
        return None
    count = sum(len(template.questions) for template in templates)
    is_unique = len(contents.questions) == count and len({*contents.templates}) == len(templates)
    return contents if is_unique and templates else None


def _add_usual(contents: Contents, template: _UsualTemplate) -> None:
    """Add a template and its questions; raises a `ValueError` if anything is invalid."""
    contents.templates.append(template.template_id)
    tags = read_tags(template.tags)
    for question in template.questions:
        steps = question.reference_steps or _NO_STEPS
        contents.add_question(
            template.template_id,
            question,
            steps.data,
            tags,
            has_usual_steps=steps.is_usual,
        )


_TEMPLATE_KEYS, _QUESTION_KEYS, _GROUP_KEYS, _STEP_KEYS = (
    tuple(sorted(each.__struct_fields__))
    for each in (TemplateShape, QuestionShape, GroupShape, ReferenceStepShape)
)
_OF_TABLES: Mapping[str, Any] = {
    "ordered": False,
    "required_columns": [],
    "ignore_duplicates": True,
}
_CHOICES = {
    "score": "exact, f1 or values_f1",
    "args_match": "exact, subset or none",
    "order": "strict or any",
}
_CHOICES |= {"match": "exact, contains, number, regex or list"}
_FLAT = "; the steps of a group are a list of their own: [[{name: ...}]], or under steps"


class _Template(Struct):
    template_id: Annotated[str, Meta(min_length=1)]
    questions: list[Any]
    tags: TagsShape | None = None
    forbidden_steps: NamesShape = None
    max_steps: CountShape = None


class _CarefulReader:
    """Reads templates of any shape, and finds the first problem of each template and question."""

    def __init__(self, comparators: Mapping[str, Comparator]) -> None:
        self._contents = Contents(comparators)
        self._places: dict[tuple[str, str], str] = {}

    def read(self, templates: Any) -> Contents:
        contents = self._contents
        if (
            not isinstance(templates, Sequence)
            or isinstance(templates, str | bytes)
            or not templates
        ):
            hint = "; read a benchmark with convert --from, or format=" * isinstance(
                templates, dict
            )
            found = f"{describe(templates)}{hint}"
            contents.problems.append(
                f"templates: expected a list of at least one template, got {found}"
            )
            return contents
        for index, template in enumerate(templates):
            self._read_template(template, f"templates[{index}]")
        places: dict[tuple[str, str], list[str]] = {}
        for name, place, what in (
            () if contents.problems else _doubts_of(templates, contents.comparators)
        ):
            places.setdefault((name, what), []).append(place)
            if len(places) == MAX_DOUBTS:
                break
        for (_, what), (first, *others) in places.items():
            more = f"; in {len(others) + 1} places" if others else ""
            contents.doubts.append(f"{first}: {what}{more}")
        return contents

    def _read_template(self, template: Any, place: str) -> None:
        template_id, contents = "", self._contents
        tags: Tags = ()
        limits: dict[str, Any] = {}
        questions = template.get("questions") if isinstance(template, dict) else None
        try:
            shape = _converted(template, _Template, place)
            template_id = _plain(shape.template_id, f"{place}.template_id")
            tags = read_tags(_plain(shape.tags, f"{place}.tags"))
            limits = {"forbidden_steps": shape.forbidden_steps, "max_steps": shape.max_steps}
            self._claim("template_id", template_id, place)
            contents.templates.append(template_id)
            if not isinstance(questions, list | tuple):  # A set, which msgspec takes for a list.
                raise _Problem(f"{place}.questions: expected a list, got {describe(questions)}")
        except _Problem as problem:
            contents.problems.append(str(problem))
        except ValueError as error:
            contents.problems.append(f"{place}.{error}")
        for index, question in enumerate(questions if isinstance(questions, list | tuple) else ()):
            where = f"{place}.questions[{index}]"
            try:
                given = _plain(question, where)
                given = limits | given if isinstance(given, dict) else given
                self._read_question(given, template_id, tags, where)
            except _Problem as problem:
                contents.problems.append(str(problem))

    def _read_question(
        self, question: Any, template_id: str, of_template: Tags, place: str
    ) -> None:
        shape = _converted(question, QuestionShape, place)
        self._claim("id", shape.id, place)
        groups = []
        for outer, group in enumerate(question.get("reference_steps") or ()):
            steps: list[dict[str, Any]] = []
            groups.append(steps)
            for where, step in _steps_of(group, f"{place}.reference_steps[{outer}]"):
                if steps and step.get("order") is not None:
                    raise _Problem(
                        f"{where}.order: is the group's; write {{order: strict, steps: [...]}}"
                    )
                steps.append(step)
                for key in KEYS_OF_EVALUATIONS:
                    step.pop(key, None)
                try:
                    self._contents.check_step(step)
                except MalformedStep as error:
                    raise _Problem(f"{where}.{error.problems[0]}") from None
            if isinstance(group, dict) and group.get("order") is not None:
                steps[0]["order"] = group["order"]
        forbidden, most = tuple(shape.forbidden_steps or ()), shape.max_steps
        names = {plain_name(step["name"]) for group in groups for step in group}
        if wrong := [name for name in forbidden if plain_name(name) in names]:
            raise _Problem(f"{place}.forbidden_steps: {wrong[0][:64]!r} is also a reference step")
        data = encode_steps(groups) if groups or forbidden or most is not None else None
        is_usual = data is None or has_usual_steps(groups, len(data))
        try:
            self._contents.add_question(
                template_id,
                shape,
                data,
                of_template,
                (forbidden, most),
                has_usual_steps=is_usual,
            )
        except ValueError as error:
            raise _Problem(f"{place}.{error}") from None

    def _claim(self, key: str, value: str, place: str) -> None:
        """Refuse an identifier that is used already."""
        if (other := self._places.setdefault((key, value), place)) != place:
            raise _Problem(f"{place}.{key}: {value!r} is already the {key} of {other}")


_meant = lru_cache(MAX_DOUBTS)(did_you_mean)


def _doubts_of(templates: Any, comparators: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Each unknown name, and each key that does nothing, in valid templates: name, place and
    what to say.
    """
    for place, members, known in _objects(templates):
        if known is _STEP_KEYS and members["name"] in comparators:
            continue  # It may have any keys.
        for key in members:
            if key not in known:
                yield key, f"{place}.{key[:64]}", f"unknown key, ignored; {_meant(key[:64], known)}"
        if known is _QUESTION_KEYS and members.get("reviewed") is False:
            what = "the reference answer comes from an agent; review it, then delete this key"
            yield "reviewed", f"{place}.reviewed", what
        media_type = plain_type(members.get("output_media_type"))
        if known is _STEP_KEYS and media_type not in (None, *MEDIA_TYPES):
            hint = f"the output is compared as text; {_meant(media_type[:64], MEDIA_TYPES, 0.8)}"
            what = f"unknown media type {media_type[:64]!r}, {hint}"
            yield media_type, f"{place}.output_media_type", what
        output = members.get("output")
        if media_type == CSV and isinstance(output, str) and has_cells_like_terms(output):
            what = (
                "cells look like RDF terms, which CSV writes without brackets, quotes and "
                "languages; they are read as terms; save results as "
                "application/sparql-results+json to keep their types"
            )
            yield "output", f"{place}.output", what
        for key, default in _OF_TABLES.items() if media_type in GRAPHS else ():
            if members.get(key) not in (None, default):
                what = (
                    "ignored, since the output is a graph, which has no rows and columns; remove it"
                )
                yield key, f"{place}.{key}", what


def _objects(templates: Any) -> Iterator[tuple[str, Mapping[str, Any], tuple[str, ...]]]:
    """Each template, question and step, with its place and the keys that it may have."""
    for index, template in enumerate(templates):
        yield f"templates[{index}]", template, _TEMPLATE_KEYS
        for number, question in enumerate(template["questions"]):
            place = f"templates[{index}].questions[{number}]"
            yield place, question, _QUESTION_KEYS
            for outer, group in enumerate(question.get("reference_steps") or ()):
                where = f"{place}.reference_steps[{outer}]"
                if isinstance(group, dict):
                    yield where, group, _GROUP_KEYS
                for inner, step in _steps_of(group, where):
                    yield inner, step, _STEP_KEYS


def _steps_of(group: Any, place: str) -> list[tuple[str, dict[str, Any]]]:
    """The steps of a group, which is a list of them or has an order, with their places."""
    steps, where = (group["steps"], f"{place}.steps") if isinstance(group, dict) else (group, place)
    return [(f"{where}[{index}]", step) for index, step in enumerate(steps)]


def _plain(value: Any, place: str) -> Any:
    """A copy of a question as JSON has it. Raises `_Problem`."""
    try:
        text = orjson.dumps(value, option=_PLAIN)
        if b"null" in text:
            json.dumps(value, allow_nan=False, default=str)  # Refuses what orjson writes as null.
    except (TypeError, ValueError) as error:
        raise _Problem(f"{place}: cannot be written as JSON: {error}") from None
    copy = orjson.loads(text)
    if nests_deeper(copy, MAX_DEPTH):
        raise _Problem(f"{place}: nests more than {MAX_DEPTH} deep")
    return copy


def _converted(value: Any, shape: Any, place: str) -> Any:
    """The value as its shape has it. Raises `_Problem`."""
    try:
        return convert(value, shape)
    except (ValidationError, UnicodeError) as error:
        what, _, inner = str(error).partition(" - at `$")
    if inner.startswith(".tags[...]"):
        try:
            read_tags(value["tags"])
        except ValueError as error:
            raise _Problem(f"{place}.{error}") from None
    where, hint = place + inner.removesuffix("`"), ""
    if what.startswith("Expected `str") and what.endswith(("`int`", "`float`", "`bool`")):
        hint = "; put it in quotes"
    elif where.endswith(".tags"):
        hint = "; write {key: value} or [name]"
    elif what.endswith("missing required field `steps`"):
        what, hint = "Expected `array`, got `object`", _FLAT
    elif what.startswith("Invalid enum value"):
        hint = f"; write {_CHOICES.get(where.rpartition('.')[2], '')}, or leave it out"
    raise _Problem(f"{where}: {what}{hint}")
