"""What a comparison returns, and the differences in it that results list."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Difference: TypeAlias = dict[str, Any]
"""A JSON object that describes a difference; its `kind` is one of `KINDS`."""

PairedColumns: TypeAlias = dict[str, str]
"""The name of a column of an actual table by that of the reference column it is paired with."""

KINDS = (
    "missing_column",
    "missing_row",
    "extra_row",
    "wrong_value",
    "missing_triple",
    "extra_triple",
    "missing_value",
    "extra_value",
    "wrong_arg",
)
"""All kinds of differences."""

MAX_DIFFERENCES = 10
"""Maximum number of differences in the `diff` of a step."""

MAX_TEXT = 200
"""Maximum characters kept of a value."""

MAX_CELLS = 20
"""Maximum number of cells kept of a row, and of pairs of columns."""


class Agreement(NamedTuple):
    """How far an actual output agrees with the reference."""

    score: float
    """From 0 to 1."""

    reason: str | None = None
    """Why the score is below 1, one of `failure.CLASSES`; None if that is not known."""

    differences: Sequence[Difference] = ()
    """Differences of outputs that are compared with partial credit, or of arguments."""

    shares: tuple[float, ...] = ()
    """`VALUES`, of outputs that are compared as sets of values."""

    detail: str | None = None
    """What explains a score below 1, for `failure_detail`; None if nothing does."""

    paired_columns: PairedColumns | None = None
    """The columns of tables that are paired; None if all of them have the same names."""


def describe_pairs(partners: Mapping[str, str]) -> PairedColumns | None:
    """Return pairs of columns for a result; None if in each pair both columns have the same name.

    Names are shortened, and of many pairs, the first `MAX_CELLS` are returned: those whose names
    differ come first.

    Args:
        partners: the name of the actual column by that of the reference column.
    """
    if all(name == partner for name, partner in partners.items()):
        return None
    pairs = sorted(partners.items(), key=lambda pair: pair[0] == pair[1])
    return {str(shorten(name)): str(shorten(partner)) for name, partner in pairs[:MAX_CELLS]}


def first_of_each(*differences_by_kind: Iterable[Difference]) -> list[Difference]:
    """Return at most `MAX_DIFFERENCES` differences, chosen from all kinds in turn.

    First, the first difference of each kind is chosen, then the second of each kind, and so on. The
    result is sorted by kind: it begins with all chosen differences of the first kind.
    """
    candidates_by_kind = [
        list(islice(differences, MAX_DIFFERENCES)) for differences in differences_by_kind
    ]
    taken_by_kind: list[list[Difference]] = [[] for _ in candidates_by_kind]
    count = 0
    for rank in range(MAX_DIFFERENCES):
        for candidates, taken in zip(candidates_by_kind, taken_by_kind, strict=True):
            if rank < len(candidates) and count < MAX_DIFFERENCES:
                taken.append(candidates[rank])
                count += 1
    return list(chain.from_iterable(taken_by_kind))


def shorten(text: str | None) -> str | None:
    """Return a text, cut to `MAX_TEXT` characters and an ellipsis if it is longer.

    None is returned as it is.
    """
    if text is None or len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}…"
