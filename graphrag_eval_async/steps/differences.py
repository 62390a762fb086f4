"""What a comparison returns, and the differences in it that results list."""

from __future__ import annotations

from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Difference: TypeAlias = dict[str, Any]  # A JSON object; its `kind` is one of `KINDS`.

KINDS = (
    *(
        "missing_column",
        "missing_row",
        "extra_row",
        "wrong_value",
        "missing_triple",
        "extra_triple",
    ),
    *("missing_value", "extra_value", "wrong_arg"),
)

MAX_DIFFERENCES = 10  # Maximum number of differences in the `diff` of a step.
MAX_TEXT = 200  # Maximum characters kept of a value.
MAX_CELLS = 20  # Maximum number of cells kept of a row.


class Agreement(NamedTuple):
    """How far an actual output agrees with the reference."""

    score: float  # From 0 to 1.
    reason: str | None = None  # Why it is below 1, of `failure.CLASSES`; None if that is not known.
    differences: Sequence[Difference] = ()  # With partial credit, or of arguments.
    shares: tuple[float, ...] = ()  # `VALUES`, of sets of values.


def first_of_each(*kinds: Iterable[Difference]) -> list[Difference]:
    """Return up to `MAX_DIFFERENCES`, as many of each kind if there are so many, each in its
    order.
    """
    firsts = [[*islice(each, MAX_DIFFERENCES)] for each in kinds]
    ranks = sorted((rank, kind) for kind, own in enumerate(firsts) for rank in range(len(own)))
    return [firsts[kind][rank] for rank, kind in sorted(ranks[:MAX_DIFFERENCES], key=itemgetter(1))]


def shorten(text: str | None) -> str | None:
    """The text, or its first `MAX_TEXT` characters and an ellipsis; None if there is none."""
    return text if text is None or len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
