"""Finds results in prose: below a line that announces them, on the same line, or above a note."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.json_text import decode_json
from graphrag_eval_async.steps.formats.row_counts import says_no_rows

MOST_CHARACTERS_ABOVE = 4_000
"""Characters of prose above a result, in which its beginning is looked for."""

MOST_BEGINNINGS = 8
"""How many places are tried at which JSON may begin."""

# JSON begins on a line of its own, or after a colon.
_json_beginnings = re.compile(r"(?:^|: ?)[ \t]*(?=[\[{])", re.MULTILINE)

_find_xml = re.compile(r"^[ \t]*<(?:\?xml|(?:\w+:)?sparql)\b", re.MULTILINE).search

_xml_ends = re.compile(r"</(?:\w+:)?sparql\s*>")


class ResultInProse(NamedTuple):
    """A result that was found in a text, and the text around it."""

    value: Any
    """A value of JSON, or the text of a table."""

    around: str


def find_json(text: str) -> ResultInProse | None:
    """Return the first object or array of JSON that follows prose in a text; None if there is none.

    An empty array counts only beside a line that says that there are no rows. Otherwise it may
    stand beside an error.
    """
    beginnings = _json_beginnings.finditer(text, 0, MOST_CHARACTERS_ABOVE)
    for number, beginning in enumerate(beginnings):
        if number == MOST_BEGINNINGS:
            break
        start = beginning.end()
        above = text[:start].strip()
        try:
            decoded = decode_json(text[start:].strip())
        except MalformedStep:
            continue
        around = "\n".join(part for part in (above, decoded.rest) if part)
        if _is_result(decoded.value) or (decoded.value == [] and says_no_rows(around)):
            return ResultInProse(decoded.value, around)
    return None


def _is_result(value: Any) -> bool:
    """Return whether a value is an object, or an array of objects or arrays; none is empty."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(row, dict | list | tuple) for row in value)
    return isinstance(value, dict) and bool(value)


def find_xml(text: str) -> ResultInProse | None:
    """Return the XML that begins on a line below prose; None if there is none."""
    match = _find_xml(text, 0, MOST_CHARACTERS_ABOVE)
    if match is None or match.start() == 0:
        return None
    return ResultInProse(text[match.start() :], text[: match.start()].strip())


def split_after_xml(text: str) -> tuple[str, str]:
    """Return SPARQL results in XML, and the text that follows their last tag."""
    end = max((match.end() for match in _xml_ends.finditer(text)), default=len(text))
    return text[:end], text[end:].strip()
