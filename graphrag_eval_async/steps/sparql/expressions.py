"""Normalises the expressions of SPARQL queries, so that those that only swap operands are equal.

Comparisons are written with `<` and `<=`. Operands of `=`, `!=`, `&&`, `||`, `+` and `*`, and the values of
IN, are sorted, and those of nested `&&`, `||`, `+` and `*` are joined. Brackets that change nothing are left
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MAX_DEPTH = 64
"""Expressions in more brackets than this are left as they are."""

_COMPARISONS = {"=", "!=", "<", ">", "<=", ">="}
_FLIPPED = {">": "<", ">=": "<="}
_OPERATORS = _COMPARISONS | {"||", "&&", "+", "-", "*", "/", "!", ","}


class _Node(NamedTuple):
    """An expression: its operator, "" for a single term, and its operands."""

    operator: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        if not self.operator:
            return self.operands[0]
        joined = f" {self.operator} ".join(self.operands)
        return f"( {joined} )"


_Items: TypeAlias = "list[str | _Node]"


def conditions(parts: Sequence[str]) -> Collection[str]:
    """Return the operands of ``&&`` in an expression, normalised; the whole expression if it has none."""
    node = _parsed(parts)
    if node is None:
        return [" ".join(parts)]
    return node.operands if node.operator == "&&" else [node.text]


def _parsed(parts: Sequence[str]) -> _Node | None:
    """The expression; None if its brackets are not balanced, or too deep."""
    levels: list[_Items] = [[]]
    for part in parts:
        if part == "(":
            levels.append([])
        elif part != ")":
            levels[-1].append(part)
            continue
        elif len(levels) == 1:
            return None
        else:
            _close(levels[-2], levels.pop())
        if len(levels) > MAX_DEPTH:
            return None
    return _any(levels[0]) if len(levels) == 1 else None


def _close(outer: _Items, inner: _Items) -> None:
    """Add what was in brackets to what is around them: the arguments of a function, or an expression."""
    before = outer[-1] if outer else "("
    if before in _OPERATORS or before == "(":
        outer.append(_any(inner))
        return
    arguments = [_any(each).text for each in _split(inner, {","})[0]]
    if before == "IN":
        arguments.sort()
    outer.append(_Node("", (f"( {' , '.join(arguments)} )",)))


def _split(items: _Items, operators: Collection[str]) -> tuple[list[_Items], list[str]]:
    """What is between operators, and the operators."""
    found: list[_Items] = [[]]
    between = []
    for item in items:
        if isinstance(item, str) and item in operators:
            between.append(item)
            found.append([])
        else:
            found[-1].append(item)
    return found, between


def _any(items: _Items) -> _Node:
    operands, _ = _split(items, {"||"})
    return _joined("||", [_all(each) for each in operands])


def _all(items: _Items) -> _Node:
    operands, _ = _split(items, {"&&"})
    return _joined("&&", [_comparison(each) for each in operands])


def _comparison(items: _Items) -> _Node:
    operands, operators = _split(items, _COMPARISONS)
    if len(operators) != 1:
        return _sum(items)
    [operator] = operators
    texts = [_sum(each).text for each in operands]
    if operator in _FLIPPED:
        texts.reverse()
    elif operator in {"=", "!="}:
        texts.sort()
    return _Node(_FLIPPED.get(operator, operator), tuple(texts))


def _sum(items: _Items) -> _Node:
    operands, operators = _split(items, {"+", "-"})
    if not operands[0] and operators:  # A sign.
        operands = operands[1:]
    else:
        operators = ["+", *operators]
    return _chain("+", [_product(each) for each in operands], operators)


def _product(items: _Items) -> _Node:
    operands, operators = _split(items, {"*", "/"})
    return _chain("*", [_term(each) for each in operands], ["*", *operators])


def _term(items: _Items) -> _Node:
    if len(items) == 1 and isinstance(items[0], _Node):
        return items[0]
    return _Node("", (" ".join(item if isinstance(item, str) else item.text for item in items),))


def _joined(operator: str, nodes: list[_Node]) -> _Node:
    """The nodes as operands of an operator for which neither order nor brackets matter."""
    if len(nodes) == 1:
        return nodes[0]
    texts = [text for node in nodes for text in (node.operands if node.operator == operator else [node.text])]
    return _Node(operator, tuple(sorted(texts)))


def _chain(operator: str, nodes: list[_Node], operators: list[str]) -> _Node:
    """The same for `+` and `*`, where some operands have the inverse operator in front of them."""
    if len(nodes) == 1 and operators == [operator]:
        return nodes[0]
    texts: list[str] = []
    for own, node in zip(operators, nodes, strict=True):
        if own == operator == node.operator:
            texts += node.operands
        else:
            texts.append(f"{own} {node.text}")
    return _Node(operator, tuple(sorted(texts)))
