"""Decodes JSON as tools write it: exactly where that is possible, and else with their habits."""

from __future__ import annotations

import json
import re
import warnings
from datetime import date, datetime
from typing import Any, NamedTuple

import msgspec
import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import LARGE_BYTES
from graphrag_eval_async.steps.formats.results import read_results_alone
from graphrag_eval_async.steps.formats.row_counts import says_no_rows

MOST_LITERAL_CONTAINERS = 10_000
"""Most lists and dicts in text that Python's own parser reads: it takes long for more."""

_escapes = re.compile(r"\\(.)", re.DOTALL)
_python_starts = re.compile(
    r"[\[{(][\[{(\s]*+(?:['\"\d\]}-]|None|nan|True|False|[A-Za-z.]+\()"
).match
"""Whether a text begins as a list, a dict or a tuple of literals does."""

_tuple_starts = re.compile(r"\((?:\(|['\"]|-?\d[\d.]*,|None,|[A-Za-z.]+\()").match
"""Whether a text begins as a tuple does, not as a note such as "(2 rows)"."""

_NAMED_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "NaN": float("nan")}

_TEXT_TYPES = frozenset({"Decimal", "Timestamp", "Literal", "URIRef", "UUID", "Variable"})
"""Types whose first argument is their text."""

MOST_BITS = 4096
"""Most bits of an integer that is read: Python does not write much longer ones as text."""

_lenient_decoder = json.JSONDecoder(strict=False)
"""Reads control characters in strings, NaN and Infinity, which JSON lacks and tools write."""


class NoLiteralError(ValueError):
    """A text that is no literal of Python, or one whose value JSON does not have."""


class DecodedText(NamedTuple):
    """The value that a text begins with, and the text that follows it."""

    value: Any
    rest: str


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as an object, an array or a string of JSON does, or as a tuple
    of Python does.
    """
    return text[:1] in ("{", "[", '"') or _tuple_starts(text) is not None


def decode_json(text: str) -> DecodedText:
    """Decode text that looks like JSON, or like a dict or list as Python shows it.

    Besides JSON, this accepts control characters in strings, ``\\'``, NaN, lines of one object
    each, and an object or array that other text follows.

    Raises:
        MalformedStep: the text is none of these.
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
    if _python_starts(text):
        for decode in (_decode_python, _decode_python_lines):
            try:
                return DecodedText(decode(text), "")
            except NoLiteralError:
                continue
    raise MalformedStep(f"not JSON: {problem}")


def _decode_exactly(text: str) -> Any:
    """Decode JSON. In SPARQL results, numbers are texts; elsewhere, integers keep all digits."""
    is_results = text[0] == "{" and '"head"' in text[:200]
    return orjson.loads(text) if is_results else msgspec.json.decode(text)


def _decode_leniently(text: str) -> DecodedText:
    """Decode the value that a text begins with, even if tools wrote it against the rules of JSON.

    Other text may follow a value that holds objects or arrays. It may not follow a string or an
    array of plain values, as prose may begin with these.

    Raises:
        ValueError: the text begins with no value, or other text follows where it may not.
    """
    if "\\'" in text:
        text = _escapes.sub(_unescape_apostrophe, text)
    value, end = _lenient_decoder.raw_decode(text)
    if "\\ud" in text or "\\uD" in text:
        # Called for its error: half of a surrogate pair is no character, and cannot be written.
        json.dumps(value, ensure_ascii=False).encode()

    rest = text[end:].strip()
    if rest.startswith("{") and isinstance(value, dict):
        return _decode_lines([value], rest)
    if rest.startswith("[") and isinstance(value, list):
        return _decode_lines(value, rest)
    if value == [] and says_no_rows(rest):
        return DecodedText(value, rest)
    if rest and not _holds_containers(value):
        raise ValueError("text follows a value that holds no others")
    return DecodedText(value, rest)


def _decode_lines(first_rows: list[Any], rest: str) -> DecodedText:
    """Decode the objects or arrays that follow the first one, each on a line of its own.

    Args:
        first_rows: the rows that were decoded before.
        rest: the text after these rows, which begins with another object or array. An object is a
            row; an array holds rows.
    """
    rows = [*first_rows]
    opening_bracket = rest[0]
    place = 0
    while rest.startswith(opening_bracket, place):
        value, place = _lenient_decoder.raw_decode(rest, place)
        if isinstance(value, list):
            rows += value
        else:
            rows.append(value)
        while place < len(rest) and rest[place] in " \t\r\n":
            place += 1
    return DecodedText(rows, rest[place:])


def _holds_containers(value: Any) -> bool:
    """Return whether a value is an object that is not empty, or an array of objects or arrays."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _unescape_apostrophe(escape: re.Match[str]) -> str:
    """Return an escape of JSON as it is, but an escaped apostrophe without its backslash."""
    return "'" if escape[1] == "'" else escape[0]


def _decode_python(text: str) -> Any:
    """Decode a dict, list or tuple as Python shows it.

    It may hold nan and inf, and calls of types of dates, numbers and RDF terms, such as
    ``Decimal('1.5')``.

    Raises:
        NoLiteralError: the text is no such literal.
        MalformedStep: the text is too long.
    """
    containers = text.count("[") + text.count("{") + text.count("(")
    if len(text) >= LARGE_BYTES or containers >= MOST_LITERAL_CONTAINERS:
        raise MalformedStep("a literal of Python that is too long to be read; write JSON")
    import ast  # Takes a millisecond to import, and few need it.

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The text is not the user's code.
            tree = ast.parse(text.strip(), mode="eval")
        return _value_of_node(tree.body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise NoLiteralError(str(error)) from None


def _decode_python_lines(text: str) -> Any:
    """Decode rows that Python printed one by one: a dict, list or tuple on each line.

    Raises:
        NoLiteralError: a line is no dict, list or tuple, or there is only one line.
        MalformedStep: the text is too long.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or any(not line.endswith(("}", "]", ")")) for line in lines):
        raise NoLiteralError("no rows one by one")
    return _decode_python(f"[{','.join(lines)}]")


def _value_of_node(node: Any) -> Any:
    """Return the value of a literal in a syntax tree, as JSON has it; a tuple stays a tuple.

    Raises:
        NoLiteralError: the node is no literal, or JSON has no such value.
    """
    import ast

    if isinstance(node, ast.Constant):
        return _checked_constant(node.value)
    if isinstance(node, ast.List):
        return [_value_of_node(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value_of_node(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return {
            _key_of_node(key): _value_of_node(value)
            for key, value in zip(node.keys, node.values, strict=True)
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value_of_node(node.operand)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Name) and node.id in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[node.id]
    if isinstance(node, ast.Call):
        return _value_of_call(node)
    raise NoLiteralError("no literal")


def _value_of_call(node: Any) -> Any:
    """Return the text of the value that a call such as ``datetime.date(2020, 1, 1)`` makes.

    Raises:
        NoLiteralError: the function is no type of dates, numbers or RDF terms.
        ValueError, TypeError: the arguments do not suit the type.
    """
    name = _name_of_function(node.func)
    arguments = [_value_of_node(argument) for argument in node.args]
    # Year, month and day, and up to four parts of a time.
    if name in ("date", "datetime") and 3 <= len(arguments) <= 7:
        date_type = datetime if name == "datetime" else date
        return date_type(*arguments).isoformat()
    if arguments and isinstance(arguments[0], str):
        if name == "BNode":
            return f"_:{arguments[0]}"
        if name in _TEXT_TYPES:
            return arguments[0]
    raise NoLiteralError("no literal")


def _name_of_function(node: Any) -> str:
    """Return the name of a called function, without its modules; empty if it has none."""
    import ast

    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return ""


def _checked_constant(value: Any) -> Any:
    """Return a constant of Python unchanged; raise `ValueError` if JSON has no such value."""
    if isinstance(value, str):
        # Called for its error: half of a surrogate pair is no character.
        value.encode()
    elif isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise NoLiteralError("too long a number")
    elif value is not None and not isinstance(value, int | float):
        raise NoLiteralError("JSON has no such value")
    return value


def _key_of_node(node: Any) -> str:
    """Return the key of a dict in a syntax tree as a text, since JSON has no other keys.

    pandas numbers rows by integers, so an integer is written as a text.

    Raises:
        NoLiteralError: the key is neither a text nor an integer, or there is no key, since another
            dict is unpacked in its place.
    """
    if node is None:
        raise NoLiteralError("a dict within a dict")
    key = _value_of_node(node)
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str):
        raise NoLiteralError("JSON has no such key")
    return key
