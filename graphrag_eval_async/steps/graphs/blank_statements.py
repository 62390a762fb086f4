"""Statements in N-Quads, and the blank nodes in them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LITERAL_OR_BLANK_NODE = re.compile(
    # A literal without an end takes all that follows, so that its end is looked for only once.
    r'"(?>(?:[^"\\]++|\\.)*)(?:"|\\?\Z)'
    r"|(?<!\S)_:(?P<label>\S+)",
    re.DOTALL,
)
"""A literal, so that nothing within it is taken for a blank node; or a blank node."""


class SplitStatement(NamedTuple):
    """A statement apart from its blank nodes."""

    text: str
    """The statement with a placeholder for each blank node, or without them.

    Statements that differ only in their blank nodes have the same text.
    """

    nodes: tuple[str, ...]
    """The blank nodes, each once, as they are written: ``_:`` and a label."""


class Link(NamedTuple):
    """A statement about two nodes: two blank nodes, or a statement and a blank node in it."""

    text: str
    subject: str
    target: str


class SortedStatements:
    """The statements of a graph, sorted by the number of their blank nodes.

    Attributes:
        ground: statements without blank nodes.
        texts_by_node: for each node, the texts of the statements about it alone. A statement of
            more than two blank nodes counts as a node itself, and has its own text there.
        links: statements about two nodes.
    """

    def __init__(self, statements: Iterable[str]) -> None:
        """Sort statements in N-Quads."""
        self.ground: list[str] = []
        self.texts_by_node: dict[str, list[str]] = defaultdict(list)
        self.links: list[Link] = []
        for statement in statements:
            if "_:" in statement:
                self._add(statement)
            else:
                self.ground.append(statement)
        # All nodes must be keys, also those without a statement about them alone.
        for link in self.links:
            self.texts_by_node.setdefault(link.subject, [])
            self.texts_by_node.setdefault(link.target, [])

    def _add(self, statement: str) -> None:
        """Add a statement to `ground`, `texts_by_node` or `links`, by its number of blank nodes."""
        text, nodes = split_statement(statement)
        if not nodes:
            self.ground.append(statement)
        elif len(nodes) == 1:
            self.texts_by_node[nodes[0]].append(text)
        elif len(nodes) == 2:
            self.links.append(Link(text, *nodes))
        else:
            # Colour refinement needs links between two nodes, so the statement becomes a node.
            self.texts_by_node[statement].append(text)
            for place, node in enumerate(nodes):
                self.links.append(Link(str(place), statement, node))


def split_statement(statement: str) -> SplitStatement:
    """Split a statement in N-Quads into its text and its blank nodes.

    For example, ``_:a <p> <x>`` has the text `` <p> <x>`` and the node ``_:a``.
    """
    subject, predicate, rest = statement.split(" ", 2)
    if " _:" not in rest:
        # No blank node names the graph, and no literal contains anything like a blank node. So the
        # usual forms are distinguished without a pattern, which is quicker.
        is_blank_subject = subject[0] == "_"
        is_blank_object = rest[0] == "_"
        if not is_blank_object:
            if is_blank_subject:
                return SplitStatement(statement[len(subject) :], (subject,))
            return SplitStatement(statement, ())
        is_in_default_graph = " " not in rest
        if is_in_default_graph and not is_blank_subject:
            return SplitStatement(statement[: -len(rest)], (rest,))
        if is_in_default_graph and subject != rest:
            return SplitStatement(predicate, (subject, rest))

    # All other forms: each blank node is replaced by its number.
    number_by_node: dict[str, int] = {}

    def replace_node(match: re.Match[str]) -> str:
        """Return the placeholder for a blank node, and add the node to `number_by_node`."""
        if match["label"] is None:
            # A literal stays as it is.
            return match[0]
        number = number_by_node.setdefault(match[0], len(number_by_node))
        return f"_:{number}"

    text = _LITERAL_OR_BLANK_NODE.sub(replace_node, statement)
    return SplitStatement(text, tuple(number_by_node))


def relabelled(statements: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    """Return statements in which blank nodes have new labels.

    Args:
        statements: the statements, in N-Quads.
        labels: the new label of a blank node by its old label, both with ``_:``. Blank nodes that
            are not in it keep their labels.
    """

    def replace_label(match: re.Match[str]) -> str:
        """Return the new label of a blank node. Literals, and all other nodes, are kept."""
        return labels.get(match[0], match[0])

    relabelled_statements = []
    for statement in statements:
        if "_:" in statement:
            statement = _LITERAL_OR_BLANK_NODE.sub(replace_label, statement)
        relabelled_statements.append(statement)
    return relabelled_statements
