"""The query that a step carries and its language, and the IRIs of a SPARQL query, read from its
tokens without running it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.media_types import CYPHER_RESULTS
from graphrag_eval_async.catalogue.reference_steps import REFERENCE_QUERY
from graphrag_eval_async.records.aliases import CYPHER_STEPS, plain_name
from graphrag_eval_async.steps.tokens import FORMS, Token, absolute, form_of, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY_KEYS = ("query", "sparql", "sparql_query", "queryString", "cypher", "cypher_query")
"""The arguments of a step that may hold its query; the first that holds text counts."""

PARAMETER_KEYS = ("params", "parameters")
"""The arguments of a step that may hold the values of parameters of a Cypher query."""

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

_ESCAPED_NAME = re.compile(r"\\(.)")
_ANY = Token("any", "?")
_ENDS = {"[": "]", "(": ")", "<<": ">>", "{|": "|}"}


def query_of(step: Mapping[str, Any]) -> str | None:
    """Return the query that a step carries in its arguments, or else itself; None if it has
    none.
    """
    args = step.get("args")
    for place in (args, step):
        if isinstance(place, Mapping):
            for key in QUERY_KEYS:
                if isinstance(text := place.get(key), str) and text.strip():
                    return text
    return None


def parameters_of(step: Mapping[str, Any]) -> str:
    """Return the values of the parameters of the query that a step carries, as a JSON object.

    They are an argument of the step, as a dict or as JSON text.
    """
    args = step.get("args")
    if not isinstance(args, Mapping):
        return "{}"
    for key in PARAMETER_KEYS:
        parameters = args.get(key)
        if isinstance(parameters, str):
            parameters = _decoded(parameters)
        if isinstance(parameters, Mapping):
            # Values that JSON does not have, such as dates of Python, become text.
            return json.dumps(parameters, sort_keys=True, skipkeys=True, default=str)
    return "{}"


def _decoded(text: str) -> Any:
    """Return the value of JSON text; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_cypher_step(step: Mapping[str, Any]) -> bool:
    """Return whether the query of a step is Cypher rather than SPARQL.

    It is if its output is a result of Cypher, or if the step has a name such as `cypher_query`. A
    tool named `query_graph` may also run SPARQL, so a query in SPARQL is SPARQL in a step of any
    name.
    """
    if step.get("output_media_type") == CYPHER_RESULTS:
        return True
    name = step.get("name")
    if not isinstance(name, str) or plain_name(name) not in CYPHER_STEPS:
        return False
    query = step.get(REFERENCE_QUERY) or query_of(step)
    return not isinstance(query, str) or form_of(query) not in FORMS


def vocabulary(text: str) -> dict[str, list[str]]:
    """Return the predicates, classes and other IRIs of a query, each once and sorted.

    Names of variables and prefixes, white space and comments make no difference. IRIs in filters
    and in what a query selects, groups and sorts are not included. The IRIs of text that is no
    query mean nothing.
    """
    reader = _Reader()
    for token in _with_literals(_resolved(text)):
        reader.take(token)
    return {kind: sorted(iris) for kind, iris in reader.iris.items() if iris}


def _with_literals(found: Iterator[Token]) -> Iterator[Token]:
    """Yield the same tokens, but each string with its language or datatype as one literal."""
    is_after_string = is_after_carets = False
    for token in found:
        if is_after_string and token.text == "^^":
            is_after_carets = True
            continue
        belongs_to_string = token.kind == "language" or (is_after_carets and token.kind == "iri")
        if is_after_string and belongs_to_string:
            is_after_string = is_after_carets = False
            continue
        is_after_string = token.kind == "string"
        is_after_carets = False
        yield Token("literal", "") if is_after_string else token


def _resolved(text: str) -> Iterator[Token]:
    """Yield the tokens of a query after its declarations, with absolute IRIs where they are
    known.
    """
    declared: dict[str, str] = {}
    base = declaring = prefix = ""
    for token in tokens(text):
        kind, spelled = token
        if kind == "name":
            prefix, _, local = spelled.partition(":")
            if declaring != "PREFIX":
                namespace = declared.get(prefix, f"{prefix}:")
                yield Token("iri", namespace + _ESCAPED_NAME.sub(r"\1", local))
        elif kind == "iri":
            iri = absolute(spelled[1:-1], base)
            if declaring == "BASE":
                base = iri
            elif declaring:
                declared[prefix] = iri
            else:
                yield Token(kind, iri)
            declaring = ""
        elif kind == "word" and spelled.upper() in {"PREFIX", "BASE"}:
            declaring, prefix = spelled.upper(), ""
        else:
            declaring = ""
            yield _ANY if kind in {"variable", "blank"} else token


@dataclass(slots=True)
class _Frame:
    """Something in brackets, or an expression."""

    end: str  # The symbol that ends it; "" of an expression and of the whole query.
    # What comes next: "subject", "predicate", "path" (more of a path, or an object), "object",
    # "end" of a triple, "item" of a list, "graph", "described", or "nothing" that counts.
    place: str = "nothing"
    label: str = ""  # "filter" and "bind" of an expression, "values" of the rows of VALUES.
    path: list[str] = field(default_factory=list)  # Predicates of the current triples.
    depth: int = 0  # Round brackets open in an expression or a path.
    # Tokens of an expression without outer brackets.
    expression: list[Token] = field(default_factory=list)


class _Reader:
    """Takes the tokens of a query one by one, and collects IRIs. Whatever comes, it never fails."""

    def __init__(self) -> None:
        self.iris: dict[str, set[str]] = {"predicates": set(), "classes": set(), "iris": set()}
        self._stack = [_Frame("")]

    def take(self, token: Token) -> None:
        kind, text = token
        frame = self._stack[-1]
        if frame.label in {"filter", "bind"}:
            self._in_expression(frame, token)
        elif kind == "word":
            self._word(frame, text)
        elif kind == "symbol":
            self._symbol(frame, text)
        elif kind in {"any", "iri", "literal", "number"}:
            self._term(frame, text if kind == "iri" else None)

    def _term(self, frame: _Frame, iri: str | None) -> None:
        """Take a term: an IRI, or None for anything else."""
        place, frame.place = frame.place, "predicate"
        if place == "predicate":
            frame.path += [] if iri is None else [iri]
            frame.place = "object" if iri is None else "path"
        elif place in {"path", "object"}:
            is_class = RDF_TYPE in frame.path and iri is not None
            self.iris["predicates"].update(
                predicate for predicate in frame.path if not is_class or predicate != RDF_TYPE
            )
            if iri is not None:
                self.iris["classes" if is_class else "iris"].add(iri)
            frame.place = "end"
        elif place == "nothing":
            frame.place = place
        else:
            if iri is not None:
                self.iris["iris"].add(iri)
            if place == "item":
                frame.place = place
            elif place in {"graph", "described"}:
                frame.place = "subject" if frame.end else "nothing"
            frame.path = []

    def _symbol(self, frame: _Frame, text: str) -> None:
        if text == "{":
            self._open(frame)
        elif text == "}":
            self._close()
        elif frame.place == "nothing" or self._is_of_path(frame, text):
            pass
        elif text == ".":
            frame.place = "subject"
        elif text == ";":
            frame.path, frame.place = [], "predicate"
        elif text == ",":
            frame.place = "object"
        elif text in _ENDS:
            place = {"(": "item", "<<": "subject"}.get(text, "predicate")
            self._stack.append(_Frame(_ENDS[text], place))
        elif text == frame.end:
            self._stack.pop()
            if text != "|}":
                self._term(self._stack[-1], None)

    def _is_of_path(self, frame: _Frame, text: str) -> bool:
        """Whether a symbol belongs to a property path."""
        if frame.place not in {"predicate", "path"}:
            return False
        if text == ")" and frame.depth:
            frame.depth, frame.place = frame.depth - 1, "path"
            return True
        if frame.place == "predicate":
            frame.depth += text == "("
            return text in {"(", "^", "!", "|"}
        if text in {"/", "|"}:
            frame.place = "predicate"
        return text in {"/", "|", "*", "+", "?"}

    def _open(self, frame: _Frame) -> None:
        if frame.label == "values":
            frame.place = "item"
            return
        if not frame.end:
            frame.place = "nothing"
        self._stack.append(_Frame("}", "subject"))

    def _close(self) -> None:
        while len(self._stack) > 1 and self._stack.pop().end != "}":
            pass
        outer = self._stack[-1]
        if outer.label in {"filter", "bind"}:
            if not outer.depth:
                self._end_expression()
        elif outer.end and outer.place != "nothing":
            outer.place = "subject"

    def _word(self, frame: _Frame, text: str) -> None:
        word = text.upper()
        if text == "a" and frame.place == "predicate":
            self._term(frame, RDF_TYPE)
        elif word in {"TRUE", "FALSE"}:
            self._term(frame, None)
        elif word in {"FILTER", "HAVING", "BIND"}:
            frame.place = "nothing" if frame.place == "nothing" else "subject"
            self._stack.append(_Frame("", label="bind" if word == "BIND" else "filter"))
        elif word == "VALUES":
            self._stack.append(_Frame("}", label="values"))
        elif word in {"GRAPH", "SERVICE", "FROM", "NAMED"}:
            frame.place = "graph"
        elif word == "SELECT":
            frame.place = "nothing"
        elif word == "DESCRIBE":
            frame.place = "described"

    def _in_expression(self, frame: _Frame, token: Token) -> None:
        if token == Token("symbol", "{"):
            self._open(frame)
            return
        if token == Token("symbol", "}"):
            self._end_expression()
            self._close()
            return
        if token.kind == "symbol" and token.text in "()":
            frame.depth += 1 if token.text == "(" else -1
            if frame.depth <= 0:
                self._end_expression()
                return
            if token.text == "(" and frame.depth == 1:
                return
        frame.expression.append(token)

    def _end_expression(self) -> None:
        frame = self._stack.pop()
        bound = frame.expression[0] if frame.expression else None
        is_one_term = [token.text.upper() for token in frame.expression[1:2]] in ([], ["AS"])
        if frame.label == "bind" and bound is not None and bound.kind == "iri" and is_one_term:
            self.iris["iris"].add(bound.text)  # As it might stand in a triple.
