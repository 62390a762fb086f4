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
_SKIPPED = re.compile(r"\s*<(\?|!--)")
"""The start of an instruction or a comment, which may stand before a document type."""
_REPEATED = {"variable", "link", "result", "uri", "bnode", "literal", "triple"}
MAX_DEPTH = 40
MAX_TAGS = 4_000_000


def read_xml(text: str) -> dict[str, Any]:
    """An equivalent SPARQL results JSON object, from the text of SPARQL results XML."""
    document: dict[str, Any] = {}
    for part in _children(_root(text), "head", "results", "boolean"):
        if part.tag == "head":
            variables = [
                each for each in _children(part, "variable", "link") if each.tag == "variable"
            ]
            document["head"] = {"vars": [_name(each) for each in variables]}
        elif part.tag == "results":
            document["results"] = {"bindings": [_row(each) for each in _children(part, "result")]}
        elif (truth := (part.text or "").strip()) in ("true", "false"):
            document["boolean"] = truth == "true"
        else:
            raise _malformed("<boolean> is neither true nor false")
    return document


def _root(text: str) -> Element:
    """The root of an XML document whose names have lost their namespaces."""
    place, text = 0, text.strip()
    while (begun := _SKIPPED.match(text, place)) is not None:
        mark = "?>" if begun[1] == "?" else "-->"
        end = text.find(mark, begun.end())
        place = len(text) if end < 0 else end + len(mark)
    if text[place:].lstrip().startswith("<!DOCTYPE"):
        raise _malformed("declares a document type")
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


def _malformed(problem: str) -> MalformedStep:
    return MalformedStep(f"not SPARQL XML: {problem}")


def _children(parent: Element, *names: str) -> Iterator[Element]:
    """The children, which must have one of these names, and only some of which may be repeated."""
    known = set()
    for child in parent:
        if child.tag not in names:
            raise _malformed(f"<{child.tag}> is out of place")
        key = child.get("name", child.tag) if child.tag == "binding" else child.tag
        if key in known and child.tag not in _REPEATED:
            raise _malformed(f"<{child.tag}> is repeated")
        known.add(key)
        yield child


def _name(element: Element) -> str:
    if "name" not in element.attrib:
        raise _malformed(f"<{element.tag}> has no name")
    return element.attrib["name"]


def _row(result: Element) -> dict[str, Any]:
    return {_name(each): _term(each) for each in _children(result, "binding")}


def _term(place: Element, depth: int = 0) -> dict[str, Any]:
    """The one term in an element."""
    terms = [*_children(place, "uri", "bnode", "literal", "triple")]
    if len(terms) != 1 or depth > MAX_DEPTH:
        raise _malformed(f"<{place.tag}> does not hold one term, or nests too deep")
    [term] = terms
    if term.tag == "triple":
        parts = {
            each.tag: _term(each, depth + 1)
            for each in _children(term, "subject", "predicate", "object")
        }
        return {"type": "triple", "value": parts}
    if len(term):
        raise _malformed(f"<{term[0].tag}> is out of place")
    text = term.text or ""
    found = {"type": term.tag, "value": text if term.tag == "literal" else text.strip()}
    attributes = {"datatype": term.get("datatype"), "xml:lang": term.get(_LANGUAGE)}
    return found | {name: value for name, value in attributes.items() if value is not None}
