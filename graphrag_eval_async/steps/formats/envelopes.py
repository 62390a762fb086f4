"""Opens the envelopes that protocols, frameworks and tools put round a table."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.formats.completeness import Shortening, shortening_in
from graphrag_eval_async.steps.formats.delimited import is_tsv
from graphrag_eval_async.steps.formats.json_tables import (
    ANSWER_KEYS,
    are_numbered_columns,
    is_table,
    is_term_object,
    says_error,
)
from graphrag_eval_async.steps.formats.json_text import decode_json, looks_like_json
from graphrag_eval_async.steps.formats.pipes import has_pipes
from graphrag_eval_async.steps.formats.prose import find_json, find_xml
from graphrag_eval_async.steps.formats.store_tables import is_store_table
from graphrag_eval_async.steps.formats.table import AmbiguousStep
from graphrag_eval_async.steps.formats.terms import is_rdf_json

MOST_ENVELOPES = 10
"""How many envelopes may stand one in another, JSON in text included."""

PAYLOAD_KEYS = (
    "structuredContent", "structured_content", "result", "results", "output", "data", "rows",
    "records", "items", "response", "content", "json", "resource", "text", "value", "values",
    "body", "payload", "answer", "tool_result", "observation", "series", "artifact", "stdout",
    "rdf", "turtle",
)  # fmt: skip
"""Keys under which envelopes hold what is in them; the first that holds something counts."""

KEYS_OF_ROWS = frozenset({"text", "value", "values"})
"""Keys of envelopes that are also names of columns: they are so beside any other name."""

KEYS_OF_ENVELOPES = frozenset(
    {"type", "id", "uri", "mimeType", "mime_type", "annotations", "_meta", "meta", "metadata"}
    | {"isError", "is_error", "error", "status", "success", "ok", "code", "role", "name", "index"}
    | {"format", "kind", "tool", "tool_name", "toolName", "tool_call_id", "toolCallId"}
    | {"tool_use_id", "call_id", "cache_control", "query", "row_count", "rowCount", "count"}
    | KEYS_OF_ROWS
)
"""Keys that stand beside `KEYS_OF_ROWS` in envelopes."""

FENCES = ("```", "~~~")
"""How the lines around code in Markdown begin."""

CONTENT_KEYS = ("json", "text", "resource", "content", "value", "output")
"""Keys of what a content block holds."""

BOOLEAN_KEYS = frozenset({"result", "results", "output", "answer", "value", "data"}) | ANSWER_KEYS
"""Keys, in lower case, under which a boolean is the answer to ASK."""

BLOCK_TYPES = frozenset(
    {"text", "json", "resource", "resource_link", "image", "image_url", "audio", "document"}
    | {"input_text", "output_text", "tool_result", "tool-result", "blob", "embedded_resource"}
)
"""The types of content blocks in MCP and in messages to models."""

KEYS_OF_OTHER_BLOCKS = {
    "resource_link": "uri",
    "image": "data",
    "image_url": "image_url",
    "audio": "data",
    "input_audio": "input_audio",
    "search_result": "source",
    "tool_reference": "tool_name",
}
"""The types of content blocks that hold no table, each with a key that all its blocks have."""

_in_element = re.compile(
    r"<(result|results|output|tool_result|tool_response|response|data|observation|stdout)>"
    r"(.*)</\1>\s*",
    re.DOTALL,
).fullmatch
"""An element round a whole text, as prompts and frameworks mark the result of a tool."""

_begins_like_rdf = re.compile(
    r"@(?:prefix|base)\b|<rdf:|(?:<[^<>\s]+>|_:\S+)\s+(?:<[^<>\s]+>|a)\s+\S"
).match
"""Whether a text begins as a graph does: with a prefix, or with the terms of a statement."""

_XML = ("<?xml", "<sparql", "<rdf:", "<!--")
"""How XML begins; other text in angle brackets is an IRI."""

QUERY_LANGUAGES = frozenset({"sparql", "cypher", "sql", "python", "py", "bash", "sh"})
"""Languages of code in fences, which is no result."""


class Payload(NamedTuple):
    """What an output holds, without its envelopes."""

    value: Any
    """A value of JSON or, if it is none, text."""

    unread: str = ""
    """Text in the envelopes that was passed over."""

    shortening: Shortening = Shortening()
    """What the envelopes say of rows that are not in it."""


def open_envelopes(output: Any, *, allow_broken_json: bool = False) -> Payload:
    """Return what an output holds: JSON in text, in fences, in content blocks, under keys.

    Args:
        output: a value of JSON, or text.
        allow_broken_json: whether text that begins like JSON may be something else.

    Raises:
        MalformedStep: JSON is broken. Never raised with `allow_broken_json`.
        AmbiguousStep: several parts may be the result, or none.
    """
    payload = Payload(output)
    for _ in range(MOST_ENVELOPES):
        try:
            inner = _open(payload.value)
        except AmbiguousStep:
            raise
        except MalformedStep:
            if not allow_broken_json:
                raise
            break
        if inner is None:
            break
        payload = Payload(
            value=inner.value,
            unread="\n".join(text for text in (payload.unread, inner.unread) if text),
            shortening=payload.shortening.or_else(inner.shortening),
        )
    return payload


def _open(value: Any) -> Payload | None:
    """Return what is in the outermost envelope of a value; None if the value has no envelope.

    Raises:
        MalformedStep: the value is text of broken JSON, or has several results.
    """
    if isinstance(value, str):
        return open_text(value)
    if isinstance(value, dict):
        return _open_object(value)
    if isinstance(value, list | tuple):
        return _open_list(list(value))
    return None


def open_text(text: str) -> Payload | None:
    """Return the JSON in a text, or the text in a fence or below a line that announces it.

    None if the text has neither JSON, a fence nor such a line.

    Raises:
        MalformedStep: the JSON is broken, or several fences may have the result.
    """
    stripped = text.lstrip("\ufeff \t\r\n")
    if looks_like_json(stripped):
        return _decode(stripped)
    if any(fence in stripped for fence in FENCES):
        return _open_fence(stripped)
    element = _in_element(stripped)
    if element is not None:
        return Payload(element[2].strip("\r\n"))
    in_prose = _open_prose(stripped)
    if in_prose is not None:
        return in_prose
    caption, _, below = stripped.partition("\n")
    if caption.rstrip().endswith(":") and below.strip():
        return Payload(below.lstrip("\r\n"), caption)
    if text.startswith("\ufeff"):
        return Payload(stripped)
    return None


def _decode(text: str) -> Payload | None:
    """Return the value of a text that looks like JSON; None if it only looks so.

    Text in quotes may be the first cell of CSV, and text in parentheses a note. A footnote such as
    "[1] Smith et al." may stand above a table.

    Raises:
        MalformedStep: the JSON is broken.
    """
    try:
        decoded = decode_json(text)
    except MalformedStep:
        if text.startswith(('"', "(")) or has_pipes(text):
            return None
        in_prose = _open_prose(text)
        if in_prose is not None:
            return in_prose
        raise
    if text.startswith('"') and decoded.rest:
        return None
    return Payload(decoded.value, decoded.rest)


def _open_prose(text: str) -> Payload | None:
    """Return the JSON or XML that follows prose in a text; None if there is none.

    The JSON in a text that looks like a table is not taken: it may stand in a cell.
    """
    if is_tsv(text) or has_pipes(text) or text.startswith("<"):
        return None
    result = find_xml(text) or find_json(text)
    if result is None:
        return None
    return Payload(result.value, result.around)


def _open_fence(text: str) -> Payload | None:
    """Return the text in the one code fence that has no query; None if there is none.

    Raises:
        AmbiguousStep: several fences may have the result.
    """
    results: list[str] = []
    lines_outside: list[str] = []
    block: _Block | None = None
    for line in text.split("\n"):
        mark = line.strip()
        if block is None:
            if mark.startswith(FENCES):
                language = mark.strip("`~").strip().lower()
                block = _Block(fence=mark[:3], language=language, lines=[])
            else:
                lines_outside.append(line)
        elif mark.endswith(block.fence):
            block.lines.append(line.rstrip().removesuffix(block.fence))
            if block.language not in QUERY_LANGUAGES:
                results.append("\n".join(block.lines))
            block = None
        else:
            block.lines.append(line)

    if not results:
        return None
    if len(results) > 1:
        raise AmbiguousStep(f"{len(results)} code fences, of which any may be the result")
    return Payload(results[0], "\n".join(line for line in lines_outside if line.strip()))


class _Block(NamedTuple):
    """The part of a text that is in a code fence."""

    fence: str  # One of `FENCES`.
    language: str  # In lower case; empty if none is named.
    lines: list[str]


def _open_object(value: dict[str, Any]) -> Payload | None:
    """Return what an object holds under the key of an envelope; None if it is a table or a row."""
    if _is_result(value) or says_error(value):
        return None
    if value.get("content") == [] and value.keys() <= KEYS_OF_ENVELOPES | {"content"}:
        return None  # MCP writes so that a tool returned nothing, which is no table.

    # An object with one key is an envelope, whatever the key.
    keys: tuple[str, ...] = PAYLOAD_KEYS
    if len(value) == 1:
        keys = tuple(value)
    for key in keys:
        inner = value.get(key)
        if isinstance(inner, bool) and key.lower() not in BOOLEAN_KEYS:
            continue
        # In a row, such a key names a column that stands beside other columns.
        is_name_of_column = key in KEYS_OF_ROWS and not value.keys() <= KEYS_OF_ENVELOPES
        if is_name_of_column or inner is None:
            continue
        if _holds_table(inner):
            return Payload(inner, _other_contents(value, key), shortening_in(value))
    return None


def _is_result(value: dict[str, Any]) -> bool:
    """Return whether an object is itself a table, a row of terms, or a graph, and no envelope."""
    if "head" in value or is_table(value) or is_store_table(value) or _has_columns(value):
        return True
    if are_numbered_columns(value):
        return True
    if any(key.startswith("@") for key in value):
        return True  # The object is JSON-LD.
    if value and all(is_term_object(term) and "type" in term for term in value.values()):
        return True
    return is_rdf_json(value)


def _other_contents(value: dict[str, Any], key: str) -> str:
    """Return the text beside `structuredContent` in a result of MCP, if it holds something else.

    Args:
        value: the result.
        key: the key that counts. The text beside any other key is not returned.
    """
    contents = value.get("content")
    if key not in ("structuredContent", "structured_content") or not isinstance(contents, list):
        return ""
    structured = value[key]
    same_values = [structured]
    if isinstance(structured, dict):
        same_values += structured.values()
    texts = [block.get("text") for block in contents if isinstance(block, dict)]
    others = [text for text in texts if _decode_if_json(text) not in same_values]
    return "\n".join(text for text in others if isinstance(text, str))


def _has_columns(value: dict[str, Any]) -> bool:
    """Return whether an object consists of columns of equal length, which hold plain values."""
    columns = list(value.values())
    if not all(isinstance(column, list) for column in columns):
        return False
    if any(isinstance(cell, dict | list) for column in columns for cell in column):
        return False
    return len({len(column) for column in columns}) == 1


def _holds_table(value: Any) -> bool:
    """Return whether a value may hold a table, or the answer to ASK.

    Other plain values and texts of a few words cannot.
    """
    if isinstance(value, str):
        text = value.strip()
        is_long = "\n" in text or text[:1] in ("{", "[", "|", "?") or text.startswith(_XML)
        return is_long or text.lower() in ("true", "false") or _begins_like_rdf(text) is not None
    return isinstance(value, dict | list | tuple | bool)


def _open_list(items: list[Any]) -> Payload | None:
    """Return what the content blocks in a list hold, or its only item if that may be a table.

    None if the list may be a table itself.
    """
    if not items:
        return None
    if all(_is_block(item) for item in items):
        return _open_blocks(items)
    if len(items) == 1:
        [item] = items
        if isinstance(item, str) and _holds_table(item):
            return Payload(item)
        if isinstance(item, dict) and (is_table(item) or is_store_table(item) or "series" in item):
            return Payload(item)
        if isinstance(item, list) and item and all(map(_is_block, item)):
            return Payload(item)
    if all(isinstance(item, str) and item.lstrip().startswith("{") for item in items):
        return _join_blocks(items)
    return None


def _is_block(item: Any) -> bool:
    """Return whether an item is a block of content, as MCP and messages to models have them.

    A block has a type and some content. A block without a type has only JSON or text.
    """
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if isinstance(kind, str):
        has_content = not item.keys().isdisjoint(CONTENT_KEYS)
        return (kind in BLOCK_TYPES and has_content) or _holds_no_table(item)
    if len(item) != 1:
        return False
    [key] = item
    return key in ("json", "text") and _holds_table(item[key])


def _holds_no_table(block: dict[str, Any]) -> bool:
    """Return whether a content block is an image, a link or the like, which holds no table."""
    return KEYS_OF_OTHER_BLOCKS.get(block["type"]) in block


def _open_blocks(blocks: list[dict[str, Any]]) -> Payload:
    """Return what content blocks hold: of one, its content; of several, the table in them.

    Raises:
        AmbiguousStep: all are images, links and the like, in which no table is read.
    """
    if all("type" in block and _holds_no_table(block) for block in blocks):
        types = ", ".join(dict.fromkeys(block["type"] for block in blocks))
        raise AmbiguousStep(f"content blocks of type {types}, in which no table is read")
    contents = []
    for block in blocks:
        for key in CONTENT_KEYS:
            if block.get(key) is not None:
                contents.append(block[key])
                break
    if len(contents) == 1:
        return Payload(contents[0])
    return _join_blocks(contents)


def _join_blocks(contents: list[Any]) -> Payload:
    """Return the table in the contents of several blocks.

    The first of these that holds counts:

    - Each block holds a list of rows: the table has the rows of all blocks.
    - Each block holds one row: the table has these rows.
    - Only one block may be a table: it is the table.
    - Otherwise the texts of all blocks are returned as one text.
    """
    decoded = [_decode_if_json(content) for content in contents]
    if decoded and all(isinstance(rows, list) for rows in decoded):
        return Payload([row for rows in decoded for row in rows])
    if decoded and all(isinstance(row, dict) and not is_table(row) for row in decoded):
        return Payload(decoded)
    tables: list[Any] = [content for content in decoded if isinstance(content, dict | list)]
    if not tables:
        tables = [content for content in contents if _holds_table(content)]
    if len(tables) == 1:
        [table] = tables
        texts = [content for content in decoded if isinstance(content, str)]
        return Payload(table, "\n".join(text for text in texts if text is not table))
    return Payload("\n".join(content for content in contents if isinstance(content, str)))


def _decode_if_json(content: Any) -> Any:
    """Return the value of a text that is only JSON; any other content is returned unchanged."""
    if not isinstance(content, str) or not looks_like_json(content.lstrip()):
        return content
    try:
        decoded = decode_json(content.strip())
    except MalformedStep:
        return content
    return content if decoded.rest else decoded.value
