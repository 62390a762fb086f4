"""Converts SPARQL Query Results XML to the object form of SPARQL results JSON.

https://www.w3.org/TR/rdf-sparql-XMLres/

Refuses document type declarations, and so all entities except those built into XML.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from graphrag_eval_async.errors import MalformedStep

_NAMESPACE = "http://www.w3.org/2005/sparql-results#"
_LANGUAGE = "http://www.w3.org/XML/1998/namespace lang"
_DEEPEST = 200

_PARENTS = {
    "sparql": {""},
    "head": {"sparql"},
    "variable": {"head"},
    "link": {"head"},
    "boolean": {"sparql"},
    "results": {"sparql"},
    "result": {"results"},
    "binding": {"result"},
    "subject": {"triple"},
    "predicate": {"triple"},
    "object": {"triple"},
}
_WITH_TEXT = frozenset(("uri", "bnode", "literal", "boolean"))
_TERMS = frozenset(("uri", "bnode", "literal", "triple"))
_PLACES = frozenset(("binding", "subject", "predicate", "object"))


def read_xml(text: str) -> dict[str, Any]:
    """An equivalent SPARQL results JSON object, from the text of SPARQL results XML.

    Raises:
        MalformedStep: the text is not SPARQL results XML, declares a document type, or nests too deep.
    """
    reader = _Reader()
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text.strip().encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise _malformed(str(error)) from None
    return reader.document


def _malformed(problem: str) -> MalformedStep:
    return MalformedStep(f"not SPARQL XML: {problem}")


def _refuse(*_: object) -> None:
    raise _malformed("declares a document type")


class _Reader:
    """Builds the document from parser events. Every element must be in its allowed place."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self._path: list[str] = [""]
        self._attributes: list[dict[str, str]] = []
        self._text: list[str] = []
        self._row: dict[str, Any] = {}
        # The last term read, and the parts of each open triple.
        self._term: dict[str, Any] | None = None
        self._triples: list[dict[str, Any]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        namespace, _, name = tag.rpartition(" ")
        parents = _PLACES if name in _TERMS else _PARENTS.get(name, ())
        if namespace not in ("", _NAMESPACE) or self._path[-1] not in parents:
            raise _malformed(f"<{name}> is out of place")
        if len(self._path) > _DEEPEST:
            raise _malformed(f"more than {_DEEPEST} levels")
        if name in _TERMS and self._term is not None:
            raise _malformed(f"<{self._path[-1]}> has two terms")
        self._path.append(name)
        self._attributes.append(attributes)
        self._text = []
        if name in ("head", "results", "boolean"):
            self._add_part(name)
        elif name == "result":
            self._row = {}
        elif name == "triple":
            self._triples.append({})

    def _add_part(self, name: str) -> None:
        if name in self.document:
            raise _malformed(f"<{name}> is repeated")
        parts: dict[str, Any] = {"head": {"vars": []}, "results": {"bindings": []}, "boolean": None}
        self.document[name] = parts[name]

    def characters(self, text: str) -> None:
        if self._path[-1] in _WITH_TEXT:
            self._text.append(text)
        elif text.strip():
            raise _malformed(f"text in <{self._path[-1]}>")

    def end(self, _tag: str) -> None:
        name, attributes = self._path.pop(), self._attributes.pop()
        if name == "variable":
            self.document["head"]["vars"].append(_name(name, attributes))
        elif name == "boolean":
            self.document["boolean"] = self._truth()
        elif name == "result":
            self.document["results"]["bindings"].append(self._row)
        elif name in _PLACES:
            self._put(name, attributes)
        elif name == "triple":
            parts = self._triples.pop()
            if len(parts) < len(_PLACES) - 1:
                raise _malformed("<triple> lacks a part")
            self._term = {"type": "triple", "value": parts}
        elif name in _TERMS:
            self._term = self._simple_term(name, attributes)

    def _truth(self) -> bool:
        text = "".join(self._text).strip()
        if text not in ("true", "false"):
            raise _malformed("<boolean> is neither true nor false")
        return text == "true"

    def _put(self, place: str, attributes: dict[str, str]) -> None:
        """Add the last term read to its row or triple."""
        target, key = (
            (self._row, _name(place, attributes)) if place == "binding" else (self._triples[-1], place)
        )
        if self._term is None or key in target:
            raise _malformed(f"<{place}> is {'empty' if self._term is None else 'repeated'}")
        target[key], self._term = self._term, None

    def _simple_term(self, kind: str, attributes: dict[str, str]) -> dict[str, Any]:
        text = "".join(self._text)
        term = {"type": kind, "value": text if kind == "literal" else text.strip()}
        if "datatype" in attributes:
            term["datatype"] = attributes["datatype"]
        if _LANGUAGE in attributes:
            term["xml:lang"] = attributes[_LANGUAGE]
        return term


def _name(element: str, attributes: dict[str, str]) -> str:
    if "name" not in attributes:
        raise _malformed(f"<{element}> has no name")
    return attributes["name"]
