"""Doubts: probable mistakes in a reference set, namely unknown keys and media types."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.records.shapes import (
    MEDIA_TYPES,
    QuestionShape,
    ReferenceStepShape,
    TemplateShape,
    did_you_mean,
    keys_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MAX_DOUBTS = 1000
"""Maximum number of different doubts that are kept."""

_STEP_KEYS = keys_of(ReferenceStepShape)
_QUESTION_KEYS = keys_of(QuestionShape)
TEMPLATE_KEYS = keys_of(TemplateShape)
_MEDIA_TYPES = frozenset(MEDIA_TYPES)
_KNOWN_MEDIA_TYPES = (None, *MEDIA_TYPES)


class Doubts:
    """Collects doubts, each once, with its first place. Skips steps whose names are in `own`."""

    def __init__(self, own: Collection[str] = ()) -> None:
        self._own = own
        self._places: dict[tuple[frozenset[str], str], str] = {}
        self._times: Counter[tuple[frozenset[str], str]] = Counter()

    def listed(self) -> list[str]:
        """All doubts, as ``place: what``."""
        more = {doubt: f"; in {count} places" for doubt, count in self._times.items() if count > 1}
        return [f"{place}: {_describe(*doubt)}{more.get(doubt, '')}" for doubt, place in self._places.items()]

    def look_at_question(self, question: Mapping[Any, Any], place: str) -> None:
        """Check a question and its steps, which may be invalid."""
        self.look_at_keys(question, _QUESTION_KEYS, place)
        groups = question.get("reference_steps")
        for group_index, group in enumerate(groups if isinstance(groups, list) else ()):
            for index, step in enumerate(group if isinstance(group, list) else ()):
                if isinstance(step, dict) and not (
                    _STEP_KEYS.issuperset(step) and step.get("output_media_type") in _KNOWN_MEDIA_TYPES
                ):
                    self._look_at_step(step, f"{place}.reference_steps[{group_index}][{index}]")

    def _look_at_step(self, step: Mapping[Any, Any], place: str) -> None:
        name, media_type = step.get("name"), step.get("output_media_type")
        if isinstance(name, str) and name in self._own:
            return
        self.look_at_keys(step, _STEP_KEYS, place)
        if isinstance(media_type, str) and media_type not in _MEDIA_TYPES:
            self._add(_MEDIA_TYPES, media_type, f"{place}.output_media_type")

    def look_at_keys(self, members: Mapping[Any, Any], known: frozenset[str], place: str) -> None:
        """Doubt the keys of a mapping that are not known."""
        if not known.issuperset(members):
            for key in members:
                if isinstance(key, str) and key not in known:
                    name = key[:64] if key.isprintable() else ascii(key[:64])
                    self._add(known, key, f"{place}.{name}")

    def _add(self, known: frozenset[str], name: str, place: str) -> None:
        doubt = known, name[:64]
        if doubt in self._places or len(self._places) < MAX_DOUBTS:
            self._places.setdefault(doubt, place)
            self._times[doubt] += 1


def _describe(known: frozenset[str], name: str) -> str:
    """Describe an unknown name."""
    if known == _MEDIA_TYPES:
        hint = did_you_mean(name, MEDIA_TYPES, cutoff=0.8)
        return f"unknown media type {name!r}, the output is compared as text; {hint}"
    return f"unknown key, ignored; {did_you_mean(name, sorted(known))}"
