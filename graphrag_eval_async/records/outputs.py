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

_KEY_CHARACTERS = len(_BINDINGS)

_NO_ROWS = (": []", ":[]", " : [ ]", " : []")
"""How most serializers write after the key that there are no rows."""

_ROW_CHARACTERS = 40
"""Within this number of characters after the beginning of the key, most serializers open a row."""

_has_no_bindings = re.compile(r'"bindings"\s*:\s*\[\s*\]').match

_has_no_values = re.compile(
    r'\{\s*"data"\s*:\s*\{\s*"fields"\s*:\s*\[[^\[\]]*\]\s*,\s*"values"\s*:\s*\[\s*\]'
).match
"""Whether text begins as results without rows of Neo4j's Query API. Each part begins with a
character that cannot continue the part before, so that the pattern does not backtrack for long.
"""

_SPARQL_XML = "http://www.w3.org/2005/sparql-results#"
_find_results_tag = re.compile(r"<(?:[\w.-]+:)?results(/|\s[^<>]*)?>").search
_is_closing_tag = re.compile(r"\s*</").match

_NO_CSV_STARTS = "<|[{`?$"
"""Characters that begin text in other formats: XML, tables in Markdown, JSON, code, and TSV."""


def returned_nothing(step: Mapping[str, Any]) -> bool:
    """Return whether the output of a step is empty: an empty list, or results without rows.

    A step whose output is not recorded is judged by what its query returned when it was run again.
    """
    output = step.get("output")
    if type(output) is str and output[:1] in ("{", "["):
        # It looks like JSON, as most outputs do, so no other format is tried.
        return is_empty_json(output)
    if output is None:
        output = step.get("executed_output")
    if is_empty(output):
        return True
    # Only the media type tells a header of CSV from other text.
    return step.get("output_media_type") == CSV and _is_csv_header(output)


def is_empty(output: Any) -> bool:
    """Return whether the output of a step is an empty list or results of a query without rows.

    Args:
        output: text, or a decoded JSON value. Text may be SPARQL results in JSON, XML or TSV, or
            results of Cypher in the JSON of Neo4j's Query API. CSV is not recognised, since its
            header looks like any other text.
    """
    if isinstance(output, Mapping):
        return _is_empty_object(output)
    if not isinstance(output, str):
        return bool(output == [])
    text = output.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        return _is_empty_xml(text)
    return is_empty_json(text) or _is_tsv_header(text) is not None


def _is_empty_object(output: Mapping[str, Any]) -> bool:
    """Return whether a decoded object is results of SPARQL or Cypher without rows."""
    results = output.get("results")
    if isinstance(results, Mapping):
        return results.get("bindings") == []
    data = output.get("data")
    return isinstance(data, Mapping) and "fields" in data and data.get("values") == []


def _is_empty_xml(text: str) -> bool:
    """Return whether text is SPARQL results in XML without rows."""
    if _SPARQL_XML not in text:
        return False
    results_tag = _find_results_tag(text)
    if results_tag is None:
        return False
    # The element is empty if it is written <results/>, or if a closing tag follows its opening tag.
    is_empty_tag = results_tag[0].endswith("/>")
    return is_empty_tag or _is_closing_tag(text, results_tag.end()) is not None


def is_empty_json(text: str) -> bool:
    """Return whether JSON text is an empty list, or results of SPARQL or Cypher without rows."""
    index = text.find(_BINDINGS)
    if index < 0:
        return _is_empty_list(text) is not None or _has_no_values(text) is not None
    return _has_no_bindings(text, index) is not None


def has_no_rows(text: str) -> bool:
    """Return whether a JSON object, as text, is results of SPARQL or Cypher without rows."""
    index = text.find(_BINDINGS)
    if index < 0:
        return _has_no_values(text) is not None
    # The text after the key tells in nearly all cases whether there is a row. Looking at it takes a
    # tenth of the time of the pattern.
    after_key = text[index + _KEY_CHARACTERS : index + _ROW_CHARACTERS]
    begins_row = "{" in after_key and "]" not in after_key
    if begins_row:
        return False
    if after_key.startswith(_NO_ROWS):
        return True
    return _has_no_bindings(text, index) is not None


def _is_csv_header(text: Any) -> bool:
    """Return whether an output with the media type of CSV is only a header: a single line of text.

    JSON and other formats do not count, even if the media type says CSV.
    """
    if not isinstance(text, str):
        return False
    line = text.lstrip("\ufeff").rstrip("\r\n")
    if not line or "\n" in line or "\r" in line:
        return False
    return line[0] not in _NO_CSV_STARTS and line not in ("true", "false")


def unwrapped(output: Any) -> Any:
    """Decode an output, and return the value that it wraps: JSON text, or an object with one key.

    Agents often wrap an output like this. An output that wraps nothing is only decoded.
    """
    value = decoded(output)
    if isinstance(value, dict) and len(value) == 1:
        [value] = value.values()
    return decoded(value)


def decoded(value: Any) -> Any:
    """Return the value of JSON text; anything else is returned unchanged."""
    if isinstance(value, str):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(value)
    return value
