"""Which templates the screen shows, and in which order: what the keys of `watch` choose."""

from __future__ import annotations

import re
from itertools import accumulate, takewhile
from math import fsum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.monitor.counting import SCORES
from graphrag_eval_async.records.metrics import mean_of_questions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BOTTOM = 1 << 30  # more templates than there are

HELP = "s sorts, j k PgDn PgUp scroll"

_KEY = re.compile(r"\x1b[\[O][0-9;]*+[A-Za-z~]|.", re.DOTALL)

KEYS = {
    **dict.fromkeys(("s",), "sort"),
    **dict.fromkeys(("j", "\x1b[B", "\x1bOB"), "down"),
    **dict.fromkeys(("k", "\x1b[A", "\x1bOA"), "up"),
    **dict.fromkeys((" ", "\x1b[6~"), "page down"),
    **dict.fromkeys(("b", "\x1b[5~"), "page up"),
    **dict.fromkeys(("g", "\x1b[H", "\x1bOH", "\x1b[1~"), "top"),
    **dict.fromkeys(("G", "\x1b[F", "\x1bOF", "\x1b[4~"), "bottom"),
}
"""What keys mean; the arrows, PgUp, PgDn, Home and End are sequences."""


def quality(group: Mapping[str, Any]) -> float:
    """The mean of the scores of a group, with 0 for its errors; 1 if it has neither."""
    scores = [mean_of_questions(group["metrics"][name]) for name in SCORES if name in group["metrics"]]
    mean = fsum(scores) / len(scores) if scores else 1.0
    return mean * (1 - (mean_of_questions(group["error_rate"]) or 0.0))


ORDERS: dict[str, Callable[[str, Mapping[str, Any]], Any]] = {
    "worst first": lambda _, group: quality(group),
    "by name": lambda name, _: name,
    "most samples first": lambda _, group: -group["samples"]["total"],
    "most errors first": lambda _, group: -group["errors"]["total"],
}


class Browsing:
    """The templates that the screen shows.

    Attributes:
        has_keys: whether keys are read, so that the screen explains them.
        order: one of `ORDERS`.
        first: how many templates are above the first one on the screen.
        page: how many the screen showed last.
    """

    def __init__(self) -> None:
        self.has_keys = False
        self.order = next(iter(ORDERS))
        self.first = 0
        self.page = 1

    def press(self, text: str) -> None:
        """Do what the keys in `text` mean; others have no effect."""
        for key in _KEY.findall(text):
            self._do(KEYS.get(key, ""))

    def _do(self, what: str) -> None:
        if what == "sort":
            orders = [*ORDERS]
            self.order = orders[(orders.index(self.order) + 1) % len(orders)]
            self.first = 0
        elif what == "top":
            self.first = 0
        elif what == "bottom":
            self.first = BOTTOM
        elif what:
            lines = self.page if what.startswith("page") else 1
            self.first = max(0, self.first + (lines if what.endswith("down") else -lines))

    def sort(self, templates: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
        """Templates in the chosen order; those that are equal in it stay in theirs."""
        return sorted(templates.items(), key=lambda each: ORDERS[self.order](*each))

    def fit(self, lines: Sequence[int], room: int) -> range:
        """Which templates to show in a `room`, by how many lines each takes; at the end, as many as fit."""
        at_the_end = max(1, _fitting(lines[::-1], room))
        self.first = max(0, min(self.first, len(lines) - at_the_end))
        fitting = _fitting(lines[self.first :], room)
        self.page = max(1, fitting)
        return range(self.first, self.first + fitting)

    def note(self, shown: range, total: int) -> str:
        """What is on the screen, and which keys change that."""
        places = f"{shown.start + 1} to {shown.stop}" if shown else "none"
        return f"{places} of {total} templates, {self.order}; {HELP}"


def _fitting(lines: Sequence[int], room: int) -> int:
    return sum(1 for _ in takewhile(lambda end: end <= room, accumulate(lines)))
