"""Decodes JSON as tools write it: exactly where that is possible, and else with their habits."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import LARGE_BYTES
from graphrag_eval_async.steps.formats.results import read_results_alone

MOST_LITERAL_CONTAINERS = 10_000
"""Most lists and dicts in text that Python's own parser reads: it takes long for more."""

_escapes = re.compile(r"\\(.)", re.DOTALL)
_python_starts = ("{'", "[{'", "[[", "['", "[(", "{\n")

_lenient_decoder = json.JSONDecoder(strict=False)
"""Reads control characters in strings, NaN and Infinity, which JSON lacks and tools write."""


class DecodedText(NamedTuple):
    """The value that a text begins with, and the text that follows it."""

    value: Any
    rest: str


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as JSON of an object, an array or a string does."""
    return text[:1] in ("{", "[", '"')


def decode_json(text: str) -> DecodedText:
    """Decode text that looks like JSON, or like a dict or list as Python shows it.

    Read are also control characters in strings, ``\\'``, NaN, lines of one object each, and an
    object or array that other text follows.

    Raises:
        MalformedStep: it is nothing of these.
    """
    try:
        return DecodedText(_decode_exactly(text), "")
    except RecursionError:
        raise MalformedStep("not JSON: nested too deep") from None
    except ValueError as error:
        problem = str(error)
    results = read_results_alone(text)
    if results is not None:
        return DecodedText(results, "")
    try:
        return _decode_leniently(text)
    except RecursionError:
        raise MalformedStep("not JSON: nested too deep") from None
    except ValueError:
        pass
    if text.startswith(_python_starts):
        return DecodedText(_decode_python(text), "")
    raise MalformedStep(f"not JSON: {problem}")


def _decode_exactly(text: str) -> Any:
    """Decode JSON. In SPARQL results, numbers are texts; elsewhere, integers keep all digits."""
    is_results = text[0] == "{" and '"head"' in text[:200]
    return orjson.loads(text) if is_results else msgspec.json.decode(text)


def _decode_leniently(text: str) -> DecodedText:
    """Decode the value that a text begins with; raises `ValueError` if there is none.

    Text may follow a value that holds others, but not a string or an array of plain values: prose
    may begin with these.
    """
    if "\\'" in text:
        text = _escapes.sub(_unescape_apostrophe, text)
    value, end = _lenient_decoder.raw_decode(text)
    if "\\ud" in text or "\\uD" in text:
        # Half of a surrogate pair is no character, and nothing with it could be written again.
        json.dumps(value, ensure_ascii=False).encode()
    rest = text[end:].strip()
    if rest.startswith("{") and isinstance(value, dict):
        return _decode_lines(value, rest)
    if rest and not _holds_containers(value):
        raise ValueError("text follows a value that holds no others")
    return DecodedText(value, rest)


def _decode_lines(first: dict[str, Any], rest: str) -> DecodedText:
    """Decode the objects that follow the first one, each on a line of its own."""
    rows = [first]
    place = 0
    while rest.startswith("{", place):
        row, place = _lenient_decoder.raw_decode(rest, place)
        rows.append(row)
        while place < len(rest) and rest[place] in " \t\r\n":
            place += 1
    return DecodedText(rows, rest[place:])


def _holds_containers(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _unescape_apostrophe(escape: re.Match[str]) -> str:
    return "'" if escape[1] == "'" else escape[0]


def _decode_python(text: str) -> Any:
    """Decode a dict or list as Python shows it."""
    containers = text.count("[") + text.count("{") + text.count("(")
    if len(text) >= LARGE_BYTES or containers >= MOST_LITERAL_CONTAINERS:
        raise MalformedStep("a literal of Python that is too long to be read; write JSON")
    import ast  # Takes a millisecond to import, and few need it.

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise MalformedStep("neither JSON nor a literal of Python") from None
