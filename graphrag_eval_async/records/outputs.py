"""Checks that apply to the outputs of all steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from graphrag_eval_async.records.pieces import loads
from graphrag_eval_async.records.shapes import CSV

_ONLY_EMPTY_LIST = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\][ \t\n\r]*\Z")
_BINDINGS = '"bindings"'
_OTHER_FORMATS = ("<", "?", "$")
_NOT_JSON = (*_OTHER_FORMATS, "\ufeff", " ", "\t", "\r", "\n")
"""Characters after which an output may be in another format."""

_IS_TSV_HEADER = re.compile(r"[?$]\w+(?:\t[?$]\w+)*(?:\r?\n)?").fullmatch
_SPARQL_XML = "http://www.w3.org/2005/sparql-results#"
_find_results = re.compile(r"<(?:[\w.-]+:)?results(/|\s[^<>]*)?>").search
_closes = re.compile(r"\s*</").match


def returned_nothing(step: Mapping[str, Any]) -> bool:
    """Whether what a step returned `is_empty`, or is a header alone if it is said to be CSV.

    What the agent saw counts; without it, what its query returned when it was run again.
    """
    output = step.get("output")
    if type(output) is str and output[:1] in ("{", "["):  # As most are.
        return is_empty_json(output)
    if output is None:
        output = step.get("executed_output")
    if is_empty(output):
        return True
    return isinstance(output, str) and step.get("output_media_type") == CSV and _is_csv_header(output)


def is_empty(output: Any) -> bool:
    """Whether the output of a step, as text or decoded, is an empty list or SPARQL results without rows.

    Results may be JSON, XML or TSV. A header of CSV cannot be told from other text.
    """
    if isinstance(output, str) and output[:1] in _NOT_JSON:
        text = output.lstrip("\ufeff")
        if text[:64].lstrip()[:1] in _OTHER_FORMATS:
            return _has_no_rows(text)
    return _is_empty_json(output)


def unwrapped(output: Any) -> Any:
    """What JSON text of JSON, or an object with one key, holds; all else as it is, decoded."""
    value = decoded(output)
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    return decoded(value)


def decoded(value: Any) -> Any:
    """What JSON text holds; all else as it is."""
    if isinstance(value, str):
        with suppress(orjson.JSONDecodeError):
            return loads(value)
    return value


def _is_empty_json(output: Any) -> bool:
    if isinstance(output, str):
        return is_empty_json(output)
    if not isinstance(output, dict | Mapping):
        return isinstance(output, list) and not output
    results = output.get("results")
    rows = results.get("bindings") if isinstance(results, dict | Mapping) else None
    return isinstance(rows, list) and not rows


def is_empty_json(text: str) -> bool:
    """Whether text is JSON of an empty list, or of SPARQL results without rows. Most is neither."""
    place = text.find(_BINDINGS)
    if place < 0:
        if _ONLY_EMPTY_LIST.match(text) is None and not ("\\" in text and "[" in text):
            return False
    else:
        row = text.find("{", place)
        has_row = row >= 0 and text.find("]", place, row) < 0  # Else the list ends before any row begins.
        # "bindings" may be written with escapes, or again in another object.
        if has_row and "\\" not in text and text.rfind(_BINDINGS) == place:
            return False
    try:
        value = loads(text)
    except ValueError:
        return False
    return not isinstance(value, str) and _is_empty_json(value)


def _has_no_rows(text: str) -> bool:
    """Whether XML or TSV is SPARQL results without rows."""
    if text[:1] in ("?", "$"):
        return _IS_TSV_HEADER(text) is not None
    if _SPARQL_XML not in text or (results := _find_results(text)) is None:
        return False
    is_closed = results[0].endswith("/>")
    return is_closed or _closes(text, results.end()) is not None


def _is_csv_header(text: str) -> bool:
    line = text.lstrip("\ufeff").rstrip("\r\n")
    if not line or "\n" in line or "\r" in line:
        return False
    return line[0] not in "<|[{`?$" and line not in ("true", "false")
