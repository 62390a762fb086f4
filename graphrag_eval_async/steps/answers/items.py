"""Items of lists as people and models write them: in prose, Markdown, HTML or JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import orjson

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.answers.conjunctions import (
    DOUBTFUL,
    OPEN_ENDS,
    SENTENCE_BEGINNING,
    SENTENCE_END,
    SPACED,
    UNSPACED,
)
from graphrag_eval_async.steps.answers.text import plain, without_citations, without_entities

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

MAX_COLUMNS = 10
"""How many columns of a table are read one by one."""

_GROUPED_NUMBER = lazy_pattern(
    r"(?<![\w.,])(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3})(?!\d|,\d)"
)
"""A number with commas between its thousands, or as in India: 1,234,567 and 12,34,567."""

_CONJUNCTIONS = "|".join(word for words in SPACED.values() for word in words.split())
_SEPARATOR = lazy_pattern(
    r"[,;|\n\t،؛、，；｜፣၊]"
    r"|\s[•·‣◦▪●∙]\s"
    r"|(?<=[」』》])(?=[「『《])"
    rf"|\s(?:(?i:and|&)|{_CONJUNCTIONS})\s"
    rf"|{'|'.join(UNSPACED)}"
)
_LEADING_CONJUNCTION = lazy_pattern(rf"\A\s*(?:and|&|{_CONJUNCTIONS})\s")
_DOUBTFUL_SEPARATORS = [lazy_pattern(pattern) for pattern in DOUBTFUL]
_SENTENCE_BEGINNING = lazy_pattern(SENTENCE_BEGINNING)
_SENTENCE_END = lazy_pattern(SENTENCE_END)

_MARKER = lazy_pattern(
    r"\s*(?:>\s?){0,3}\s*"  # A quotation.
    r"(?:[-\u2013\u2014\u2212*+→➤➢✓✔✅☑☐□]\s+|[•·‣◦▪▫●○■◆◇・∙]\s*"
    r"|[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?\s+|[\U0001f1e6-\U0001f1ff]{2}\s+|\d\ufe0f?\u20e3\s*|\\item\s+)?"
    r"(?:\[[ xX]?\]\s+)?"  # A task.
    r"(?:\*{0,2}\(?\d{1,3}[.)]\*{0,2}\s+|\d{1,3}\.(?=[^\W\d])|\(?[a-zA-Z]\)\s+|\(?[ivxIVX]{1,5}\)\s+"
    r"|[（(]\d{1,3}[)）]\s*(?=[^\W\d])|\d{1,3}[．、）]\s*(?=\D)"
    r"|[一二三四五六七八九十]{1,3}、\s*(?![一二三四五六七八九十\s])|[①-⑳]\s*)?"
)
"""The bullet or the number before an item."""

_EDGES = " .\"'`*_[]{}<>\u3002\u0964\u06d4\u104b~"
"""Characters around an item that are no part of it."""

_HTML_HINT = lazy_pattern(r"<(?:li|br|ul|ol|td|dd|p|/)", re.IGNORECASE)
_HTML_ITEM = lazy_pattern(r"<(?:li|dd|dt)(?:\s[^<>]{0,500})?>", re.IGNORECASE)
_HTML_LINE = lazy_pattern(
    r"</?(?:ul|ol|dl|li|dd|dt|p|br|div|tr|td|th|table|tbody|thead|h[1-6])"
    r"(?:\s[^<>]{0,500})?\s?/?>",
    re.IGNORECASE,
)
_HTML_INLINE = lazy_pattern(
    r"</?(?:b|strong|i|em|code|span|a|u|mark|small|sup|sub|input|img|label|font)(?:\s[^<>]{0,500})?>",
    re.IGNORECASE,
)
_MARKDOWN_LINK = lazy_pattern(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")
_HEADING = lazy_pattern(r"\s{0,3}#{1,6}\s+")
_LATEX = lazy_pattern(
    r"\\(?:boxed|fbox|text|textbf|mathrm|mathbf)\s?(?=\{)|\\(?=[{}$])|\\(?:begin|end)\{[a-z]{1,20}\}"
)
_LATEX_SIGNS = lazy_pattern(r"[{}$]")
_IN_BRACKETS = lazy_pattern(r"\s*\((?P<items>[^()]*)\)\.?\s*")
_JSON_FENCE = lazy_pattern(
    r"\s*```(?:json)?\s*\n(?P<json>.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE
)
_INTRODUCTION = lazy_pattern(r":\s|：")

# An item that a list explains: **Berlin** is the capital; Berlin (Germany); Berlin: the capital.
_BOLD_LEAD = lazy_pattern(r"(\*\*|__)(?P<lead>[^*_\n]{1,300})\1")
_EXPLANATION = lazy_pattern(r"\s?[:：(（]|\s[-\u2013\u2014]\s|,\s")


class ListMatch(NamedTuple):
    """How far the items of an answer are those of a reference answer."""

    f1: float
    missing: list[str]
    added: list[str]


class _Line(NamedTuple):
    """A line of a text without its marker."""

    text: str
    has_marker: bool
    is_heading: bool = False
    indent: int = 0  # How many columns stand before the marker.


class _Reading(NamedTuple):
    """One way to read the items of a reference answer and of an answer."""

    expected: set[str]
    answered: set[str]

    @property
    def matches(self) -> int:
        """How many items agree."""
        return len(self.expected & self.answered)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if the answer has no items."""
        return 2 * self.matches / (len(self.expected) + len(self.answered))


def items_of(text: str) -> set[str]:
    """Return the items of a list that is written in prose, Markdown, HTML or JSON.

    The items are in the form of `plain`, without bullets and quotes around them.
    """
    return _items_of_lines(_lines(text), grouped=True, expected=())


def match_list(reference: str, answer: str) -> ListMatch:
    """Compare the items of an answer with those of a reference answer, in any order.

    Where a list can be read in several ways, the one with the best F1 counts: 1,235 may be one
    number or two.
    """
    reference_lines = _lines(reference)
    expected = _items_of_lines(reference_lines, grouped=True, expected=())
    lines = _without_introduction(_lines(answer), expected)
    answered = _items_of_lines(lines, grouped=True, expected=expected)

    best = _split_further(_Reading(expected, answered))
    if best.f1 < 1:
        for reading in _other_readings(reference_lines, lines, expected):
            other = _split_further(reading)
            if other.f1 > best.f1:
                best = other
    return ListMatch(
        f1=best.f1,
        missing=sorted(best.expected - best.answered),
        added=sorted(best.answered - best.expected),
    )


def _other_readings(
    reference_lines: list[_Line], lines: list[_Line], expected: set[str]
) -> Iterator[_Reading]:
    """Yield the ways to read two lists other than the usual way.

    The usual way takes all lines, and reads 1,000 as one item.

    Args:
        reference_lines: the lines of the reference answer.
        lines: the lines of the answer.
        expected: the items of the reference answer, in which 1,000 is one item.
    """
    compact_expected = _items_of_lines(reference_lines, grouped=False, expected=())
    for variant in _variants(lines):
        answered = _items_of_lines(variant, grouped=True, expected=expected)
        if variant is not lines:
            yield _Reading(expected, answered)

        compact_answered = _items_of_lines(variant, grouped=False, expected=compact_expected)
        compact_readings = [
            _Reading(expected, compact_answered),
            _Reading(compact_expected, answered),
            _Reading(compact_expected, compact_answered),
        ]
        # One match may be by chance: 1,235 has a 1.
        yield from (reading for reading in compact_readings if reading.matches > 1)


def _variants(lines: list[_Line]) -> list[list[_Line]]:
    """Return the selections of lines in a text that may be its list.

    They are all lines, the lines with markers, the headings, the lines that state something, and
    each column of a table. The lines that a selection lacks may introduce the list, follow it, or
    explain its items.
    """
    marked_lines = [line for line in lines if line.has_marker]
    least_indent = min((line.indent for line in marked_lines), default=0)
    # The lists inside the items of a list may explain these.
    outer_list = [line for line in marked_lines if line.indent == least_indent]
    headings = [line for line in lines if line.is_heading]
    # A last line such as "Ask me for more!" speaks to the reader.
    statements = [line for line in lines if not line.text.rstrip().endswith(("!", "?"))]
    selections = (marked_lines, outer_list, headings, statements)
    proper_selections = [part for part in selections if 0 < len(part) < len(lines)]
    return [lines, *proper_selections, *_columns(lines)]


def _columns(lines: list[_Line]) -> list[list[_Line]]:
    """Return the columns of a table in Markdown, each with its cells as lines.

    The list is empty if the lines are no such table.
    """
    rows = [line.text.strip(" |").split("|") for line in lines if "|" in line.text]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) > 1 or max(widths) > MAX_COLUMNS:
        return []
    return [_unmarked_lines(cells) for cells in zip(*rows, strict=True)]


def _unmarked_lines(texts: Iterable[str]) -> list[_Line]:
    """Return texts as lines without markers."""
    return [_Line(text, has_marker=False) for text in texts]


def _lines(text: str) -> list[_Line]:
    """Return the lines of a text without Markdown's and HTML's marks of lists and tables.

    Of JSON, each value is a line.
    """
    values = _json_values(text)
    if values is not None:
        return _unmarked_lines(values)

    lines: list[_Line] = []
    for written in _without_markup(text).split("\n"):
        is_fence = written.lstrip().startswith("```")
        is_rule = "--" in written and not written.strip(" \t|:+-=")
        if is_rule and "|" in written and lines:
            # What stands above is the head of a table.
            lines.pop()
        if is_fence or is_rule:
            continue
        line = _read_line(written)
        if line.text.strip():
            lines.append(line)
    return lines


def _read_line(written: str) -> _Line:
    """Return a line of Markdown without the marks of a heading and the marker of an item."""
    heading = _HEADING.match(written)
    if heading:
        written = written[heading.end() :]
    marker = _MARKER.match(written)
    marker_end = marker.end() if marker else 0
    expanded = written.expandtabs()
    return _Line(
        written[marker_end:],
        has_marker=bool(written[:marker_end].strip()),
        is_heading=heading is not None,
        indent=len(expanded) - len(expanded.lstrip()),
    )


def _without_markup(text: str) -> str:
    """Return a text without HTML, LaTeX, links, marks of sources, and brackets around all of it.

    What begins an item or a line in HTML is on a line of its own.
    """
    if _HTML_HINT.search(text):
        text = _HTML_ITEM.sub("\n- ", text)
        text = _HTML_LINE.sub("\n", text)
        text = _HTML_INLINE.sub("", text)
    if "\\" in text and _LATEX.search(text):
        text = _LATEX_SIGNS.sub("", _LATEX.sub("", text))
    text = _MARKDOWN_LINK.sub(r"\1", without_entities(text))
    text = without_citations(text)
    in_brackets = _IN_BRACKETS.fullmatch(text)
    if in_brackets:
        return in_brackets["items"]
    return text


def _json_values(text: str) -> list[str] | None:
    """Return the values in a JSON document, alone or in a fence, as text; None for other text."""
    fenced = _JSON_FENCE.fullmatch(text)
    source = fenced["json"] if fenced else text
    if not source.lstrip().startswith(("[", "{")):
        return None
    try:
        document = orjson.loads(source)
    except orjson.JSONDecodeError:
        return None

    values: list[str] = []
    pending = [document]
    while pending:
        match pending.pop():
            case dict(members):
                pending += members.values()
            case list(items):
                pending += items
            case str(value):
                values.append(value)
            case value:
                values.append(orjson.dumps(value).decode())
    return values


def _without_introduction(lines: list[_Line], expected: set[str]) -> list[_Line]:
    """Return the lines of an answer without an introduction such as "The cities are:".

    Args:
        lines: the lines of the answer.
        expected: the items of the reference answer. If the introduction has one, it is kept.
    """
    if any(": " in item for item in expected):
        return lines
    for index, line in enumerate(lines):
        colon = _INTRODUCTION.search(line.text + "\n")
        if colon is None:
            continue
        # The first colon ends the introduction, if there is one.
        after_colon = line.text[colon.end() :]
        if line.has_marker and after_colon.strip():
            return lines  # The colon explains an item.

        introduction = [*lines[:index], _Line(line.text[: colon.start()], has_marker=False)]
        list_lines = lines[index + 1 :]
        if after_colon.strip():
            list_lines = [_Line(after_colon, has_marker=False), *list_lines]
        introduction_items = _items_of_lines(introduction, grouped=True, expected=())
        if list_lines and expected.isdisjoint(introduction_items):
            return list_lines
        return lines
    return lines


def _items_of_lines(lines: list[_Line], *, grouped: bool, expected: Collection[str]) -> set[str]:
    """Return the items in some lines.

    Args:
        lines: lines without their markers.
        grouped: whether 1,000 is one item rather than two.
        expected: the items of the reference answer. A line that only explains one of these has no
            other items.
    """
    items: set[str] = set()
    for line in lines:
        text = line.text
        if grouped:
            text = _GROUPED_NUMBER.sub(lambda number: number[0].replace(",", ""), text)
        line_items = {_item(part) for part in _SEPARATOR.split(text)}
        line_items.discard("")
        if line.has_marker and not line_items.issubset(expected):
            lead = _explained_item(text)
            if lead in expected:
                line_items = {lead}
        items |= line_items
    return items


def _item(part: str) -> str:
    """Return the item in a part of a line, by `plain`; "" if there is none.

    An "and" and a bullet before it, quotes around it, and a final "etc." are no part of an item.
    """
    part = _LEADING_CONJUNCTION.sub("", part)
    part = _MARKER.sub("", part, count=1)
    item = plain(part).strip(_EDGES)
    if item in OPEN_ENDS:
        return ""
    return item


def _explained_item(line: str) -> str:
    """Return the item that a line may explain: Berlin of "**Berlin**: the capital of Germany"."""
    bold = _BOLD_LEAD.match(line)
    if bold:
        return _item(bold["lead"].rstrip(":"))
    before_explanation = _EXPLANATION.split(line, maxsplit=1)[0]
    return _item(before_explanation)


def _split_further(reading: _Reading) -> _Reading:
    """Return a reading whose items are split at doubtful separators if more of them then agree.

    In the same way, the words of a sentence around items are removed: "The cities are Rome".
    """
    best = _split_at_doubtful(reading)
    expected = reading.expected
    bare_items = set()
    for item in reading.answered:
        bare_items.add(item if item in expected else _without_sentence(item))
    if bare_items != reading.answered:
        other = _split_at_doubtful(_Reading(expected, bare_items))
        if other.matches > best.matches and other.f1 > best.f1:
            return other
    return best


def _without_sentence(item: str) -> str:
    """Return an item without the words of the sentence that it begins or ends."""
    item = _SENTENCE_END.sub("", item)
    return _SENTENCE_BEGINNING.sub("", item).strip(_EDGES)


def _split_at_doubtful(reading: _Reading) -> _Reading:
    """Return a reading whose items are split at each separator with which more of them agree.

    Items that agree already are not split.
    """
    items_on_lines = "\n".join((*reading.expected, *reading.answered))
    for separator in _DOUBTFUL_SEPARATORS:
        if reading.expected == reading.answered:
            break
        # Most separators stand in no item; one search is quicker than to split each item.
        if separator.search(items_on_lines) is None:
            continue
        expected = _split_items(reading.expected, reading.answered, separator)
        answered = _split_items(reading.answered, reading.expected | expected, separator)
        other = _Reading(expected, answered)
        if other.matches > reading.matches and other.f1 > reading.f1:
            reading = other
            items_on_lines = "\n".join((*reading.expected, *reading.answered))
    return reading


def _split_items(items: set[str], kept: set[str], separator: re.Pattern[str]) -> set[str]:
    """Return the parts of items at a separator; items that are in `kept` are not split."""
    parts: set[str] = set()
    for item in items:
        if item in kept:
            parts.add(item)
        else:
            parts.update(part.strip(_EDGES) for part in separator.split(item))
    parts.discard("")
    return parts
