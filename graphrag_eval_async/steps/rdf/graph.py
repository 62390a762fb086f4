"""A graph as statements in N-Quads, and how its blank nodes are linked."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Text of a statement with its blank nodes numbered by first appearance, and these nodes in that order.
Link: TypeAlias = "tuple[str, tuple[int, ...]]"

# Strings are matched so that nothing within them is.
_BLANK = re.compile(r'"(?:[^"\\]++|\\.)*+"|(?<!\S)_:(\S+)')


class Graph:
    """Statements, each once, in the order of the text; immutable.

    Attributes:
        statements: the statements as in N-Quads, without the final dot.
        text: the statements, one a line.
    """

    __slots__ = ("_indexed", "statements", "text")

    def __init__(self, text: str) -> None:
        """Take N-Quads as the parser writes them."""
        lines = dict.fromkeys(text.split(" .\n"))
        lines.pop("", None)
        self.statements: Sequence[str] = list(lines)
        self.text = text
        self._indexed: Nodes | None = None

    def nodes(self) -> Nodes:
        """The blank nodes; cached."""
        if self._indexed is None:
            self._indexed = Nodes(self.statements)
        return self._indexed


class Nodes:
    """The blank nodes of statements, and what is said of them.

    Attributes:
        ground: the statements without blank nodes, and how often each occurs.
        names: the label of each node, by its number.
        own: by node, the statements with no other blank node, without its label.
        links: the statements with several blank nodes.
    """

    __slots__ = ("_numbers", "ground", "links", "names", "own")

    def __init__(self, statements: Sequence[str]) -> None:
        blank = [line for line in statements if "_:" in line]
        self.ground: Counter[str] = Counter(
            statements if not blank else [line for line in statements if "_:" not in line]
        )
        self._numbers: dict[str, int] = {}
        self.own: list[list[str]] = []
        self.links: list[Link] = []
        for line in blank:
            self._add(line)
        self.names = list(self._numbers)

    def _add(self, line: str) -> None:
        subject, predicate, rest = line.split(" ", 2)
        if subject[0] == "_":
            if " _:" not in rest and rest[0] != "_":
                self.own[self._number(subject)].append(line[len(subject) :])
                return
            if " " not in rest:
                nodes = self._number(subject), self._number(rest)
                if nodes[0] == nodes[1]:
                    self.own[nodes[0]].append(predicate)
                else:
                    self.links.append((predicate, nodes))
                return
        elif rest[0] == "_" and " " not in rest:
            self.own[self._number(rest)].append(line[: -len(rest)])
            return
        self._add_any(line)

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.own)
            self.own.append([])
        return number

    def _add_any(self, line: str) -> None:
        """Add a statement with blank nodes anywhere, such as in a triple term."""
        seen: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            if not found[1]:
                return found[0]
            return f"_:{seen.setdefault(f'_:{found[1]}', len(seen))}"

        template = _BLANK.sub(numbered, line)
        nodes = tuple(map(self._number, seen))
        if not nodes:
            self.ground[line] += 1
        elif len(nodes) == 1:
            self.own[nodes[0]].append(template)
        else:
            self.links.append((template, nodes))


def relabelled(line: str, label: Callable[[str], str]) -> str:
    """A statement with another label for each blank node; labels start with ``_:``."""
    if "_:" not in line:
        return line
    return _BLANK.sub(lambda found: label(found[0]) if found[1] else found[0], line)


def relabelled_all(lines: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    """Statements with another label for each blank node in `labels`."""
    return [relabelled(line, lambda name: labels.get(name, name)) for line in lines]
