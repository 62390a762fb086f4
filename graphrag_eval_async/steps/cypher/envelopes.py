"""Opens the envelopes of protocols, frameworks and tools round Cypher results.

Records have keys of any name, so an object is an envelope only if it has the form of one: a record
with a column `data` or `result` stays a record where it stands in a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.steps.cypher.layouts import is_pandas_frame, names_and_rows_in
from graphrag_eval_async.steps.cypher.literals import (
    Record,
    read_attributes,
    read_literal,
    read_literal_at,
)
from graphrag_eval_async.steps.formats.envelopes import MOST_ENVELOPES, Payload, open_text
from graphrag_eval_async.steps.formats.json_tables import says_error
from graphrag_eval_async.steps.formats.json_text import DecodedText, decode_json, looks_like_json

PAYLOAD_KEYS = (
    "structuredContent", "structured_content", "context", "full_context", "result", "results",
    "output", "data", "records", "rows", "items", "response", "content", "text", "body", "payload",
    "tool_result", "observation",
)  # fmt: skip
"""Keys under which envelopes hold what is in them; the first that holds a table counts."""

BLOCK_TYPES = frozenset({"text", "json", "tool_result", "tool-result", "output_text", "resource"})
"""Types of content blocks in MCP and in messages to models."""

CONTENT_KEYS = ("json", "text", "content", "resource", "output")
"""Keys under which a content block holds its content."""

STEPS_KEY = "intermediate_steps"
"""Key of what LangChain's GraphCypherQAChain did: its query, then the rows under `context`."""

_find_record = re.compile(r"<Record[ >]").search
_begins_with_attribute = re.compile(r"(?:[A-Z]\w*\()?[a-z_]\w*=[^=]").match
"""Matches how Python shows objects: ``EagerResult(records=[...`` or ``items=[...``."""


def open_cypher_envelopes(output: Any) -> Payload:
    """Return the value inside all envelopes of an output, and the text that was passed over.

    Envelopes are JSON as text, fences, content blocks, and objects that hold a result under a key.

    Raises:
        MalformedStep: a text shows an object of Neo4j's driver that cannot be read, or the output
            has several results.
    """
    value = output
    unread: list[str] = []
    for _ in range(MOST_ENVELOPES):
        inner = _open(value)
        if inner is None:
            break
        value = inner.value
        if inner.unread:
            unread.append(inner.unread)
    return Payload(value, "\n".join(unread))


def _open(value: Any) -> Payload | None:
    """Return the value in the outermost envelope; None if `value` has no envelope."""
    if isinstance(value, str):
        return _open_text(value)
    if isinstance(value, Mapping):
        return _open_object(value)
    if isinstance(value, list | tuple):
        return _open_list(list(value))
    return None


def _open_text(text: str) -> Payload | None:
    """Return the value that a text shows, or the text inside its fence.

    A text may show JSON, a literal of Python, or records of Neo4j's driver.

    Returns:
        None if it is plain text.
    """
    stripped = text.strip("\ufeff \t\r\n")
    if looks_like_json(stripped) or stripped.startswith("("):
        return _decode(stripped)
    if _begins_with_attribute(stripped) is not None:
        # If it cannot be read, it may be prose such as "count=5 films".
        with suppress(MalformedStep):
            return Payload(_read_object(stripped))
    if _find_record(stripped) is not None:
        return _read_records(stripped)
    return open_text(text)


def _decode(text: str) -> Payload | None:
    """Return the value of a text that looks like JSON or a literal of Python.

    It may be neither: a note in parentheses, the first cell of CSV, or prose above JSON. Then it is
    opened like any other text, and the result may be None.
    """
    # Decode JSON, unless other text follows it.
    json_before_text: DecodedText | None = None
    with suppress(MalformedStep):
        decoded = decode_json(text)
        if not decoded.rest:
            return Payload(decoded.value)
        json_before_text = decoded

    # JSON and the text behind it may together be one literal of Python.
    with suppress(MalformedStep):
        return Payload(read_literal(text))

    # A text in quotes is no result, but perhaps the first cell of CSV.
    if json_before_text is not None and not text.startswith('"'):
        return Payload(json_before_text.value, json_before_text.rest)
    return open_text(text)


def _read_object(text: str) -> Any:
    """Return the attributes of an object that Python shows as a call, or without its name.

    Of a result of Neo4j's driver, return the records alone or, if it has none, an empty table with
    its names.
    """
    is_call = "(" in text.partition("=")[0]
    attributes = read_literal(text) if is_call else read_attributes(text)
    if isinstance(attributes, dict) and attributes.keys() >= {"records", "keys"}:
        if attributes["records"]:
            return attributes["records"]
        return {"fields": attributes["keys"], "values": []}
    return attributes


def _read_records(text: str) -> Payload:
    """Return all records of Neo4j's driver in a text, and the text between and around them.

    The brackets and commas of a list of records are left out of that text.

    Raises:
        MalformedStep: a record holds something that is no value of Cypher.
    """
    records: list[Record] = []
    around: list[str] = []
    position = 0
    match = _find_record(text)
    while match is not None:
        around.append(text[position : match.start()].strip("[], \r\n"))
        literal = read_literal_at(text, match.start())
        records.append(literal.value)
        position = literal.end
        match = _find_record(text, position)
    around.append(text[position:].strip("[], \r\n"))
    return Payload(records, "\n".join(part for part in around if part))


def _open_object(value: Mapping[str, Any]) -> Payload | None:
    """Return the value that an object holds under the key of an envelope.

    Returns:
        None if the object is no envelope, but a table, a record or an error.

    Raises:
        MalformedStep: it is a response of Neo4j's transactional API with several results, or none.
    """
    is_table = names_and_rows_in(value) is not None or is_pandas_frame(value)
    if is_table or says_error(dict(value)):
        return None
    if STEPS_KEY in value:
        return Payload(value[STEPS_KEY])
    # Only the transactional API has both keys.
    results = value.get("results")
    if "errors" in value and isinstance(results, list):
        return _only_result(results)

    # Look for a table under the keys of envelopes.
    is_only_key = len(value) == 1
    for key in PAYLOAD_KEYS:
        if key in value and _holds_table(value[key], is_only_key=is_only_key):
            return Payload(value[key])
    return None


def _only_result(results: list[Any]) -> Payload:
    """Return the result in a response of Neo4j's transactional API, which has one per statement.

    Raises:
        MalformedStep: there are several results, or none.
    """
    if len(results) != 1:
        raise MalformedStep(f"the results of {len(results)} statements, of which any may be meant")
    return Payload(results[0])


def _holds_table(value: Any, *, is_only_key: bool) -> bool:
    """Return whether the value under a key of an object is a table or an envelope, not a cell.

    Args:
        value: the value under the key.
        is_only_key: whether the object has no other key. Then any list or object is taken for a
            table, and so is any text of several lines.
    """
    if isinstance(value, str):
        text = value.strip()
        begins_like_table = text.startswith(("{", "[", "<", "|", "("))
        return begins_like_table or (is_only_key and "\n" in text)
    if is_only_key:
        return isinstance(value, Mapping | list | tuple)
    if isinstance(value, list | tuple):
        return all(isinstance(item, Mapping | list | tuple) for item in value)
    if isinstance(value, Mapping):
        is_envelope = not value.keys().isdisjoint((*PAYLOAD_KEYS, STEPS_KEY))
        return is_envelope or names_and_rows_in(value) is not None
    return False


def _open_list(items: list[Any]) -> Payload | None:
    """Return the contents of a list of content blocks or of steps; None if it is a list of rows."""
    if not items:
        return None
    context = _context_of_chain(items)
    if context is not None:
        return context
    if all(_is_block(item) for item in items):
        return _join_blocks([_content_of(item) for item in items])
    if all(isinstance(item, str) and _holds_table(item, is_only_key=True) for item in items):
        return _join_blocks(items)
    return None


def _context_of_chain(items: list[Any]) -> Payload | None:
    """Return the rows that LangChain's GraphCypherQAChain got from its last query.

    The steps of the chain are objects with the single key `query` or `context`, which has the rows.

    Returns:
        None if the items are no such steps, or if they have no query or no context.
    """
    contexts = []
    has_query = False
    for item in items:
        if not isinstance(item, Mapping) or len(item) != 1:
            return None
        if "context" in item:
            contexts.append(item["context"])
        elif "query" in item:
            has_query = True
        else:
            return None
    if not (contexts and has_query):
        return None
    return Payload(contexts[-1])


def _is_block(item: Any) -> bool:
    """Return whether an item of a list is a content block.

    The hits that retrievers of neo4j-graphrag return count as content blocks.
    """
    if not isinstance(item, Mapping):
        return False
    is_hit = item.keys() == {"content", "metadata"}
    if is_hit:
        return isinstance(item["content"], str)
    kind = item.get("type")
    has_content = not item.keys().isdisjoint(CONTENT_KEYS)
    return isinstance(kind, str) and kind in BLOCK_TYPES and has_content


def _content_of(block: Mapping[str, Any]) -> Any:
    """Return the content of a content block; None if it is empty."""
    for key in CONTENT_KEYS:
        if block.get(key) is not None:
            return block[key]
    return None


def _join_blocks(contents: list[Any]) -> Payload:
    """Return the content if there is one, or one list with the rows of several contents.

    Raises:
        MalformedStep: one of several contents is plain text.
    """
    if len(contents) == 1:
        return Payload(contents[0])
    rows: list[Any] = []
    for content in contents:
        opened = open_cypher_envelopes(content).value
        if isinstance(opened, str):
            raise MalformedStep("several content blocks, of which one is no JSON")
        if isinstance(opened, list):
            rows += opened
        else:
            rows.append(opened)
    return Payload(rows)
