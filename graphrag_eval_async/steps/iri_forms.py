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
from graphrag_eval_async.steps.graphs.reading import describe_wrong_statement

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
    """Return an IRI without scheme, percent-encoding and other forms of Unicode."""
    return _decoded(_without_scheme(iri))


def _without_last_separator(iri: str) -> str:
    """Return an IRI without slashes and hashes at its end."""
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
"""In what two IRIs differ that a function makes equal, in the order in which they are tried."""


def describe_other_form(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> str | None:
    """Return why a wrong output may look right to people; None if no cause is found.

    The causes, of which the first is returned:

    - In place of a graph: a statement in a table or in RDF/JSON has a wrong term.
    - In place of a table: the table cannot be read for sure.
    - In place of a table: an IRI differs only in its form from an IRI of the reference step.

    Args:
        expected: the reference step.
        actual: the actual step.
    """
    output = actual.get("output")
    # What is wrong with a longer text would take too long to find.
    is_short = not isinstance(output, str) or len(output) <= MAX_CHARACTERS
    if expected.get("output_media_type") in GRAPHS:
        # Prefixes are part of the formats of graphs, so their IRIs are not looked at.
        return describe_wrong_statement(output) if is_short else None
    if is_short:
        ambiguity = describe_ambiguity(output, plain_type(actual.get("output_media_type")))
        if ambiguity is not None:
            return ambiguity

    expected_iris = _iris_in(expected.get("output"))
    actual_iris = _iris_in(output)
    missing = [iri for iri in expected_iris if _is_absolute(iri) and iri not in actual_iris]
    extra = [iri for iri in actual_iris if iri not in expected_iris]
    return _describe_absolute(missing, extra) or _describe_prefixed(missing, extra)


def _describe_absolute(missing: list[str], extra: list[str]) -> str | None:
    """Return in which form an extra absolute IRI differs from a missing one.

    None if no pair of an extra and a missing IRI differs only in its form.
    """
    absolute = [iri for iri in extra if _is_absolute(iri)]
    for cause, normalize in NORMALIZATIONS:
        actual_by_form = {normalize(iri): iri for iri in absolute}
        for iri in missing:
            other = actual_by_form.get(normalize(iri))
            if other is not None:
                return _describe(other, iri, cause)
    return None


def _describe_prefixed(missing: list[str], extra: list[str]) -> str | None:
    """Return which extra name with a prefix may stand for a missing IRI; None if there is none."""
    by_local_name = {_local_name(iri): iri for iri in extra if not _is_absolute(iri)}
    for iri in missing:
        other = by_local_name.get(_local_name(iri))
        if other is not None:
            return _describe(other, iri, "the prefix, which stands for a namespace")
    return None


def _describe(actual: str, expected: str, cause: str) -> str:
    """Return a sentence that names two IRIs and what they differ in."""
    return f"{actual[:MAX_QUOTED]} and {expected[:MAX_QUOTED]} differ only in {cause}"


def _iris_in(output: Any) -> dict[str, None]:
    """Return the parts of an output that may be IRIs, as keys in the order of the output.

    The output may have any format, so it is split wherever no IRI can go on.
    """
    text = output if isinstance(output, str) else str(output)
    text = _json_escapes.sub(_unescaped, text[:MAX_CHARACTERS])
    parts = (part.strip("':.;()[]") for part in _separators.split(text))
    return dict.fromkeys(part for part in parts if ":" in part)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape of JSON stands for; halves of a pair stay escaped."""
    code_point = int(escape[1], 16)
    is_half_of_pair = 0xD800 <= code_point < 0xE000
    return escape[0] if is_half_of_pair else chr(code_point)
