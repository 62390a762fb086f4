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
    """Return an IRI without http:// or https://, and without www."""
    return re.sub(r"^https?://(www\.)?", "", iri)


def _decoded(iri: str) -> str:
    """Return an IRI without percent-encoding, in the normal form of Unicode."""
    return unicodedata.normalize("NFC", unquote(iri))


def _decoded_without_scheme(iri: str) -> str:
    """Return an IRI without its scheme and percent-encoding, in the normal form of Unicode."""
    return _decoded(_without_scheme(iri))


def _without_last_separator(iri: str) -> str:
    """Return an IRI without the slashes and hashes at its end."""
    return iri.rstrip("/#")


def _local_name(iri: str) -> str:
    """Return what follows the last slash, hash or colon of an IRI."""
    return re.split(r"[/#:]", iri)[-1]


NORMALIZATIONS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("http and https", _without_scheme),
    ("percent-encoding or Unicode normalization", _decoded),
    ("a slash or a hash at the end", _without_last_separator),
    ("upper and lower case", str.casefold),
    ("http and https, and percent-encoding", _decoded_without_scheme),
)
"""Causes of differences between IRIs, in the order in which they are tried.

Each cause has a function that makes two IRIs equal if they differ only in it.
"""


def describe_other_form(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Return why a wrong output may seem right to a reader; None if no such reason is found.

    Two reasons are looked for:

    - The output is a table that can be read in several ways.
    - An IRI in it differs only in its form from an IRI of the reference, for example in http and
      https.

    Args:
        expected: the reference step.
        actual: the actual step, whose output does not agree.
    """
    if expected.get("output_media_type") in GRAPHS:
        # Formats of graphs have prefixes, so that differences in form mean nothing.
        return None

    # Read the output in several ways, unless it is a long text, which would take too long.
    output = actual.get("output")
    is_long_text = isinstance(output, str) and len(output) > MAX_CHARACTERS
    if not is_long_text:
        ambiguity = describe_ambiguity(output, plain_type(actual.get("output_media_type")))
        if ambiguity is not None:
            return ambiguity

    # Compare the IRIs that are only in the reference with those that are only in the output.
    expected_iris = _iris_in(expected.get("output"))
    actual_iris = _iris_in(output)
    missing = [iri for iri in expected_iris if _is_absolute(iri) and iri not in actual_iris]
    extra = [iri for iri in actual_iris if iri not in expected_iris]
    return _describe_absolute(missing, extra) or _describe_prefixed(missing, extra)


def _describe_absolute(missing: list[str], extra: list[str]) -> str | None:
    """Return how an absolute IRI among `extra` differs from an IRI among `missing`.

    None if no two of them differ only in their form.
    """
    absolute = [iri for iri in extra if _is_absolute(iri)]
    for cause, normalize in NORMALIZATIONS:
        actual_by_form = {normalize(iri): iri for iri in absolute}
        for iri in missing:
            actual_iri = actual_by_form.get(normalize(iri))
            if actual_iri is not None:
                return _describe(actual_iri, iri, cause)
    return None


def _describe_prefixed(missing: list[str], extra: list[str]) -> str | None:
    """Return which name with a prefix, among `extra`, may stand for an IRI among `missing`.

    None if no name ends like such an IRI.
    """
    by_local_name = {_local_name(iri): iri for iri in extra if not _is_absolute(iri)}
    for iri in missing:
        prefixed_name = by_local_name.get(_local_name(iri))
        if prefixed_name is not None:
            return _describe(prefixed_name, iri, "the prefix, which stands for a namespace")
    return None


def _describe(actual: str, expected: str, cause: str) -> str:
    """Return a sentence that names two IRIs and the cause of their difference."""
    return f"{actual[:MAX_QUOTED]} and {expected[:MAX_QUOTED]} differ only in {cause}"


def _iris_in(output: Any) -> dict[str, None]:
    """Return the parts of an output that may be IRIs, as the keys of a dict.

    The output may be of any format. A dict keeps each part once, in the order of the output.
    """
    text = output if isinstance(output, str) else str(output)
    text = _json_escapes.sub(_unescaped, text[:MAX_CHARACTERS])
    parts = (part.strip("':.;()[]") for part in _separators.split(text))
    return dict.fromkeys(part for part in parts if ":" in part)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape in JSON stands for.

    Surrogates, which stand for a character only as a pair, stay escaped.
    """
    code_point = int(escape[1], 16)
    is_surrogate = 0xD800 <= code_point < 0xE000
    return escape[0] if is_surrogate else chr(code_point)
