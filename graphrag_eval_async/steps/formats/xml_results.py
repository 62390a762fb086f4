"""Converts SPARQL Query Results XML to the object form of SPARQL results JSON.

https://www.w3.org/TR/rdf-sparql-XMLres/

Refuses document type declarations, and so all entities except those built into XML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from graphrag_eval_async.errors import MalformedStep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from xml.etree.ElementTree import Element

_NAMESPACES = ("", "{http://www.w3.org/2005/sparql-results#")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_TERMS = frozenset(("uri", "bnode", "literal", "triple"))
_PARTS = frozenset(("subject", "predicate", "object"))
_DEEPEST = 40


def read_xml(text: str) -> dict[str, Any]:
    """An equivalent SPARQL results JSON object, from the text of SPARQL results XML.

    Raises:
        MalformedStep: the text is not SPARQL results XML, declares a document type, or nests too deep.
    """
    if "<!DOCTYPE" in text:
        raise _malformed("declares a document type")
    try:
        root = ElementTree.fromstring(text.strip())  # noqa: S314  (without a document type, nothing expands)
    except (ElementTree.ParseError, UnicodeEncodeError) as error:
        raise _malformed(str(error)) from None
    document: dict[str, Any] = {}
    if _name_of(root) != "sparql":
        raise _malformed(f"<{_name_of(root)}> is out of place")
    for name, part in _children(root, ("head", "results", "boolean")):
        if name in document:
            raise _malformed(f"<{name}> is repeated")
        if name == "head":
            variables = [each for kind, each in _children(part, ("variable", "link")) if kind == "variable"]
            document[name] = {"vars": [_attribute(each, "name") for each in variables]}
        elif name == "results":
            document[name] = {"bindings": [_row(row) for _, row in _children(part, ("result",))]}
        else:
            document[name] = _truth(part)
    return document


def _malformed(problem: str) -> MalformedStep:
    return MalformedStep(f"not SPARQL XML: {problem}")


def _name_of(element: Element) -> str:
    namespace, _, name = element.tag.rpartition("}")
    return name if namespace in _NAMESPACES else element.tag


def _children(parent: Element, names: Collection[str]) -> Iterator[tuple[str, Element]]:
    """The children with their names, which must be among these; there must be no text between them."""
    if parent.text and parent.text.strip():
        raise _malformed(f"text in <{_name_of(parent)}>")
    for child in parent:
        if (name := _name_of(child)) not in names:
            raise _malformed(f"<{name}> is out of place")
        if child.tail and child.tail.strip():
            raise _malformed(f"text after <{name}>")
        yield name, child


def _attribute(element: Element, name: str) -> str:
    if name not in element.attrib:
        raise _malformed(f"<{_name_of(element)}> has no {name}")
    return element.attrib[name]


def _truth(element: Element) -> bool:
    text = "".join(element.itertext()).strip()
    if text not in ("true", "false"):
        raise _malformed("<boolean> is neither true nor false")
    return text == "true"


def _row(result: Element) -> dict[str, Any]:
    bindings = [(_attribute(each, "name"), _term(each)) for _, each in _children(result, ("binding",))]
    row = dict(bindings)
    if len(row) < len(bindings):
        raise _malformed("<binding> is repeated")
    return row


def _term(place: Element, depth: int = 0) -> dict[str, Any]:
    """The one term in an element."""
    terms = [*_children(place, _TERMS)]
    if len(terms) != 1 or depth > _DEEPEST:
        what = "does not hold one term" if len(terms) != 1 else f"nests more than {_DEEPEST} levels"
        raise _malformed(f"<{_name_of(place)}> {what}")
    [(kind, element)] = terms
    if kind == "triple":
        parts = [(name, _term(part, depth + 1)) for name, part in _children(element, _PARTS)]
        if len(parts) != len(_PARTS) or dict(parts).keys() != _PARTS:
            raise _malformed("<triple> lacks a part or repeats it")
        return {"type": kind, "value": dict(parts)}
    if len(element):
        raise _malformed(f"<{_name_of(element[0])}> is out of place")
    text = element.text or ""
    term = {"type": kind, "value": text if kind == "literal" else text.strip()}
    if "datatype" in element.attrib:
        term["datatype"] = element.attrib["datatype"]
    if _LANGUAGE in element.attrib:
        term["xml:lang"] = element.attrib[_LANGUAGE]
    return term
