"""Items of lists as people and models write them: in prose, Markdown, HTML or JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from graphrag_eval_async.steps.answers.conjunctions import (
    DOUBTFUL,
    SENTENCE_BEGINNING,
    SENTENCE_END,
    SPACED,
    UNSPACED,
)
from graphrag_eval_async.steps.answers.text import plain, without_entities

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_GROUPED_NUMBER = re.compile(
    r"(?<![\w.,])(?:[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d?(?:,\d\d)+,\d{3})(?!\d|,\d)"
)
"""A number with commas between its thousands, or as in India: 1,234,567 and 12,34,567."""

_CONJUNCTIONS = "|".join(word for words in SPACED.values() for word in words.split())
_SEPARATOR = re.compile(
    r"[,;|\n\t،؛、，；｜፣၊]"
    r"|\s[•·‣◦▪●∙]\s"
    rf"|\s(?:(?i:and|&)|{_CONJUNCTIONS})\s"
    rf"|{'|'.join(UNSPACED)}"
)
_LEADING_CONJUNCTION = re.compile(rf"\A\s*(?:and|&|{_CONJUNCTIONS})\s")
_DOUBTFUL_SEPARATORS = [re.compile(pattern) for pattern in DOUBTFUL]
_SENTENCE_BEGINNING = re.compile(SENTENCE_BEGINNING)
_SENTENCE_END = re.compile(SENTENCE_END)

_MARKER = re.compile(
    r"\s*(?:>\s?){0,3}\s*"  # A quotation.
    r"(?:[-\u2013\u2014\u2212*+→➤➢✓✔✅☑☐□]\s+|[•·‣◦▪▫●○■◆◇・∙]\s*)?"
    r"(?:\[[ xX]?\]\s+)?"  # A task.
    r"(?:\*{0,2}\(?\d{1,3}[.)]\*{0,2}\s+|\(?[a-zA-Z]\)\s+|\(?[ivxIVX]{1,5}\)\s+"
    r"|[（(]\d{1,3}[)）]\s*(?=[^\W\d])|\d{1,3}[．、）]\s*(?=\D)"
    r"|[一二三四五六七八九十]{1,3}、\s*(?![一二三四五六七八九十\s])|[①-⑳]\s*)?"
)
"""The bullet or the number before an item."""

_EDGES = " .\"'`*_[]<>\u3002\u0964\u06d4~"
"""Characters around an item that are no part of it."""

_HTML_HINT = re.compile(r"<(?:li|br|ul|ol|td|dd|p|/)", re.IGNORECASE)
_HTML_ITEM = re.compile(r"<(?:li|dd|dt)(?:\s[^<>]{0,500})?>", re.IGNORECASE)
_HTML_LINE = re.compile(
    r"</?(?:ul|ol|dl|li|dd|dt|p|br|div|tr|td|th|table|tbody|thead|h[1-6])"
    r"(?:\s[^<>]{0,500})?\s?/?>",
    re.IGNORECASE,
)
_HTML_INLINE = re.compile(
    r"</?(?:b|strong|i|em|code|span|a|u|mark|small|sup|sub)(?:\s[^<>]{0,500})?>", re.IGNORECASE
)
_MARKDOWN_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")
_INTRODUCTION = re.compile(r":\s|：")

# An item that a list explains: **Berlin** is the capital; Berlin (Germany); Berlin: the capital.
_BOLD_LEAD = re.compile(r"(\*\*|__)(?P<lead>[^*_\n]{1,300})\1")
_EXPLANATION = re.compile(r"\s?[:：(（]|\s[-\u2013\u2014]\s|,\s")


class ListMatch(NamedTuple):
    """How far the items of an answer are those of a reference answer."""

    f1: float
    missing: list[str]
    added: list[str]


class _Line(NamedTuple):
    text: str  # Without its marker.
    has_marker: bool


def items_of(text: str) -> set[str]:
    """Return the items of a written list, each by `plain` and without marks around it."""
    return _items_of_lines(_lines(text), grouped=True, expected=())


def match_list(reference: str, answer: str) -> ListMatch:
    """Compare the items of an answer with those of a reference answer, in any order.

    Where a list can be read in several ways, the one counts in which most of the items agree:
    1,235 may be one number or two.
    """
    expected_lines = _lines(reference)
    expected = _items_of_lines(expected_lines, grouped=True, expected=())
    lines = _without_introduction(_lines(answer), expected)
    given = _items_of_lines(lines, grouped=True, expected=expected)

    best = _split_further(expected, given)
    best_f1 = _f1(*best)
    for other_expected, other_given in _other_readings(expected_lines, lines, expected):
        pair = _split_further(other_expected, other_given)
        f1 = _f1(*pair)
        if f1 > best_f1:
            best, best_f1 = pair, f1

    expected, given = best
    return ListMatch(best_f1, missing=sorted(expected - given), added=sorted(given - expected))


def _other_readings(
    expected_lines: list[_Line], lines: list[_Line], expected: set[str]
) -> Iterator[tuple[set[str], set[str]]]:
    """Yield other pairs of expected items and items of the answer."""
    marked_lines = [line for line in lines if line.has_marker]
    variants = [lines]
    if 0 < len(marked_lines) < len(lines):
        # The other lines introduce a list or comment on it.
        variants.append(marked_lines)
    compact_expected = _items_of_lines(expected_lines, grouped=False, expected=())

    for variant in variants:
        given = _items_of_lines(variant, grouped=True, expected=expected)
        if variant is not lines and not expected.isdisjoint(given):
            yield expected, given
        compact_given = _items_of_lines(variant, grouped=False, expected=compact_expected)
        for pair in (
            (expected, compact_given),
            (compact_expected, given),
            (compact_expected, compact_given),
        ):
            # One match may be by chance: 1,235 has a 1.
            if len(pair[0] & pair[1]) > 1:
                yield pair


def _lines(text: str) -> list[_Line]:
    """Return the lines of a text without Markdown's and HTML's marks of lists and tables."""
    if _HTML_HINT.search(text):
        text = _HTML_ITEM.sub("\n- ", text)
        text = _HTML_LINE.sub("\n", text)
        text = _HTML_INLINE.sub("", text)
    text = _MARKDOWN_LINK.sub(r"\1", without_entities(text))

    lines: list[_Line] = []
    for written in text.split("\n"):
        if written.lstrip().startswith("```"):
            continue
        if "--" in written and not written.strip(" \t|:+-="):
            # The line below the head of a table, or a rule.
            if "|" in written and lines:
                lines.pop()
            continue
        marker = _MARKER.match(written)
        end = marker.end() if marker else 0
        if written[end:].strip():
            lines.append(_Line(written[end:], has_marker=bool(written[:end].strip())))
    return lines


def _without_introduction(lines: list[_Line], expected: set[str]) -> list[_Line]:
    """Return lines without a beginning such as "The cities are:"."""
    if any(": " in item for item in expected):
        return lines
    for index, line in enumerate(lines):
        colon = _INTRODUCTION.search(line.text + "\n")
        if colon is None:
            continue
        rest = line.text[colon.end() :]
        if line.has_marker and rest.strip():
            return lines  # It explains an item.
        introduction = [*lines[:index], _Line(line.text[: colon.start()], has_marker=False)]
        following = lines[index + 1 :]
        if rest.strip():
            following = [_Line(rest, has_marker=False), *following]
        is_list = following and expected.isdisjoint(
            _items_of_lines(introduction, grouped=True, expected=())
        )
        return following if is_list else lines
    return lines


def _items_of_lines(lines: list[_Line], *, grouped: bool, expected: Collection[str]) -> set[str]:
    """Return the items of lines.

    Args:
        lines: lines without their markers.
        grouped: whether 1,000 is one item rather than two.
        expected: items that, where a line only explains one of them, are all of the line.
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
    part = _LEADING_CONJUNCTION.sub("", part)
    part = _MARKER.sub("", part, count=1)
    return plain(part).strip(_EDGES)


def _explained_item(line: str) -> str:
    """Return the item that a line explains: Berlin of "**Berlin**: the capital of Germany"."""
    bold = _BOLD_LEAD.match(line)
    if bold:
        return _item(bold["lead"].rstrip(":"))
    return _item(_EXPLANATION.split(line, maxsplit=1)[0])


def _split_further(expected: set[str], given: set[str]) -> tuple[set[str], set[str]]:
    """Split items at doubtful separators where that makes more of them agree.

    In the same way, the words around the items of a sentence are removed.
    """
    best = _split_at_doubtful(expected, given)
    without_sentence = {item if item in expected else _in_sentence(item) for item in given}
    if without_sentence != given:
        other = _split_at_doubtful(expected, without_sentence)
        if len(other[0] & other[1]) > len(best[0] & best[1]):
            return other
    return best


def _in_sentence(item: str) -> str:
    """Return an item without the words of the sentence that it begins or ends."""
    item = _SENTENCE_END.sub("", item)
    return _SENTENCE_BEGINNING.sub("", item).strip(_EDGES)


def _split_at_doubtful(expected: set[str], given: set[str]) -> tuple[set[str], set[str]]:
    for separator in _DOUBTFUL_SEPARATORS:
        if expected == given:
            break
        split_expected = _split_items(expected, given, separator)
        split_given = _split_items(given, expected | split_expected, separator)
        if len(split_expected & split_given) > len(expected & given):
            expected, given = split_expected, split_given
    return expected, given


def _split_items(items: set[str], other_items: set[str], separator: re.Pattern[str]) -> set[str]:
    """Split the items that are not on the other side, too."""
    split: set[str] = set()
    for item in items:
        if item in other_items:
            split.add(item)
            continue
        split.update(part.strip(_EDGES) for part in separator.split(item))
    split.discard("")
    return split


def _f1(expected: set[str], given: set[str]) -> float:
    if not given and not expected:
        return 0.0
    return 2 * len(expected & given) / (len(expected) + len(given))
