"""Differences between an expected and an actual output, listed in results for steps with partial credit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Difference: TypeAlias = dict[str, Any]
"""A JSON object; its `kind` is one of `KINDS`."""

KINDS = (
    "missing_column",
    "missing_row",
    "extra_row",
    "wrong_value",
    "missing_triple",
    "extra_triple",
)

MAX_DIFFERENCES = 10
"""Maximum number of differences in the `diff` of a step."""

MAX_TEXT = 200
"""Maximum characters kept of a value."""

MAX_CELLS = 20
"""Maximum number of cells kept of a row."""


def first_of_each(*kinds: Iterable[Difference]) -> list[Difference]:
    """Return up to `MAX_DIFFERENCES`, as many of each kind as of the others where there are so many.

    They keep their order, those of one kind together.
    """
    kept: list[list[Difference]] = [[] for _ in kinds]
    sources: list[tuple[list[Difference], Iterator[Difference]]] = [
        (own, iter(each)) for own, each in zip(kept, kinds, strict=True)
    ]
    free = MAX_DIFFERENCES
    while free and sources:
        for source in [*sources][:free]:
            own, each = source
            difference = next(each, None)
            if difference is None:
                sources.remove(source)
            else:
                own.append(difference)
                free -= 1
    return [difference for own in kept for difference in own]


def shorten(text: str | None) -> str | None:
    """The text, or its first `MAX_TEXT` characters and an ellipsis; None if there is none."""
    return text if text is None or len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
