"""The query that a step carries and its language, and the IRIs of a SPARQL query, read from its
tokens without running it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.media_types import CYPHER_RESULTS
from graphrag_eval_async.catalogue.reference_steps import COMPARE, REFERENCE_QUERY, TABLE
from graphrag_eval_async.records.aliases import CYPHER_STEPS, plain_name
from graphrag_eval_async.steps.tokens import FORMS, Token, absolute, form_of, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

QUERY_KEYS = (
    "query",
    "sparql",
    "sparql_query",
    "sparqlQuery",
    "queryString",
    "query_string",
    "cypher",
    "cypher_query",
)
"""The arguments of a step that may hold its query; the first that holds text counts."""

WRAPPING_KEYS = ("input", "tool_input", "arguments", "args", "kwargs", "body", "payload", "__arg1")
"""Keys under which frameworks hold all arguments of a step, or its only one."""

MAX_WRAPPINGS = 3
"""How many objects with these keys, and JSON texts, are opened one in another."""

PARAMETER_KEYS = ("params", "parameters")
"""The arguments of a step that may hold the values of parameters of a Cypher query."""

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

_ESCAPED_CHARACTER = re.compile(r"\\(.)")
_VARIABLE = Token("variable", "?")
"""Stands for each variable and blank node, whose names make no difference."""

_CLOSING_BRACKETS = {"[": "]", "(": ")", "<<": ">>", "{|": "|}"}

_OPENING_BRACE = Token("symbol", "{")
_CLOSING_BRACE = Token("symbol", "}")
_OPENING_BRACKET = Token("symbol", "(")
_CLOSING_BRACKET = Token("symbol", ")")


def query_of(step: Mapping[str, Any]) -> str | None:
    """Return the query that a step has in its arguments or, if not there, beside them.

    The arguments may be the query itself, JSON text, or an object that holds them under one of
    `WRAPPING_KEYS`.

    Returns:
        None if the step has no text under any of `QUERY_KEYS`, and its arguments are no query.
    """
    arguments = arguments_of(step)
    if isinstance(arguments, str) and _is_query(arguments, step):
        return arguments
    for holder in (arguments, step):
        if not isinstance(holder, Mapping):
            continue
        for key in QUERY_KEYS:
            query = holder.get(key)
            if isinstance(query, str) and query.strip():
                return query
    return None


def arguments_of(step: Mapping[str, Any]) -> Any:
    """Return the arguments of a step without JSON text and wrapping objects around them.

    An object with one of `QUERY_KEYS` wraps nothing.
    """
    arguments = step.get("args")
    for _ in range(MAX_WRAPPINGS):
        inner = _unwrapped(arguments)
        if inner is None:
            break
        arguments = inner
    return arguments


def _unwrapped(arguments: Any) -> Any:
    """Return what JSON text or a wrapping object holds; None if `arguments` are neither."""
    if isinstance(arguments, str):
        if arguments.lstrip().startswith("{"):
            return _decoded(arguments)
        return None
    if not isinstance(arguments, Mapping) or not arguments.keys().isdisjoint(QUERY_KEYS):
        return None
    for key in WRAPPING_KEYS:
        inner = arguments.get(key)
        if isinstance(inner, str | Mapping):
            return inner
    return None


def _is_query(text: str, step: Mapping[str, Any]) -> bool:
    """Return whether text that is all arguments of a step is a query.

    It is if it has the form of SPARQL, or if the name of the step says that it takes queries.
    """
    if not text.strip():
        return False
    if form_of(text) is not None and "{" in text:
        return True
    name = plain_name(str(step.get("name")))
    return "sparql" in name or name in CYPHER_STEPS


def parameters_of(step: Mapping[str, Any]) -> str:
    """Return the values of the parameters of the query that a step carries, as a JSON object.

    They are an argument of the step, as a dict or as JSON text.
    """
    arguments = arguments_of(step)
    if not isinstance(arguments, Mapping):
        return "{}"
    for key in PARAMETER_KEYS:
        parameters = arguments.get(key)
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

    It is Cypher in three cases:

    - The output of the step is a result of Cypher.
    - The output is compared as a table, by the key `compare`, and the reference query is not in
      SPARQL.
    - The step has a name such as `cypher_query`, and the query is not in SPARQL. Some of these
      names do not tell the language: a tool named `query_graph` may also run SPARQL.
    """
    if step.get("output_media_type") == CYPHER_RESULTS:
        return True
    reference_query = step.get(REFERENCE_QUERY)
    if step.get(COMPARE) == TABLE and isinstance(reference_query, str):
        return form_of(reference_query) not in FORMS
    name = step.get("name")
    if not isinstance(name, str) or plain_name(name) not in CYPHER_STEPS:
        return False
    query = reference_query or query_of(step)
    is_sparql = isinstance(query, str) and form_of(query) in FORMS
    return not is_sparql


def vocabulary(text: str) -> dict[str, list[str]]:
    """Return the predicates, classes and other IRIs of a query, each once and sorted.

    Names of variables and prefixes, white space and comments make no difference. IRIs in filters
    and in what a query selects, groups and sorts are not included. The IRIs of text that is no
    query mean nothing.
    """
    # The IRI of a literal's datatype is no IRI of the query, so it is put into the literal first.
    collector = _IriCollector()
    for token in _with_whole_literals(_resolved_tokens(text)):
        collector.take(token)
    return {kind: sorted(iris) for kind, iris in collector.iris.items() if iris}


def _with_whole_literals(query_tokens: Iterator[Token]) -> Iterator[Token]:
    """Yield the tokens of a query with one token for each literal, without its contents.

    A literal is a string together with its language or datatype.
    """
    is_after_string = False
    # Whether ^^ stood after the string, so that its datatype comes next.
    is_after_carets = False
    for token in query_tokens:
        if is_after_string and token.text == "^^":
            is_after_carets = True
            continue
        is_datatype = is_after_carets and token.kind == "iri"
        if is_after_string and (is_datatype or token.kind == "language"):
            is_after_string = False
            is_after_carets = False
            continue

        is_after_string = token.kind == "string"
        is_after_carets = False
        if is_after_string:
            yield Token("literal", "")
        else:
            yield token


def _resolved_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a query without its PREFIX and BASE, with absolute IRIs.

    A prefixed name becomes an IRI. If its prefix is not declared, it stays as it is.
    """
    namespaces: dict[str, str] = {}
    base = ""
    # PREFIX or BASE until the IRI that it declares; empty outside of declarations.
    declaration = ""
    declared_prefix = ""
    for token in tokens(text):
        if token.kind == "word" and token.text.upper() in {"PREFIX", "BASE"}:
            declaration = token.text.upper()
            declared_prefix = ""
        elif token.kind == "name":
            prefix, _, local_name = token.text.partition(":")
            if declaration == "PREFIX":
                declared_prefix = prefix
            else:
                namespace = namespaces.get(prefix, f"{prefix}:")
                yield Token("iri", namespace + _ESCAPED_CHARACTER.sub(r"\1", local_name))
        elif token.kind == "iri":
            iri = absolute(token.text[1:-1], base)
            if declaration == "PREFIX":
                namespaces[declared_prefix] = iri
            elif declaration == "BASE":
                base = iri
            else:
                yield Token("iri", iri)
            declaration = ""
        else:
            declaration = ""
            if token.kind in {"variable", "blank"}:
                # The names of variables and blank nodes make no difference.
                yield _VARIABLE
            else:
                yield token


class _Place(Enum):
    """The place of the next term."""

    SUBJECT = auto()
    PREDICATE = auto()
    PATH_OR_OBJECT = auto()  # After a predicate, its property path may go on.
    OBJECT = auto()
    TRIPLE_END = auto()  # After an object.
    ITEM = auto()  # Of a list, or of the rows of VALUES.
    GRAPH = auto()  # After GRAPH, SERVICE, FROM and NAMED.
    DESCRIBED = auto()  # After DESCRIBE.
    IGNORED = auto()  # IRIs here do not count, as after SELECT.


class _Kind(Enum):
    """The kind of a part of a query."""

    PATTERN = auto()  # Triples, a list, or the whole query.
    FILTER = auto()
    BIND = auto()
    VALUES = auto()


@dataclass(slots=True)
class _Part:
    """A part of a query that has begun and not ended: something in brackets, or an expression."""

    end: str  # The symbol that ends it; "" for an expression and for the whole query.
    place: _Place = _Place.IGNORED
    kind: _Kind = _Kind.PATTERN
    predicates: list[str] = field(default_factory=list)  # In the path of the current triples.
    open_brackets: int = 0  # Round ones, in an expression or a path.
    # The tokens of an expression, without the brackets around it.
    expression: list[Token] = field(default_factory=list)

    @property
    def is_expression(self) -> bool:
        """Whether the part is an expression, which a FILTER, HAVING or BIND has."""
        return self.kind in {_Kind.FILTER, _Kind.BIND}


class _IriCollector:
    """Takes the tokens of a query one by one, and collects IRIs. No text makes it fail.

    Attributes:
        iris: the IRIs so far, by their kind.
    """

    def __init__(self) -> None:
        """Begin before the first token."""
        self.iris: dict[str, set[str]] = {"predicates": set(), "classes": set(), "iris": set()}
        # The parts in which the next token stands, the innermost one last.
        self._parts = [_Part("")]

    def take(self, token: Token) -> None:
        """Take the next token of the query."""
        part = self._parts[-1]
        if part.is_expression:
            self._take_in_expression(part, token)
        elif token.kind == "word":
            self._take_word(part, token.text)
        elif token.kind == "symbol":
            self._take_symbol(part, token.text)
        elif token.kind == "iri":
            self._take_term(part, token.text)
        elif token.kind in {"variable", "literal", "number"}:
            self._take_term(part, None)

    def _take_term(self, part: _Part, iri: str | None) -> None:
        """Take a term, collect it if it is an IRI, and set the place of the next term.

        Args:
            part: the innermost part of the query.
            iri: the IRI; None if the term is something else.
        """
        place = part.place
        if place is _Place.IGNORED:
            return
        if place is _Place.PREDICATE:
            if iri is None:
                part.place = _Place.OBJECT
            else:
                part.predicates.append(iri)
                part.place = _Place.PATH_OR_OBJECT
            return
        if place in {_Place.PATH_OR_OBJECT, _Place.OBJECT}:
            self._add_triple(part.predicates, iri)
            part.place = _Place.TRIPLE_END
            return

        # Here, the term is a subject, or is outside of triples.
        if iri is not None:
            self.iris["iris"].add(iri)
        part.predicates = []
        if place in {_Place.GRAPH, _Place.DESCRIBED}:
            # In the whole query, which has no end, other clauses may follow.
            part.place = _Place.SUBJECT if part.end else _Place.IGNORED
        elif place is not _Place.ITEM:
            part.place = _Place.PREDICATE

    def _add_triple(self, predicates: list[str], object_iri: str | None) -> None:
        """Add the predicates of a triple, and its object, to the collected IRIs.

        After rdf:type, the object is a class. Then rdf:type itself is not added.

        Args:
            predicates: the predicates.
            object_iri: the IRI of the object; None if the object is something else.
        """
        if object_iri is None:
            self.iris["predicates"].update(predicates)
        elif RDF_TYPE in predicates:
            self.iris["predicates"].update(iri for iri in predicates if iri != RDF_TYPE)
            self.iris["classes"].add(object_iri)
        else:
            self.iris["predicates"].update(predicates)
            self.iris["iris"].add(object_iri)

    def _take_symbol(self, part: _Part, symbol: str) -> None:
        """Take a symbol outside of expressions: a bracket, or a mark between terms."""
        if symbol == "{":
            self._open_braces(part)
        elif symbol == "}":
            self._close_braces()
        elif part.place is _Place.IGNORED or _take_symbol_of_path(part, symbol):
            return
        elif symbol == ".":
            part.place = _Place.SUBJECT
        elif symbol == ";":
            part.predicates = []
            part.place = _Place.PREDICATE
        elif symbol == ",":
            part.place = _Place.OBJECT
        elif symbol in _CLOSING_BRACKETS:
            self._open_brackets(symbol)
        elif symbol == part.end:
            self._parts.pop()
            if symbol != "|}":
                # What was in the brackets is a term around them, unlike an annotation in {| |}.
                self._take_term(self._parts[-1], None)

    def _open_brackets(self, symbol: str) -> None:
        """Begin a list, a quoted triple, or the predicates of a blank node."""
        first_place = _Place.PREDICATE
        if symbol == "(":
            first_place = _Place.ITEM
        elif symbol == "<<":
            first_place = _Place.SUBJECT
        self._parts.append(_Part(_CLOSING_BRACKETS[symbol], first_place))

    def _open_braces(self, part: _Part) -> None:
        """Begin the rows of VALUES, or a group of triples in another part."""
        if part.kind is _Kind.VALUES:
            part.place = _Place.ITEM
            return
        if part.end == "":
            # Terms after the group, such as those of ORDER BY, do not count.
            part.place = _Place.IGNORED
        self._parts.append(_Part("}", _Place.SUBJECT))

    def _close_braces(self) -> None:
        """End the innermost part in braces, and all parts inside of it that were not ended."""
        while len(self._parts) > 1:
            ended = self._parts.pop()
            if ended.end == "}":
                break
        outer = self._parts[-1]
        if outer.is_expression:
            if outer.open_brackets == 0:
                # FILTER EXISTS {...} has no brackets around it.
                self._end_expression()
        elif outer.end and outer.place is not _Place.IGNORED:
            outer.place = _Place.SUBJECT

    def _take_word(self, part: _Part, text: str) -> None:
        """Take a keyword outside of expressions, and set the place that the next term has."""
        keyword = text.upper()
        if text == "a" and part.place is _Place.PREDICATE:
            self._take_term(part, RDF_TYPE)
        elif keyword in {"TRUE", "FALSE"}:
            self._take_term(part, None)
        elif keyword in {"FILTER", "HAVING", "BIND"}:
            if part.place is not _Place.IGNORED:
                part.place = _Place.SUBJECT
            kind = _Kind.BIND if keyword == "BIND" else _Kind.FILTER
            self._parts.append(_Part("", kind=kind))
        elif keyword == "VALUES":
            self._parts.append(_Part("}", kind=_Kind.VALUES))
        elif keyword in {"GRAPH", "SERVICE", "FROM", "NAMED"}:
            part.place = _Place.GRAPH
        elif keyword == "SELECT":
            part.place = _Place.IGNORED
        elif keyword == "DESCRIBE":
            part.place = _Place.DESCRIBED

    def _take_in_expression(self, part: _Part, token: Token) -> None:
        """Take a token of a FILTER, HAVING or BIND, which may end it."""
        if token == _OPENING_BRACE:
            self._open_braces(part)
        elif token == _CLOSING_BRACE:
            # The group ends, although the brackets of the expression are open.
            self._end_expression()
            self._close_braces()
        elif token == _OPENING_BRACKET:
            part.open_brackets += 1
            if part.open_brackets > 1:
                part.expression.append(token)
        elif token == _CLOSING_BRACKET:
            part.open_brackets -= 1
            if part.open_brackets > 0:
                part.expression.append(token)
            else:
                self._end_expression()
        else:
            part.expression.append(token)

    def _end_expression(self) -> None:
        """End the expression that is the innermost part.

        If it is a BIND of nothing but an IRI, add the IRI to the collected ones.
        """
        part = self._parts.pop()
        if part.kind is not _Kind.BIND or not part.expression:
            return
        bound, *following = part.expression
        is_one_term = not following or following[0].text.upper() == "AS"
        if bound.kind == "iri" and is_one_term:
            # BIND(ex:a AS ?x) and then ?x in a triple is the same as ex:a in the triple.
            self.iris["iris"].add(bound.text)


def _take_symbol_of_path(part: _Part, symbol: str) -> bool:
    """Take a symbol if it belongs to a property path, as in ``^(ex:a/ex:b)+``.

    Returns:
        whether it does. If not, `part` is unchanged.
    """
    if part.place not in {_Place.PREDICATE, _Place.PATH_OR_OBJECT}:
        return False
    if symbol == ")" and part.open_brackets > 0:
        part.open_brackets -= 1
        part.place = _Place.PATH_OR_OBJECT
        return True
    if part.place is _Place.PREDICATE:
        if symbol == "(":
            part.open_brackets += 1
        return symbol in {"(", "^", "!", "|"}
    if symbol in {"/", "|"}:
        part.place = _Place.PREDICATE
        return True
    return symbol in {"*", "+", "?"}
