"""Why an output that seems right is not: its form is ambiguous, or its IRIs are written otherwise.

RDF says that IRIs are different if they are written differently.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from graphrag_eval_async.catalogue.media_types import GRAPHS, plain_type
from graphrag_eval_async.steps.formats.reading import describe_ambiguity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_CHARACTERS = 50_000
"""Characters of an output whose IRIs are looked at: a few milliseconds."""

MAX_QUOTED = 200
"""Maximum characters of an IRI that are quoted."""

_is_absolute = re.compile(r"urn:|[A-Za-z][\w+.-]*://").match

# Escapes of JSON, and the names of datatypes after a literal, are no part of an IRI.
_separators = re.compile(r"(?:\^\^[\w.-]*:[\w.-]+|\\[bfnrt]|[\s\"<>,|{}\\])+")

_json_escapes = re.compile(r"\\u([0-9A-Fa-f]{4})")


def _without_scheme(iri: str) -> str:
    return re.sub(r"^https?://(www\.)?", "", iri)


def _decoded(iri: str) -> str:
    return unicodedata.normalize("NFC", unquote(iri))


def _without_end(iri: str) -> str:
    return iri.rstrip("/#")


def _local_name(iri: str) -> str:
    return re.split(r"[/#:]", iri)[-1]


CAUSES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("http and https", _without_scheme),
    ("percent-encoding or Unicode normalization", _decoded),
    ("a slash or a hash at the end", _without_end),
    ("upper and lower case", str.casefold),
    ("http and https, and percent-encoding", lambda iri: _decoded(_without_scheme(iri))),
)
"""In what IRIs differ that are equal afterwards, in the order in which they are looked for."""


def describe_other_form(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Return why the table of an actual step cannot be read for sure or, if it can, in what one of
    its IRIs differs from one of the reference step, if only in its form; None if neither holds.
    """
    if expected.get("output_media_type") in GRAPHS:  # Prefixes are part of their formats.
        return None
    output = actual.get("output")
    if not isinstance(output, str) or len(output) <= MAX_CHARACTERS:
        ambiguity = describe_ambiguity(output, plain_type(actual.get("output_media_type")))
        if ambiguity is not None:
            return ambiguity
    expected_iris = _iris_in(expected.get("output"))
    actual_iris = _iris_in(actual.get("output"))
    missing = [iri for iri in expected_iris if _is_absolute(iri) and iri not in actual_iris]
    extra = [iri for iri in actual_iris if iri not in expected_iris]
    absolute = [iri for iri in extra if _is_absolute(iri)]
    for cause, normalize in CAUSES:
        actual_by_form = {normalize(iri): iri for iri in absolute}
        for iri in missing:
            other = actual_by_form.get(normalize(iri))
            if other is not None:
                return _describe(other, iri, cause)
    with_prefix = {_local_name(iri): iri for iri in extra if not _is_absolute(iri)}
    for iri in missing:
        other = with_prefix.get(_local_name(iri))
        if other is not None:
            return _describe(other, iri, "the prefix, which stands for a namespace")
    return None


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that JSON escapes; halves of a pair stay as they are."""
    code_point = int(escape[1], 16)
    return escape[0] if 0xD800 <= code_point < 0xE000 else chr(code_point)


def _describe(actual: str, expected: str, cause: str) -> str:
    return f"{actual[:MAX_QUOTED]} and {expected[:MAX_QUOTED]} differ only in {cause}"


def _iris_in(output: Any) -> dict[str, None]:
    """Return all in an output that may be an IRI, in whatever format, in its order."""
    text = output if isinstance(output, str) else str(output)
    text = _json_escapes.sub(_unescaped, text[:MAX_CHARACTERS])
    parts = (part.strip("':.;()[]") for part in _separators.split(text))
    return dict.fromkeys(part for part in parts if ":" in part)
