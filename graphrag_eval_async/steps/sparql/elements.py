"""Finds the elements of a SPARQL query in its tokens; see `steps.sparql.query`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from graphrag_eval_async.steps.formats.tsv import XSD
from graphrag_eval_async.steps.sparql.expressions import conditions
from graphrag_eval_async.steps.sparql.terms import (
    is_iri,
    is_operand,
    number,
    resolved,
    stripped,
    typed,
    unquoted,
)
from graphrag_eval_async.steps.sparql.tokens import FORMS, UPDATES, Token

if TYPE_CHECKING:
    from collections.abc import Mapping

Element: TypeAlias = tuple[str, str]
"""The kind of an element and its text: of an IRI the IRI itself, of a filter the normalised expression."""

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@dataclass(slots=True)
class _Frame:
    """Something in brackets.

    Attributes:
        kind: "group"; "node", a blank node; "list", a collection; "triple", a quoted triple; "expression";
            "data", the rows of VALUES; "head", the text before a group.
        place: what comes next: "subject", "predicate", "path" (more of a path, or an object), "object", "end"
            of a triple, "graph", or "nothing" that counts.
        path: predicates of the current triples.
        depth: round brackets open in an expression, a path or a head.
        parts: normalised tokens of an expression.
        label: kind of the element that the expression makes.
    """

    kind: str
    place: str = "nothing"
    label: str = ""
    path: list[str] = field(default_factory=list)
    depth: int = 0
    parts: list[str] = field(default_factory=list)


class ElementReader:
    """Takes the tokens of a query one by one. Whatever comes, it never fails."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self.form: str | None = None
        self.elements: Counter[Element] = Counter()
        self.declared: dict[str, str] = {}
        self._known = prefixes
        self._base = ""
        self._stack = [_Frame("root")]
        self._template = False  # Whether the next group is the template of a CONSTRUCT.
        self._in_template = 0
        self._is_short = False  # Whether the pattern is the template, too, as after CONSTRUCT WHERE.
        self._declaring: str | None = None
        self._literal: str | None = None  # A string that a language or a datatype may follow.
        self._waits_for_type = False

    def take(self, token: Token) -> None:
        if self._declares(token) or self._continues_literal(token):
            return
        kind, text = token
        frame = self._stack[-1]
        if frame.kind == "expression":
            self._in_expression(frame, token)
        elif kind == "word":
            self._word(frame, text.upper(), text)
        elif kind == "symbol":
            self._symbol(frame, text)
        elif kind in {"variable", "blank"}:
            self._term(frame, None)
        elif kind in {"iri", "name"}:
            self._term(frame, self._iri(token))
        elif kind == "number":
            self._term(frame, number(text))
        elif kind == "string":
            self._literal = unquoted(text)

    def _declares(self, token: Token) -> bool:
        """Whether a token belongs to a declaration of a prefix or the base."""
        if self._declaring is None:
            if self.form is None and token.is_word("PREFIX", "BASE"):
                self._declaring = "" if token.is_word("PREFIX") else "BASE"
                return True
            return False
        if token.kind == "name" and self._declaring != "BASE":
            self._declaring = token.text
            return True
        if token.kind == "iri":
            iri = self._iri(token)
            if self._declaring == "BASE":
                self._base = iri
            else:
                self.declared[self._declaring.partition(":")[0]] = iri
        self._declaring = None
        return token.kind == "iri"

    def _continues_literal(self, token: Token) -> bool:
        """Whether a token is the language or the datatype of a string; if not, the string was complete."""
        if self._literal is None:
            return False
        if token == ("symbol", "^^"):
            self._waits_for_type = True
            return True
        text, self._literal = self._literal, None
        waits, self._waits_for_type = self._waits_for_type, False
        literal, continues = f'"{text}"', False
        if token.kind == "language":
            literal, continues = f"{literal}{token.text.lower()}", True
        elif waits and token.kind in {"iri", "name"}:
            literal, continues = typed(text, self._iri(token)), True
        self._value(literal)
        return continues

    def _value(self, literal: str) -> None:
        frame = self._stack[-1]
        if frame.kind == "expression":
            frame.parts.append(literal)
        else:
            self._term(frame, literal)

    def _iri(self, token: Token) -> str:
        """The IRI that a token stands for; of an unknown prefix, what was written."""
        if token.kind == "iri":
            return resolved(token.text[1:-1], self._base)
        prefix, _, local = token.text.partition(":")
        local = re.sub(r"\\(.)", r"\1", local)
        namespace = self.declared.get(prefix, self._known.get(prefix))
        return f"{prefix}:{local}" if namespace is None else namespace + local

    def _add(self, kind: str, text: str) -> None:
        if self._in_template or self._is_short:
            self.elements[f"template {kind}", text] += 1
        if not self._in_template:
            self.elements[kind, text] += 1

    # Triples

    def _term(self, frame: _Frame, text: str | None) -> None:
        """Take a term: the text of an IRI or a literal, None of anything else."""
        if frame.place == "predicate":
            if text is None:  # A variable.
                frame.path, frame.place = [], "object"
            else:
                frame.path.append(text)
                frame.place = "path"
            return
        if frame.place in {"object", "path"}:
            self._object(frame, text)
        elif frame.place in {"graph", "constant"}:
            if text is not None:
                self._add(frame.place, text)
            frame.place = "nothing" if frame.kind == "root" else "subject"
        elif frame.place in {"subject", "end", "item"}:
            if text is not None:
                self._add("constant", text)
            frame.place = "item" if frame.place == "item" else "predicate"
            frame.path = []

    def _object(self, frame: _Frame, text: str | None) -> None:
        is_typed = RDF_TYPE in frame.path and is_iri(text)
        for predicate in frame.path:
            if not is_typed or predicate != RDF_TYPE:
                self._add("predicate", predicate)
        if text is not None:
            self._add("class" if is_typed else "constant", text)
        frame.place = "end"

    def _symbol(self, frame: _Frame, text: str) -> None:  # noqa: C901  (a table of brackets)
        if text in "{}":
            self._brace(frame, text)
        elif frame.kind == "head" or frame.place == "nothing":
            frame.depth += {"(": 1, ")": -1}.get(text, 0)
        elif frame.place in {"predicate", "path"} and self._continues_path(frame, text):
            pass
        elif text == ".":
            frame.place = "subject"
        elif text == ";":
            frame.path, frame.place = [], "predicate"
        elif text == ",":
            frame.place = "object"
        elif text == "[":
            self._stack.append(_Frame("node", "predicate"))
        elif text == "(":
            self._stack.append(_Frame("list", "item"))
        elif text in {"<<", "{|"}:
            self._stack.append(_Frame("triple", "subject" if text == "<<" else "predicate"))
        elif frame.kind == {"]": "node", ")": "list", ">>": "triple", "|}": "triple"}.get(text):
            self._stack.pop()
            if text != "|}":
                self._term(self._stack[-1], None)

    def _continues_path(self, frame: _Frame, text: str) -> bool:
        """Whether a symbol belongs to a property path."""
        if frame.place == "path":
            if text == ")" and frame.depth:
                frame.depth -= 1
            elif text in {"/", "|"}:
                frame.place = "predicate"
            else:
                return text in {"*", "+", "?"}
            return True
        if text == ")" and frame.depth:  # Of `!()`.
            frame.depth, frame.place = frame.depth - 1, "path"
            return True
        frame.depth += text == "("
        return text in {"(", "^", "!", "|"}

    def _brace(self, frame: _Frame, text: str) -> None:
        if text == "{":
            if frame.kind == "head" and not frame.depth:
                self._stack.pop()
            if frame.kind == "data":
                frame.place = "item"
                return
            group = _Frame("group", "subject")
            if self._template:
                self._template, self._in_template = False, len(self._stack)
            self._stack.append(group)
            return
        if frame.kind == "data":
            self._stack.pop()
            return
        groups = (i for i in range(len(self._stack) - 1, 0, -1) if self._stack[i].kind == "group")
        del self._stack[next(groups, 1) :]
        if self._in_template >= len(self._stack):
            self._in_template = 0
        outer = self._stack[-1]
        if outer.kind == "group":
            outer.place = "subject"
        elif outer.kind == "expression" and not outer.depth:
            self._end_expression()

    # Keywords

    def _word(self, frame: _Frame, word: str, text: str) -> None:  # noqa: C901  (a table of keywords)
        if self.form is None and frame.kind == "root" and (word in FORMS or word in UPDATES):
            self.form = word if word in FORMS else "UPDATE"
            self._template = word == "CONSTRUCT"
            frame.place = "constant" if word == "DESCRIBE" else "nothing"
            if word == "SELECT":
                self._stack.append(_Frame("head"))
        elif text == "a" and frame.place == "predicate":
            self._term(frame, RDF_TYPE)
        elif word in {"TRUE", "FALSE"}:
            self._term(frame, f'"{word.lower()}"^^{XSD}boolean')
        elif word in {"FILTER", "HAVING", "BIND"}:
            frame.place = "nothing" if word == "HAVING" or frame.kind == "root" else "subject"
            self._stack.append(_Frame("expression", label="bind" if word == "BIND" else "filter"))
        elif word == "VALUES":
            self._stack.append(_Frame("data"))
        elif word in {"GRAPH", "SERVICE", "FROM", "NAMED"}:
            if frame.kind == "head":
                self._stack.pop()
            self._stack[-1].place = "graph"
        elif word == "SELECT":
            self._stack.append(_Frame("head"))
        elif word == "WHERE":
            self._is_short = self._is_short or self._template
            self._template = False
            if frame.kind == "head" and not frame.depth:
                self._stack.pop()
        elif word in {"GROUP", "ORDER", "LIMIT", "OFFSET"}:
            frame.place = "nothing"

    # Expressions

    def _in_expression(self, frame: _Frame, token: Token) -> None:
        kind, text = token
        if text == "{" and kind == "symbol":
            self._brace(frame, text)
        elif text == "}" and kind == "symbol":
            self._end_expression()
            self._brace(self._stack[-1], text)
        elif kind == "symbol" and text in "()":
            frame.parts.append(text)
            frame.depth += 1 if text == "(" else -1
            if frame.depth <= 0:
                self._end_expression()
        elif kind == "string":
            self._literal = unquoted(text)
        elif kind == "number" and text[0] in "+-" and frame.parts and is_operand(frame.parts[-1]):
            frame.parts += [text[0], number(text[1:])]
        else:
            frame.parts.append(self._normalised(token))

    def _normalised(self, token: Token) -> str:
        kind, text = token
        if kind == "variable":
            return "?"
        if kind in {"iri", "name"}:
            return self._iri(token)
        return number(text) if kind == "number" else text.upper() if kind == "word" else text

    def _end_expression(self) -> None:
        frame = self._stack.pop()
        parts = stripped(frame.parts)
        if frame.label == "bind":
            parts = parts[: -2 if parts[-2:-1] == ["AS"] else None]
            if len(parts) == 1 and parts[0] != "?":  # A constant, as it might stand in a triple.
                self._add("constant", parts[0])
                return
        for condition in filter(None, conditions(parts)):
            self._add(frame.label, condition)
