"""Converts SPARQL Query Results XML to the object form of SPARQL results JSON.

https://www.w3.org/TR/rdf-sparql-XMLres/

Refuses document type declarations, and so all entities except those built into XML.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from graphrag_eval_async.errors import MalformedStep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_SPARQL = "http://www.w3.org/2005/sparql-results#"

_instruction_or_comment = re.compile(r"\s*<(\?|!--)").match
"""The start of what may stand before a document type."""

_REPEATABLE = frozenset({"variable", "link", "result", "uri", "bnode", "literal", "triple"})
"""Tags that may occur several times within one element."""

MAX_DEPTH = 40
"""Maximum levels of triples within triples."""

MAX_TAGS = 4_000_000
"""Maximum number of tags: each takes some hundred bytes of memory."""


def read_xml(text: str) -> dict[str, Any]:
    """Return the SPARQL results in XML as an object of SPARQL results JSON.

    Raises:
        MalformedStep: the text is not SPARQL results.
    """
    document: dict[str, Any] = {}
    for part in _children(_root(text), "head", "results", "boolean"):
        if part.tag == "head":
            # Links may stand beside variables. They lead to other documents, and are not read.
            children = list(_children(part, "variable", "link"))
            names = [_name(child) for child in children if child.tag == "variable"]
            document["head"] = {"vars": names}
        elif part.tag == "results":
            document["results"] = {"bindings": [_row(row) for row in _children(part, "result")]}
        else:
            document["boolean"] = _boolean(part)
    return document


def _boolean(element: Element) -> bool:
    """Return the answer to ASK in an element; raise `MalformedStep` if it is none."""
    text = (element.text or "").strip()
    if text not in ("true", "false"):
        raise _malformed("<boolean> is neither true nor false")
    return text == "true"


def _root(text: str) -> Element:
    """Return the root of an XML document, after removing the namespaces from all tags.

    Raises:
        MalformedStep: the text is not well-formed, declares a document type, has too many tags, or
            is something other than SPARQL results.
    """
    text = text.strip()
    _check_no_document_type(text)
    if text.count("<") > MAX_TAGS:
        raise _malformed(f"more than {MAX_TAGS:,} tags")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (without a document type, nothing expands)
    except (ElementTree.ParseError, UnicodeEncodeError) as error:
        raise _malformed(str(error)) from None

    namespace = root.tag.rpartition("}")[0].removeprefix("{")
    if namespace not in ("", _SPARQL):
        raise _malformed(f"the namespace {namespace[:80]} is another")
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.tag != "sparql":
        raise _malformed(f"<{root.tag}> is out of place")
    return root


def _check_no_document_type(text: str) -> None:
    """Check that XML declares no document type, whose entities could expand without limit.

    Raises:
        MalformedStep: a document type follows the instructions and comments at the beginning.
    """
    place = 0
    match = _instruction_or_comment(text, place)
    while match is not None:
        end_mark = "?>" if match[1] == "?" else "-->"
        end = text.find(end_mark, match.end())
        if end < 0:
            # The text is not well-formed, which the parser will say.
            return
        place = end + len(end_mark)
        match = _instruction_or_comment(text, place)
    if text[place:].lstrip().startswith("<!DOCTYPE"):
        raise _malformed("declares a document type")


def _malformed(problem: str) -> MalformedStep:
    """Return the error for XML that is not SPARQL results."""
    return MalformedStep(f"not SPARQL XML: {problem}")


def _children(parent: Element, *tags: str) -> Iterator[Element]:
    """Yield the children of an element, each of which must have one of `tags`.

    Raises:
        MalformedStep: a child has another tag, or occurs twice although its tag may not. Bindings
            may occur several times with different names.
    """
    earlier_children = set[tuple[str, str | None]]()
    for child in parent:
        if child.tag not in tags:
            raise _malformed(f"<{child.tag}> is out of place")
        name = None
        if child.tag == "binding":
            name = child.get("name")
        if (child.tag, name) in earlier_children and child.tag not in _REPEATABLE:
            raise _malformed(f"<{child.tag}> is repeated")
        earlier_children.add((child.tag, name))
        yield child


def _name(element: Element) -> str:
    """Return the name of a variable or a binding; raise `MalformedStep` if it has none."""
    if "name" not in element.attrib:
        raise _malformed(f"<{element.tag}> has no name")
    return element.attrib["name"]


def _row(result: Element) -> dict[str, Any]:
    """Return the terms of a row by the names of their variables."""
    return {_name(binding): _term(binding) for binding in _children(result, "binding")}


def _term(parent: Element, depth: int = 0) -> dict[str, Any]:
    """Return the one term in an element, as SPARQL results JSON writes it.

    Args:
        parent: a binding, or a part of a triple.
        depth: how many triples contain the element.

    Raises:
        MalformedStep: the element does not hold one term, or triples nest too deep.
    """
    terms = [*_children(parent, "uri", "bnode", "literal", "triple")]
    if len(terms) != 1 or depth > MAX_DEPTH:
        raise _malformed(f"<{parent.tag}> does not hold one term, or nests too deep")
    [term] = terms
    if term.tag == "triple":
        parts = _children(term, "subject", "predicate", "object")
        return {"type": "triple", "value": {part.tag: _term(part, depth + 1) for part in parts}}
    if len(term) > 0:
        raise _malformed(f"<{term[0].tag}> is out of place")

    text = term.text or ""
    if term.tag != "literal":
        text = text.strip()
    json_term = {"type": term.tag, "value": text}
    for key, attribute in (("datatype", "datatype"), ("xml:lang", _LANGUAGE)):
        value = term.get(attribute)
        if value is not None:
            json_term[key] = value
    return json_term
