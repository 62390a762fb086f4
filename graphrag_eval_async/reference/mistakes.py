"""Mistakes in templates, collected while they are read. Equal mistakes are listed once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from graphrag_eval_async.records.document import Document

SHOWN_PLACES = 3
"""How many of the places of a mistake are shown; the others are counted."""

_INDEX = re.compile(r"\[\d+\]")


@dataclass
class Mistake:
    """A mistake that is made in one or more places."""

    message: str
    places: list[str] = field(default_factory=list)  # The first `SHOWN_PLACES`.
    count: int = 0  # Of all places.

    def text(self, document: Document | None) -> str:
        """Return the mistake in words: the first place, the message, and the lines of all places.

        Args:
            document: the file of the templates; None if they are from no file. Then further places
                are shown in place of lines.
        """
        text = f"{self.places[0]}: {self.message}"
        if self.count > 1:
            text += f"; in {self.count} places"

        unshown = self.count - len(self.places)
        rest = f" and {unshown} more" if unshown else ""
        lines = self._lines(document)
        if len(lines) == 1 and not rest:
            return f"{text} (line {lines[0]})"
        if lines:
            return f"{text} (lines {', '.join(map(str, lines))}{rest})"
        if self.count > 1:
            return f"{text}, also {', '.join(self.places[1:])}{rest}"
        return text

    def _lines(self, document: Document | None) -> list[int]:
        """Return the lines of the places in a file, each line once; only `places` are known."""
        if document is None:
            return []
        lines: list[int] = []
        for place in self.places:
            line = document.line_of(place)
            if line is not None and line not in lines:
                lines.append(line)
        return lines


class Mistakes:
    """The mistakes in templates, in the order in which they are found.

    By default, the same message about the same key is one mistake in several places.

    Attributes:
        total: number of places of all mistakes.
    """

    def __init__(self, most: int | None = None) -> None:
        """Begin without mistakes.

        Args:
            most: maximum number of different mistakes that are kept; None if all are.
        """
        self.total = 0
        self._most = most
        self._by_group: dict[Hashable, Mistake] = {}

    def __len__(self) -> int:
        return len(self._by_group)

    def add(self, place: str, message: str, *, like: Hashable = None) -> None:
        """Add a mistake, or another place of a mistake that was added before.

        Args:
            place: the place, such as ``templates[0].questions[2].id``.
            message: what is wrong, and what to do.
            like: a value that is equal for mistakes that are the same, although their messages
                differ; the first message is kept. None: mistakes are the same if they have the same
                message and the same place, whatever the indexes in it are.
        """
        self.total += 1
        group = like
        if like is None:
            place_without_indexes = _INDEX.sub("", place)
            group = (place_without_indexes, message)
        mistake = self._by_group.get(group)
        if mistake is None:
            if self._most is not None and len(self) >= self._most:
                return
            mistake = Mistake(message)
            self._by_group[group] = mistake
        mistake.count += 1
        if len(mistake.places) < SHOWN_PLACES:
            mistake.places.append(place)

    def add_text(self, text: str) -> None:
        """Add a mistake that is written as "place: message"."""
        place, _, message = text.partition(": ")
        self.add(place, message)

    def texts(self, document: Document | None) -> list[str]:
        """Return each mistake as text; see `Mistake.text`."""
        return [mistake.text(document) for mistake in self._by_group.values()]
