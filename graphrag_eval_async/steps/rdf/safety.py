"""Checks that a text can be parsed in time linear in its size, and without exhausting the stack.

The parser itself has no limits. Nested triple terms and terms of a JSON-LD context that refer to each other
exhaust its stack. Nested XML entities, XML elements with many attributes, deep nesting, and contexts within
JSON-LD contexts take quadratic time or more. All limits are on sizes, never on time, so that a score does not
depend on the machine.
"""

from __future__ import annotations

import re
from typing import Any
from xml.parsers import expat

import msgspec
import orjson

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import nests_deeper

MAX_DEPTH = 100
"""Maximum levels of JSON-LD and RDF/XML, and of triple terms."""

MAX_CONTEXT_ENTRIES = 500
"""Maximum members of the contexts of a JSON-LD document, at all levels."""

MAX_CONTEXTS_BYTES = 64 * 1024
"""Maximum size of a JSON-LD document with more than one context."""

MAX_START_TAG = 4096
"""Maximum characters of the names and values of an XML element's attributes and namespaces."""

_PIECE = 1 << 16
_TRIPLE_TERM_ENDS = re.compile(r"<<|>>")


def check_triple_terms(text: str) -> None:
    """Check that triple terms do not nest too deep. Texts in literals also count."""
    if text.count("<<") <= MAX_DEPTH:
        return
    depth = 0
    for end in _TRIPLE_TERM_ENDS.finditer(text):
        depth += 1 if end[0] == "<<" else -1
        if depth > MAX_DEPTH:
            raise MalformedStep(f"triple terms nest more than {MAX_DEPTH} deep")


def check_json_ld(output: Any) -> bytes:
    """Return JSON-LD, given as text or decoded, as plain JSON that is safe to parse.

    Raises:
        MalformedStep: it is not JSON, nests too deep, or has too many contexts or terms in them.
    """
    try:
        value = orjson.loads(output) if isinstance(output, str) else output
        if not isinstance(value, dict | list):
            raise MalformedStep("not JSON-LD: neither an object nor an array")
        if nests_deeper(value, MAX_DEPTH):
            raise MalformedStep(f"not JSON-LD: nests more than {MAX_DEPTH} deep")
        data = msgspec.json.encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedStep(f"not JSON: {error}") from None
    contexts = data.count(b'"@context"')
    if contexts > 1 and len(data) > MAX_CONTEXTS_BYTES:
        raise MalformedStep(
            f"JSON-LD of more than {MAX_CONTEXTS_BYTES // 1024} KiB may have one @context, not {contexts}"
        )
    if contexts and _context_entries(value) > MAX_CONTEXT_ENTRIES:
        raise MalformedStep(f"the JSON-LD contexts have more than {MAX_CONTEXT_ENTRIES} members")
    return data


def _context_entries(value: Any) -> int:
    entries = 0
    pending = [(value, False)]
    while pending:
        node, within = pending.pop()
        if isinstance(node, dict):
            entries += len(node) if within else 0
            pending += [(child, within or key == "@context") for key, child in node.items()]
        elif isinstance(node, list):
            pending += [(child, within) for child in node]
    return entries


def check_xml(text: str) -> None:
    """Check that XML is safe to parse.

    Raises:
        MalformedStep: it is not well-formed, nests too deep, has entities that use others, or an element with
            too many attributes.
    """
    depth = 0

    def start(_tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise MalformedStep(f"not RDF/XML: nests more than {MAX_DEPTH} deep")
        if attributes and sum(map(len, attributes)) + sum(map(len, attributes.values())) > MAX_START_TAG:
            raise MalformedStep(
                f"not RDF/XML: the attributes of an element have more than {MAX_START_TAG} characters"
            )

    def end(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(name: str, _parameter: bool, value: str | None, *_: object) -> None:
        if value is None or "&" in value or len(value) > MAX_START_TAG:
            raise MalformedStep(f"not RDF/XML: the entity {name!r} is external, nested or too long")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    try:
        for place in range(0, len(text), _PIECE):  # Other threads can run between them.
            parser.Parse(text[place : place + _PIECE].encode(errors="replace"), False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise MalformedStep(f"not RDF/XML: {error}") from None
