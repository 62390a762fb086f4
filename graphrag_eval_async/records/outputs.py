"""Checks that apply to the outputs of all steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from graphrag_eval_async.catalogue.media_types import CSV

_is_empty_list = re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\][ \t\n\r]*").fullmatch
_has_no_rows = re.compile(r'"bindings"\s*:\s*\[\s*\]').match
_is_tsv_header = re.compile(r"[?$]\w+(?:\t[?$]\w+)*(?:\r?\n)?").fullmatch
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
    return is_empty(output) or (step.get("output_media_type") == CSV and _is_csv_header(output))


def is_empty(output: Any) -> bool:
    """Whether the output of a step, as text or decoded, is an empty list or SPARQL results without
    rows.

    Results may be JSON, XML or TSV. A header of CSV cannot be told from other text.
    """
    if isinstance(output, Mapping):
        results = output.get("results")
        return isinstance(results, Mapping) and results.get("bindings") == []
    if not isinstance(output, str):
        return bool(output == [])
    text = output.lstrip("\ufeff \t\r\n")
    if text[:1] == "<":
        found = _find_results(text) if _SPARQL_XML in text else None
        return found is not None and (found[0][-2] == "/" or _closes(text, found.end()) is not None)
    return is_empty_json(text) or _is_tsv_header(text) is not None


def is_empty_json(text: str) -> bool:
    """Whether text is JSON of an empty list, or of SPARQL results without rows. Most is neither."""
    place = text.find('"bindings"')
    return (_is_empty_list(text) if place < 0 else _has_no_rows(text, place)) is not None


def has_no_rows(text: str) -> bool:
    """Whether text that begins with a brace is JSON of SPARQL results without rows."""
    place = text.find('"bindings"')
    if place < 0:
        return False
    start = text[place + 10 : place + 40]
    if "{" in start and "]" not in start:
        return False  # A row, as in most results; looking takes half the time of the pattern.
    return _has_no_rows(text, place) is not None


def _is_csv_header(text: Any) -> bool:
    line = text.lstrip("\ufeff").rstrip("\r\n") if isinstance(text, str) else ""
    if not line or "\n" in line or "\r" in line:
        return False
    return line[0] not in "<|[{`?$" and line not in ("true", "false")


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
            return orjson.loads(value)
    return value
