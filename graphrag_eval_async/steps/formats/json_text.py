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

_NO_LITERAL = object()

_NAMED_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "NaN": float("nan")}

_TEXT_TYPES = frozenset({"Decimal", "Timestamp", "Literal", "URIRef", "UUID", "Variable"})
"""Types whose first argument is their text."""

MOST_BITS = 4096
"""Most bits of an integer that is read: Python does not write much longer ones as text."""

_lenient_decoder = json.JSONDecoder(strict=False)
"""Reads control characters in strings, NaN and Infinity, which JSON lacks and tools write."""


class DecodedText(NamedTuple):
    """The value that a text begins with, and the text that follows it."""

    value: Any
    rest: str


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as JSON of an object, an array or a string does.

    So do tuples, as Python shows them: of tuples, or one on each line.
    """
    return text[:1] in ("{", "[", '"') or _tuple_starts(text) is not None


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
    if _python_starts(text):
        value = _decode_python(text)
        if value is _NO_LITERAL:
            value = _decode_python_lines(text)
        if value is not _NO_LITERAL:
            return DecodedText(value, "")
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
        return _decode_lines([value], rest)
    if rest.startswith("[") and isinstance(value, list):
        return _decode_lines(value, rest)
    if value == [] and says_no_rows(rest):
        return DecodedText(value, rest)
    if rest and not _holds_containers(value):
        raise ValueError("text follows a value that holds no others")
    return DecodedText(value, rest)


def _decode_lines(rows: list[Any], rest: str) -> DecodedText:
    """Decode the objects or arrays that follow the first one, each on a line of its own."""
    rows = list(rows)
    start = rest[0]
    place = 0
    while rest.startswith(start, place):
        value, place = _lenient_decoder.raw_decode(rest, place)
        if isinstance(value, list):
            rows += value
        else:
            rows.append(value)
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
    """Decode a dict, list or tuple as Python shows it; return `_NO_LITERAL` if it is none.

    Read are also nan and inf, and the arguments of types of dates, numbers and RDF terms, such as
    ``Decimal('1.5')``.
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
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _NO_LITERAL


def _decode_python_lines(text: str) -> Any:
    """Decode rows that Python printed one by one: a list of the dict, list or tuple on each line.

    Return `_NO_LITERAL` if a line is none.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or any(not line.endswith(("}", "]", ")")) for line in lines):
        return _NO_LITERAL
    return _decode_python(f"[{','.join(lines)}]")


def _value_of_node(node: Any) -> Any:
    """Return the value of a literal in a syntax tree as JSON has it, but tuples.

    Raises:
        ValueError: it is no literal, or JSON has no such value.
    """
    import ast

    if isinstance(node, ast.Constant):
        return _checked_constant(node.value)
    if isinstance(node, ast.List):
        return [_value_of_node(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value_of_node(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        keys = [_key_of(None if key is None else _value_of_node(key)) for key in node.keys]
        values = [_value_of_node(value) for value in node.values]
        return dict(zip(keys, values, strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _value_of_node(node.operand)
        if isinstance(number, int | float):
            return -number
    if isinstance(node, ast.Name) and node.id in _NAMED_NUMBERS:
        return _NAMED_NUMBERS[node.id]
    if isinstance(node, ast.Call):
        return _value_of_call(node)
    raise ValueError("no literal")


def _value_of_call(node: Any) -> Any:
    """Return what a call such as ``datetime.date(2020, 1, 1)`` makes, as text."""
    import ast

    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    arguments = [_value_of_node(argument) for argument in node.args]
    if name in ("date", "datetime") and 3 <= len(arguments) <= 7:
        kind = datetime if name == "datetime" else date
        return kind(*arguments).isoformat()
    if name == "BNode" and arguments and isinstance(arguments[0], str):
        return f"_:{arguments[0]}"
    if name in _TEXT_TYPES and arguments and isinstance(arguments[0], str):
        return arguments[0]
    raise ValueError("no literal")


def _checked_constant(value: Any) -> Any:
    if isinstance(value, str):
        value.encode()  # Half of a surrogate pair is no character.
    elif isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError("too long a number")
    elif value is not None and not isinstance(value, int | float):
        raise ValueError("JSON has no such value")
    return value


def _key_of(value: Any) -> str:
    """Return a key as JSON has it; pandas numbers rows by integers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("JSON has no such key")
    return value
