"""Which span is above which."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.traces.spans import Span


class Tree:
    """Finds parents among some spans."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans: dict[tuple[str, str], Span] = {}
        for span in spans:
            if span.span_id is not None:
                self._spans.setdefault((span.trace_id, span.span_id), span)

    def parent(self, span: Span) -> Span | None:
        """The parent of a span; None if it is not there."""
        return None if span.parent_id is None else self._spans.get((span.trace_id, span.parent_id))


class Nearest:
    """Finds the nearest span of some kind, in linear time for all spans together."""

    def __init__(self, tree: Tree, is_meant: Callable[[Span], bool]) -> None:
        self._tree = tree
        self._is_meant = is_meant
        self._found: dict[Span, Span | None] = {}

    def from_here(self, span: Span | None) -> Span | None:
        """The span itself, if it is meant, or the nearest above it; parents in a circle end the search."""
        path: list[Span] = []
        while span is not None and span not in self._found:
            self._found[span] = span if self._is_meant(span) else None
            path.append(span)
            span = None if self._found[span] is not None else self._tree.parent(span)
        found = self._found[span] if span is not None else self._found[path[-1]] if path else None
        for passed in path:
            self._found[passed] = found
        return found

    def above(self, span: Span) -> Span | None:
        """The nearest above a span."""
        return self.from_here(self._tree.parent(span))
