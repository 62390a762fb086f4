"""What a SPARQL query asks for: its form and its elements, read from its tokens without running it.

Elements are the predicates, classes, constants, filters and graphs of a query. Names of variables, prefixes,
white space, comments and spellings of numbers make no difference. What a query selects, groups and sorts is
no element, nor is how its patterns are nested.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.steps.formats.tsv import XSD
from graphrag_eval_async.steps.tokens import (
    FORMS,
    UPDATES,
    Token,
    absolute,
    is_iri,
    number,
    tokens,
    typed,
    unquoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

MAX_DEPTH = 16  # Brackets within more brackets than this make no difference in conditions.

_ESCAPED_NAME = re.compile(r"\\(.)")
_ANY = Token("any", "?")
_COMPARISONS = {"=", "!=", "<", ">", "<=", ">="}
_FLIPPED = {">": "<", ">=": "<="}
_OPERATORS = [*_COMPARISONS, "||", "&&", "+", "-", "*", "/", "!", ","]
_ENDS = {"[": "]", "(": ")", "<<": ">>", "{|": "|}"}


class Query(NamedTuple):
    """A query as its tokens tell."""

    form: str | None  # See `form_of`.
    elements: Counter[tuple[str, str]]  # By kind, and the IRI, literal or normalised expression.
    prefixes: dict[str, str]  # IRIs by prefix, as the query declares them.

    def vocabulary(self) -> dict[str, list[str]]:
        """Return the predicates, classes and other IRIs, each once and sorted."""
        found: dict[str, set[str]] = {"predicates": set(), "classes": set(), "iris": set()}
        keys = {"predicate": "predicates", "class": "classes", "constant": "iris", "graph": "iris"}
        for kind, text in self.elements:
            key = keys.get(kind.removeprefix("template "))
            if key is not None and is_iri(text):
                found[key].add(text)
        return {key: sorted(texts) for key, texts in found.items() if texts}


def read_query(text: str, prefixes: Mapping[str, str] | None = None) -> Query:
    """Read a query, which need not declare `prefixes`; elements of text that is none mean nothing."""
    reader, declared = _Reader(), dict[str, str]()
    for token in _with_literals(_resolved(text, prefixes or {}, declared)):
        reader.take(token)
    return Query(reader.form or None, reader.elements, declared)


def _with_literals(found: Iterator[Token]) -> Iterator[Token]:
    """The same tokens, but each string with its language or datatype as one literal."""
    value, waits = None, False
    for token in chain(found, [Token("end", "")]):
        kind, text = token
        if value is not None:
            if text == "^^":
                waits = True
                continue
            continues = kind == "language" or (waits and kind == "iri")
            suffix = text.lower() if kind == "language" else ""
            literal = typed(value, text) if continues and not suffix else f'"{value}"{suffix}'
            yield Token("literal", literal)
            value, waits = None, False
            if continues:
                continue
        if kind == "string":
            value = unquoted(text)
        else:
            yield token


def _resolved(text: str, known: Mapping[str, str], declared: dict[str, str]) -> Iterator[Token]:
    """The tokens of a query with absolute IRIs where that is known; its declarations are collected."""
    base = declaring = prefix = ""
    for token in tokens(text):
        kind, spelled = token
        if kind == "name":
            prefix, _, local = spelled.partition(":")
            if declaring != "PREFIX":
                namespace = declared.get(prefix, known.get(prefix, f"{prefix}:"))
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
    # What comes next: "subject", "predicate", "path" (more of a path, or an object), "object", "end" of a
    # triple, "item" of a list, "graph", "described", or "nothing" that counts.
    place: str = "nothing"
    label: str = ""  # The kind of element that an expression makes; "values" for the rows of VALUES.
    path: list[str] = field(default_factory=list)  # Predicates of the current triples.
    depth: int = 0  # Round brackets open in an expression or a path.
    levels: list[list[Any]] = field(default_factory=lambda: [[]])  # Items in open brackets.


class _Reader:
    """Takes the tokens of a query one by one, and counts elements. Whatever comes, it never fails."""

    def __init__(self) -> None:
        self.form: str | None = None  # "" once the first word is none of a query.
        self.elements: Counter[tuple[str, str]] = Counter()
        self._stack = [_Frame("")]
        self._is_template = False  # Whether the next group is the template of a CONSTRUCT.
        self._template_depth = 0
        self._is_short = False  # Whether the pattern is the template, too, as after CONSTRUCT WHERE.

    def take(self, token: Token) -> None:
        kind, text = token
        frame = self._stack[-1]
        if frame.label in {"filter", "bind"}:
            self._in_expression(frame, kind, text)
        elif kind == "word":
            self._word(frame, text)
        elif kind == "symbol":
            self._symbol(frame, text)
        elif kind in {"any", "iri", "literal", "number"}:
            self._term(frame, None if kind == "any" else number(text) if kind == "number" else text)

    def _add(self, kind: str, text: str) -> None:
        if self._template_depth or self._is_short:
            self.elements[f"template {kind}", text] += 1
        if not self._template_depth:
            self.elements[kind, text] += 1

    def _term(self, frame: _Frame, text: str | None) -> None:
        """Take a term: the text of an IRI or a literal, None of anything else."""
        place, frame.place = frame.place, "predicate"
        if place == "predicate":
            frame.path += [] if text is None else [text]
            frame.place = "object" if text is None else "path"
        elif place in {"path", "object"}:
            is_typed = RDF_TYPE in frame.path and text is not None and is_iri(text)
            for predicate in frame.path:
                if not is_typed or predicate != RDF_TYPE:
                    self._add("predicate", predicate)
            if text is not None:
                self._add("class" if is_typed else "constant", text)
            frame.place = "end"
        elif place == "nothing":
            frame.place = place
        else:
            if text is not None:
                self._add("graph" if place == "graph" else "constant", text)
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
        if self._is_template:
            self._is_template, self._template_depth = False, len(self._stack)
        self._stack.append(_Frame("}", "subject"))

    def _close(self) -> None:
        while len(self._stack) > 1 and self._stack.pop().end != "}":
            pass
        if self._template_depth >= len(self._stack):
            self._template_depth = 0
        outer = self._stack[-1]
        if outer.label in {"filter", "bind"}:
            if not outer.depth:
                self._end_expression()
        elif outer.end and outer.place != "nothing":
            outer.place = "subject"

    def _word(self, frame: _Frame, text: str) -> None:
        word = text.upper()
        if self.form is None and word != "VERSION":
            self.form = word if word in FORMS else "UPDATE" if word in UPDATES else ""
            self._is_template = word == "CONSTRUCT"
        if text == "a" and frame.place == "predicate":
            self._term(frame, RDF_TYPE)
        elif word in {"TRUE", "FALSE"}:
            self._term(frame, typed(word.lower(), f"{XSD}boolean"))
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
        elif word == "WHERE":
            self._is_short, self._is_template = self._is_short or self._is_template, False

    def _in_expression(self, frame: _Frame, kind: str, text: str) -> None:
        level = frame.levels[-1]
        if kind == "symbol" and text == "{":
            self._open(frame)
        elif kind == "symbol" and text == "}":
            self._end_expression()
            self._close()
        elif kind == "symbol" and text in "()":
            frame.depth += 1 if text == "(" else -1
            if text == "(" and frame.depth <= MAX_DEPTH:
                level.append([])
                frame.levels.append(level[-1])
            del frame.levels[max(frame.depth, 0) + 1 :]
            if frame.depth <= 0:
                self._end_expression()
        elif kind == "number":
            if text[0] in "+-" and level and level[-1] not in _OPERATORS:  # It is no sign.
                level.append(text[0])
                text = text[1:]
            level.append(number(text))
        else:
            level.append(text.upper() if kind == "word" else text)

    def _end_expression(self) -> None:
        frame = self._stack.pop()
        [items] = _operands(frame.levels[0], "")
        if frame.label == "bind":
            items = items[: -2 if items[-2:-1] == ["AS"] else None]
            if len(items) == 1 and items[0] != "?" and isinstance(items[0], str):
                self._add("constant", items[0])  # As it might stand in a triple.
                return
        for condition in _operands(items, "&&"):
            if condition:
                self._add(frame.label, _condition(condition))


def _condition(items: list[Any]) -> str:
    """An expression in one spelling, whatever the order of its operands.

    Operands of ``||``, ``&&``, ``=`` and ``!=`` are sorted; ``>`` and ``>=`` are written as ``<`` and ``<=``;
    the rest is its tokens without brackets, sorted unless there is a ``-``, a ``/`` or a list of arguments.
    """
    for operator in ("||", "&&"):
        operands = _operands(items, operator)
        if len(operands) > 1:
            return f"( {f' {operator} '.join(sorted(map(_condition, operands)))} )"
    [items] = operands
    if len(items) == 2 and items[0] == "!" and isinstance(items[1], list):
        return f"! {_condition(items[1])}"
    places = [place for place, item in enumerate(items) if isinstance(item, str) and item in _COMPARISONS]
    if len(places) != 1:
        parts = _flat(items)
        is_ordered = not {"-", "/"}.isdisjoint(parts) or ("," in parts and "IN" not in parts)
        return " ".join(parts if is_ordered else sorted(parts))
    [place] = places
    sides = [_condition(side) for side in (items[:place], items[place + 1 :])]
    if items[place] in _FLIPPED:
        sides.reverse()
    elif items[place] in {"=", "!="}:
        sides.sort()
    return f"( {sides[0]} {_FLIPPED.get(items[place], items[place])} {sides[1]} )"


def _operands(items: list[Any], operator: str) -> list[list[Any]]:
    """The operands of ``||`` or ``&&``, also those in brackets; the whole expression if it has none."""
    if len(items) == 1 and isinstance(items[0], list):
        return _operands(items[0], operator)
    if operator not in items or (operator == "&&" and "||" in items):
        return [items]
    found: list[list[Any]] = [[]]
    for item in items:
        if item == operator:
            found.append([])
        else:
            found[-1].append(item)
    return [each for own in found for each in _operands(own, operator)]


def _flat(items: list[Any]) -> list[str]:
    return [token for item in items for token in (_flat(item) if isinstance(item, list) else [item])]
