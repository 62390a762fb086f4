"""Parts of pages in GitHub-flavoured Markdown."""

from __future__ import annotations

import re
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.text import NAME_CHARACTERS, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_CHARACTERS = 60_000
"""Of a page; GitHub refuses comments of more than 65,536."""

NOTE_CHARACTERS = 200  # that a note on what was cut may take


class Section(NamedTuple):
    """Lines of a page, of which `rows` may be cut."""

    head: Sequence[str]
    rows: Sequence[str] = ()
    tail: Sequence[str] = ()

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in chain(self.head, self.rows, self.tail))

    def cut(self, room: int) -> str:
        """Return the section with as many lines as fit into `room` characters, and say how many do not."""
        lines = [*self.head, *self.rows]
        if self.size <= room:
            return "\n".join([*lines, *self.tail]) + "\n"
        room -= NOTE_CHARACTERS + sum(len(line) + 1 for line in self.tail)
        ends = accumulate(len(line) + 1 for line in lines)
        kept = sum(end <= room for end in ends)
        note = f"*Cut: the last {len(lines) - kept} lines; a page has at most {MAX_CHARACTERS:,} characters.*"
        return "\n".join([*lines[:kept], "", note, *self.tail]) + "\n"


def code(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Return text from data as a code span: nothing in it is markup, a link or a mention."""
    shown = one_line(text, limit=limit).replace("##[", r"##\x5b")  # A command to GitHub Actions, if printed.
    if not shown:
        return "(empty)"
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    pad = " " * (shown[0] == "`" or shown[-1] == "`")
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def cell(text: str, *, limit: int = NAME_CHARACTERS) -> str:
    """Do the same for a cell of a table, whose rows are split at pipes first, also within code spans."""
    # A backslash before an escaped pipe would be ambiguous.
    return re.sub(r"\\(?=\|)", r"\\x5c", code(text, limit=limit)).replace("|", r"\|")


def page_of(sections: Sequence[Section]) -> str:
    """Return a page of at most `MAX_CHARACTERS`; the longest sections are cut, and say so."""
    rooms = _rooms([section.size for section in sections])
    return "\n".join(section.cut(room) for section, room in zip(sections, rooms, strict=True))


def _rooms(lengths: Sequence[int]) -> list[int]:
    """Return how many characters each section gets: all it needs, or as many as the longest others."""
    left, rooms = MAX_CHARACTERS, [0] * len(lengths)
    for rank, place in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        rooms[place] = min(lengths[place], left // (len(lengths) - rank))
        left -= rooms[place] + 1
    return rooms


def table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *tail: str
) -> Iterator[Section]:
    """A section with a table, if it has rows; columns whose heading begins with > are right-aligned."""
    if rows:
        marks = ["---:" if heading.startswith(">") else "---" for heading in headings]
        head = [f"### {title}", "", row([heading.lstrip(">") for heading in headings]), row(marks)]
        yield Section(head, [*map(row, rows)], ["", *tail] if tail else [])


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
