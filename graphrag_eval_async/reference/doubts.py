"""Probable mistakes in valid templates: unknown keys, and keys that do nothing."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.media_types import CSV, GRAPHS, MEDIA_TYPES, plain_type
from graphrag_eval_async.reference.shapes import (
    GroupShape,
    QuestionShape,
    ReferenceStepShape,
    TemplateShape,
    keys_of_shape,
    steps_with_places,
)
from graphrag_eval_async.steps.formats.delimited import has_cells_like_terms
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

MAX_DOUBTS = 1000
"""Maximum number of different probable mistakes that are kept."""

MAX_NAME_CHARACTERS = 64
"""How many characters of a key or a media type a message shows."""

SIMILARITY_OF_MEDIA_TYPES = 0.8
"""How similar a media type must be to be suggested; many have a long beginning in common."""

_TEMPLATE_KEYS = keys_of_shape(TemplateShape)
_QUESTION_KEYS = keys_of_shape(QuestionShape)
_GROUP_KEYS = keys_of_shape(GroupShape)
_STEP_KEYS = keys_of_shape(ReferenceStepShape)

_DEFAULTS_OF_TABLE_KEYS: Mapping[str, Any] = {
    "ordered": False,
    "required_columns": [],
    "ignore_duplicates": True,
}
"""Keys of steps that only tables have a use for. Their defaults do no harm elsewhere."""

_suggestion = lru_cache(MAX_DOUBTS)(did_you_mean)
"""Return which known name an unknown name may mean.

Results are cached, since the same mistake is often made many times.
"""


class _Doubt(NamedTuple):
    """A probable mistake at one place of the templates."""

    name: str  # The key, or the value of a key.
    place: str
    message: str


def doubts_of(templates: Sequence[Any], comparators: Collection[str]) -> list[str]:
    """Return the probable mistakes in valid templates, as texts such as "place: unknown key".

    A mistake that is made in several places has one text, with the first place and their number.

    Args:
        templates: the templates, with all their keys.
        comparators: names of the reference steps that the caller compares. Such steps may have any
            keys.
    """
    places_by_mistake: dict[tuple[str, str], list[str]] = {}
    for doubt in _find_doubts(templates, comparators):
        mistake = (doubt.name, doubt.message)
        places_by_mistake.setdefault(mistake, []).append(doubt.place)
        if len(places_by_mistake) == MAX_DOUBTS:
            break

    lines = []
    for (_, message), places in places_by_mistake.items():
        line = f"{places[0]}: {message}"
        if len(places) > 1:
            line += f"; in {len(places)} places"
        lines.append(line)
    return lines


def _find_doubts(templates: Sequence[Any], comparators: Collection[str]) -> Iterator[_Doubt]:
    """Yield each probable mistake in templates, with its place."""
    for index, template in enumerate(templates):
        place = f"templates[{index}]"
        yield from _unknown_keys(template, place, _TEMPLATE_KEYS)
        for question_index, question in enumerate(template["questions"]):
            question_place = f"{place}.questions[{question_index}]"
            yield from _doubts_of_question(question, question_place, comparators)


def _doubts_of_question(
    question: Mapping[str, Any], place: str, comparators: Collection[str]
) -> Iterator[_Doubt]:
    """Yield each probable mistake in a question and its steps."""
    yield from _unknown_keys(question, place, _QUESTION_KEYS)
    if question.get("reviewed") is False:
        message = "the reference answer comes from an agent; review it, then delete this key"
        yield _Doubt("reviewed", f"{place}.reviewed", message)

    for index, group in enumerate(question.get("reference_steps") or ()):
        group_place = f"{place}.reference_steps[{index}]"
        if isinstance(group, dict):
            yield from _unknown_keys(group, group_place, _GROUP_KEYS)
        for step_place, step in steps_with_places(group, group_place):
            if step["name"] not in comparators:
                yield from _doubts_of_step(step, step_place)


def _unknown_keys(
    members: Mapping[str, Any], place: str, known_keys: tuple[str, ...]
) -> Iterator[_Doubt]:
    """Yield a doubt for each key of an object that is not known, and is therefore ignored."""
    for key in members:
        if key not in known_keys:
            shown_key = key[:MAX_NAME_CHARACTERS]
            message = f"unknown key, ignored; {_suggestion(shown_key, known_keys)}"
            yield _Doubt(key, f"{place}.{shown_key}", message)


def _doubts_of_step(step: Mapping[str, Any], place: str) -> Iterator[_Doubt]:
    """Yield each probable mistake in a reference step.

    The step may have unknown keys, an unknown media type, an output in CSV whose cells look like
    RDF terms, or keys for tables although its output is a graph.
    """
    yield from _unknown_keys(step, place, _STEP_KEYS)

    media_type = plain_type(step.get("output_media_type"))
    if media_type is not None and media_type not in MEDIA_TYPES:
        shown_type = media_type[:MAX_NAME_CHARACTERS]
        suggestion = _suggestion(shown_type, MEDIA_TYPES, SIMILARITY_OF_MEDIA_TYPES)
        message = f"unknown media type {shown_type!r}, the output is compared as text; {suggestion}"
        yield _Doubt(media_type, f"{place}.output_media_type", message)

    output = step.get("output")
    if media_type == CSV and isinstance(output, str) and has_cells_like_terms(output):
        message = (
            "cells look like RDF terms, which CSV writes without brackets, quotes and "
            "languages; they are read as terms; save results as "
            "application/sparql-results+json to keep their types"
        )
        yield _Doubt("output", f"{place}.output", message)

    if media_type in GRAPHS:
        message = "ignored, since the output is a graph, which has no rows and columns; remove it"
        for key, default in _DEFAULTS_OF_TABLE_KEYS.items():
            if step.get(key) not in (None, default):
                yield _Doubt(key, f"{place}.{key}", message)
