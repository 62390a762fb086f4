"""Checks that apply to the outputs of all steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from graphrag_eval_async.catalogue.media_types import CSV

_is_empty_list = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\][ \t\n\r]*").fullmatch
_is_tsv_header = re.compile(r"[?$]\w+(?:\t[?$]\w+)*(?:\r?\n)?").fullmatch

_BINDINGS = '"bindings"'
"""Key of the rows in SPARQL results in JSON."""

_NO_ROWS = (": []", ":[]", " : [ ]", " : []")
"""How serializers write that there are no rows."""

_has_no_bindings = re.compile(r'"bindings"\s*:\s*\[\s*\]').match

_SPARQL_XML = "http://www.w3.org/2005/sparql-results#"
_find_results_tag = re.compile(r"<(?:[\w.-]+:)?results(/|\s[^<>]*)?>").search
_is_closing_tag = re.compile(r"\s*</").match

_NO_CSV_STARTS = "<|[{`?$"
"""Characters that begin text in other formats: XML, tables in Markdown, JSON, code, and TSV."""


def returned_nothing(step: Mapping[str, Any]) -> bool:
    """Return whether what a step returned `is_empty`, or is a header alone if it is said to be CSV.

    What the agent saw counts; without it, what its query returned when it was run again.
    """
    output = step.get("output")
    if type(output) is str and output[:1] in ("{", "["):  # As most are.
        return is_empty_json(output)
    if output is None:
        output = step.get("executed_output")
    if is_empty(output):
        return True
    return step.get("output_media_type") == CSV and _is_csv_header(output)


def is_empty(output: Any) -> bool:
    """Return whether the output of a step is an empty list or SPARQL results without rows.

    The output is text or decoded. Results may be JSON, XML or TSV. A header of CSV cannot be told
    from other text.
    """
    if isinstance(output, Mapping):
        results = output.get("results")
        return isinstance(results, Mapping) and results.get("bindings") == []
    if not isinstance(output, str):
        return bool(output == [])
    text = output.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        return _is_empty_xml(text)
    return is_empty_json(text) or _is_tsv_header(text) is not None


def _is_empty_xml(text: str) -> bool:
    """Return whether text is SPARQL results in XML without rows."""
    if _SPARQL_XML not in text:
        return False
    tag = _find_results_tag(text)
    if tag is None:
        return False
    is_closed_by_itself = tag[0].endswith("/>")
    return is_closed_by_itself or _is_closing_tag(text, tag.end()) is not None


def is_empty_json(text: str) -> bool:
    """Return whether text is JSON of an empty list, or of SPARQL results without rows."""
    place = text.find(_BINDINGS)
    if place < 0:
        return _is_empty_list(text) is not None
    return _has_no_bindings(text, place) is not None


def has_no_rows(text: str) -> bool:
    """Return whether text that begins with a brace is JSON of SPARQL results without rows."""
    place = text.find(_BINDINGS)
    if place < 0:
        return False
    # Most results have a row, and its brace is found in half the time that the pattern takes.
    start = text[place + 10 : place + 40]
    # A row, as in most results, or none: looking takes a tenth of the time of the pattern.
    if "{" in start and "]" not in start:
        return False
    if start.startswith(_NO_ROWS):
        return True
    return _has_no_bindings(text, place) is not None


def _is_csv_header(text: Any) -> bool:
    """Return whether an output that is said to be CSV is a single line, and no other format."""
    if not isinstance(text, str):
        return False
    line = text.lstrip("\ufeff").rstrip("\r\n")
    if not line or "\n" in line or "\r" in line:
        return False
    return line[0] not in _NO_CSV_STARTS and line not in ("true", "false")


def unwrapped(output: Any) -> Any:
    """Return what JSON text of JSON text, or an object with one key, holds.

    Any other value is returned as it is, decoded.
    """
    value = decoded(output)
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    return decoded(value)


def decoded(value: Any) -> Any:
    """Return the value of JSON text; anything else is returned as it is."""
    if isinstance(value, str):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(value)
    return value
