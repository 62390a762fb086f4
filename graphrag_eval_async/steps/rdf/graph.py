"""A graph as statements in N-Quads, and how its blank nodes are linked."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What links two nodes, and these nodes.
Link: TypeAlias = "tuple[str, int, int]"

# Strings are matched so that nothing within them is.
# A text without an end takes all that follows, so that its end is looked for only once.
_BLANK = re.compile(r'"(?>(?:[^"\\]++|\\.)*)(?:"|\\?\Z)|(?<!\S)_:(\S+)', re.DOTALL)

_FEW = 16


class Graph:
    """Statements, each once, in the order of the text; immutable."""

    def __init__(self, statements: Sequence[str]) -> None:
        self.statements = statements

    @cached_property
    def nodes(self) -> Nodes:
        """The blank nodes."""
        return Nodes(self.statements)


class Nodes:
    """The blank nodes of statements, and what is said of them.

    A statement of more than two blank nodes, or of two that are not its subject and object, is a node itself,
    linked to each of them.

    Attributes:
        ground: the statements without blank nodes, and how often each occurs.
        names: the label of each node, by its number.
        own: by node, the statements with no other blank node, without its label.
        links: the text of each statement with two blank nodes, without them, and these.
    """

    __slots__ = ("ground", "links", "names", "own")

    def __init__(self, statements: Sequence[str]) -> None:
        self.ground: dict[str, int] = {}
        owned: dict[str, Sequence[str]] = {}
        linked: list[tuple[str, str, str]] = []
        for line in statements:
            if "_:" not in line:
                self.ground[line] = self.ground.get(line, 0) + 1
                continue
            subject, predicate, rest = line.split(" ", 2)
            if subject[0] == "_":
                if rest[0] != "_":
                    if " _:" not in rest:
                        _add(owned, subject, line[len(subject) :])
                        continue
                elif " " not in rest and rest != subject:
                    linked.append((predicate, subject, rest))
                    continue
            elif rest[0] == "_" and " " not in rest:
                _add(owned, rest, line[: -len(rest)])
                continue
            self._add_any(line, owned, linked)
        for _, subject, node in linked:
            owned.setdefault(subject, ())
            owned.setdefault(node, ())
        self.names = list(owned)
        self.own: list[Sequence[str]] = list(owned.values())
        number = {name: index for index, name in enumerate(owned)}
        self.links: list[Link] = [(text, number[one], number[other]) for text, one, other in linked]

    def _add_any(
        self, line: str, owned: dict[str, Sequence[str]], linked: list[tuple[str, str, str]]
    ) -> None:
        """Add a statement with blank nodes anywhere, such as in a triple term."""
        seen: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            return f"_:{seen.setdefault(found[0], len(seen))}" if found[1] else found[0]

        text = _BLANK.sub(numbered, line)
        if len(seen) > 1:
            _add(owned, line, text)
            linked += [(f"{place}", line, node) for node, place in seen.items()]
        elif seen:
            _add(owned, next(iter(seen)), text)
        else:
            self.ground[line] = self.ground.get(line, 0) + 1


def _add(owned: dict[str, Sequence[str]], node: str, text: str) -> None:
    """Add a text to those of a node: a tuple if they are few, since the garbage collector ignores it."""
    known = owned.get(node, ())
    if isinstance(known, list):
        known.append(text)
    else:
        owned[node] = (*known, text) if len(known) < _FEW else [*known, text]


def relabelled(lines: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    """Statements with another label for each blank node in `labels`; all labels start with ``_:``."""
    return [
        _BLANK.sub(lambda found: labels.get(found[0], found[0]), line) if "_:" in line else line
        for line in lines
    ]
