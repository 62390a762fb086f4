"""Which numbers of an answer are what it answers: marked ones, or those of its conclusion.

People who judged real answers accept a number wherever it stands in prose, since most answers state
it first and explain it then. So only what clearly comes before a conclusion does not count.
"""

from __future__ import annotations

import re
from math import isclose
from typing import TYPE_CHECKING

from graphrag_eval_async.helpers.patterns import lazy_pattern
from graphrag_eval_async.steps.answers.conclusion_words import (
    ALTERNATIVES,
    ANSWER_LABELS,
    BEFORE_CONCLUDED,
    CONCLUSIONS,
    COPULAS,
    CORRECTIONS,
    HEDGES,
    INNER_CONCLUSIONS,
    NEGATIONS,
    QUALIFIERS,
    TOTALS,
    UNSPACED_ANSWER_LABELS,
    UNSPACED_CONCLUSIONS,
    UNSPACED_NEGATIONS,
    UNSPACED_TOTALS,
    any_of,
)
from graphrag_eval_async.steps.answers.text import without_citations, without_entities
from graphrag_eval_async.steps.numbers import Number, numbers_in, uncertain_numbers_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_SIGNALS = 8
"""How many words such as "so" are tried, from the last one on; each costs a reading of the text."""

MAX_ADDENDS = 12
"""How many numbers before a total may be its addends."""

ADDENDS_CHARACTERS = 1000
"""How many characters before a total may hold its addends."""

TOTAL_CHARACTERS = 100
"""How many characters may stand between the word "total" and the end of its number."""

MAX_BOX_CHARACTERS = 300
"""How long the content of a `\\boxed{}` may be."""

MAX_WORDS_BEFORE = 4
"""How many words may stand between the label of an answer and its number: "about the same, 5"."""

_BOX = lazy_pattern(r"\\(?:boxed|fbox)\s{0,3}\{")
_LABEL = lazy_pattern(
    rf"{any_of(ANSWER_LABELS)}[*_\s'\"]{{0,4}}(?:[:=\uff1a]|(?:{COPULAS})(?!\w)[ :]?)"
    rf"|{UNSPACED_ANSWER_LABELS}"
    r"|\#{4}",  # Of GSM8K, a data set of calculations with which models are trained.
    re.IGNORECASE,
)
_BOLD = lazy_pattern(
    r"\*\*(?P<stars>[^*\n]{1,200})\*\*|__(?P<lines>[^_\n]{1,200})__"
    r"|<(?P<tag>b|strong|mark|u)>(?P<html>[^<\n]{1,200})</(?P=tag)>",
    re.IGNORECASE,
)
_STRUCK_OUT = lazy_pattern(r"~~[^~\n]{1,200}~~|<(del|s|strike)>[^<\n]{1,200}</\1>", re.IGNORECASE)
_UNIT = lazy_pattern(r" ?(?:%|[^\W\d_]{1,15}(?!\w))")
_WORD = lazy_pattern(r"[^\W\d_]+")
_LETTER_OR_DIGIT = lazy_pattern(r"[^\W_]")
_SENTENCE_END = lazy_pattern(r"[.!?](?=\s)|[。\uff01\uff1f;\uff1b\n]|\s?[(\uff08]")

_CONCLUDES = lazy_pattern(
    # The start of a sentence, and in Chinese of a clause.
    r"(?:^|[.!?:;](?=\s)|[。\uff01\uff1f\uff0c\n])[ \t*_#>-]{0,6}+"
    rf"(?P<signal>(?:(?:and|und|et|y|e) )?{any_of(CONCLUSIONS)}|{UNSPACED_CONCLUSIONS}"
    rf"|(?:{CORRECTIONS})[,:.\u2014-])",
    re.IGNORECASE,
)
_CORRECTS = lazy_pattern(
    r"(?<!\w)(?:(?:no, |hmm, )?wait[,:.\u2014-]|correction:|scratch that|i mean,?"
    r"|(?:thought|guessed|assumed|believed|expected|suspected|counted|estimated|said)(?!\w)"
    r"[^.\n]{0,80}?(?<!\w)but(?!\w)"
    r"|but[^.,\n]{0,30} actually(?!\w))",
    re.IGNORECASE,
)
_CONCLUDES_INSIDE = lazy_pattern(
    rf"[,;:(\u2013\u2014-] ?(?:(?:and|und|et|y|e) )?{any_of(INNER_CONCLUSIONS)},?"
    rf"(?: (?:{BEFORE_CONCLUDED})(?!\w)){{0,3}}(?P<marks>[ *_$€£:]{{1,6}})",
    re.IGNORECASE,
)
_TOTAL = lazy_pattern(f"{any_of(TOTALS)}|{UNSPACED_TOTALS}", re.IGNORECASE)
_OPERATOR = r"(?:[-+*/\u00d7\u00f7·\u2212\u2013]|\\times|\\cdot|plus|minus)"
_EQUATION = lazy_pattern(
    r"\d[\d.,]{0,20}+[)}%]{0,3}[ '$]{0,2}(?:[^\W\d_]{1,12} ?)?"  # A number and its unit.
    rf"{_OPERATOR}[ '$]{{0,2}}[({{$€£]{{0,3}}\d[^=\n]{{0,100}}+(?P<equals>=)"
)

_NUMBER = r"\d[\d.,]*+"
_NEGATED = lazy_pattern(
    rf"(?:{any_of(NEGATIONS)} (?:just |the )?|{UNSPACED_NEGATIONS}){_NUMBER}(?!\w)", re.IGNORECASE
)
_FORMER_ALTERNATIVES = lazy_pattern(
    r"(?<![\w.,])(?:\d[\d.]*+(?:,\d{1,3}){0,9}, ){0,10}"
    rf"{_NUMBER}(?:\s[^\W\d_]{{1,15}})?(?= (?:{ALTERNATIVES}) (?:(?:{HEDGES}) )?\d)",
    re.IGNORECASE,
)
"""The 5 and the 6 of "5, 6 or 7": of alternatives, an answer means the last."""


_YEAR_IN_BRACKETS = lazy_pattern(
    r"(?<![\w.,])(?P<counted>\d[\d.,]*+(?: (?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
    r"[^\W\d_]{1,20}){1,3})"
    r" \((?:(?:as of|in|since|by|from|until|data from|status|stand|en|au|im|seit|depuis|desde) )?"
    r"(?:1[5-9]|20)\d\d\)",
    re.IGNORECASE,
)
"""The year of "42 lines (2024)". That of "4 July (1776)" is a part of the date."""


def concluding_numbers(answer: str) -> list[Number]:
    r"""Return the numbers of an answer that may be its result.

    These are the numbers in `\boxed{}`, after "Answer:" or in bold; without these, the numbers
    from its conclusion on; without a conclusion, all. Words such as "one" count only in an answer
    without another number.
    """
    text = _STRUCK_OUT.sub(" ", answer)
    text = without_citations(without_entities(text))
    numbers = numbers_in(text)
    if not numbers:
        return uncertain_numbers_in(text)
    has_one_number = len({number.readings for number in numbers}) == 1
    if has_one_number:
        return numbers[:1]
    for find_region in (_boxed, _labelled, _bold, _conclusion):
        concluding = _asserted_numbers(find_region(text))
        if concluding:
            return concluding
    return _asserted_numbers(text)


def _asserted_numbers(text: str) -> list[Number]:
    """Return the numbers of a text without those that it rules out, as in "42, not 40".

    If it rules out all, they count. The year of "42 lines (2024)" does not count either.
    """
    asserted_text = _NEGATED.sub(" ", text)
    asserted_text = _YEAR_IN_BRACKETS.sub(r"\g<counted>", asserted_text)
    asserted_text = _FORMER_ALTERNATIVES.sub(" ", asserted_text)
    return numbers_in(asserted_text) or numbers_in(text)


def _boxed(text: str) -> str:
    r"""Return the content of the last `\boxed{}` of a text; "" if there is none."""
    boxes = [*_BOX.finditer(text)]
    if not boxes:
        return ""
    start = boxes[-1].end()
    content = text[start : start + MAX_BOX_CHARACTERS]
    open_braces = 1
    for position, character in enumerate(content):
        if character == "{":
            open_braces += 1
        elif character == "}":
            open_braces -= 1
        if open_braces == 0:
            return content[:position]
    return ""


def _labelled(text: str) -> str:
    """Return the statement after the last label such as "Answer:"; "" if it has no number.

    A label without a number after it is skipped.
    """
    labels = [*_LABEL.finditer(text)]
    for label in _last_first(labels):
        line = _line_after(text, label.end())
        statement = _SENTENCE_END.split(line, maxsplit=1)[0]
        numbers = _asserted_numbers(statement)
        if numbers and len(_words_before(statement, numbers[0])) <= MAX_WORDS_BEFORE:
            return _conclusion(statement) or statement
        if _asserted_numbers(line):
            # The answer begins with its derivation.
            return _conclusion(text[label.end() :]) or line
    return ""


def _last_first(signals: Sequence[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the last matches of a pattern, up to `MAX_SIGNALS`, the last one first."""
    return reversed(signals[-MAX_SIGNALS:])


def _line_after(text: str, position: int) -> str:
    """Return the rest of the line at a position, or the next line that has a letter or digit.

    Without such a line, return "".
    """
    rest_of_line, *next_lines = text[position:].split("\n")
    for line in (rest_of_line, *next_lines):
        if _LETTER_OR_DIGIT.search(line):
            return line.strip()
    return ""


def _words_before(text: str, number: Number) -> list[str]:
    """Return the words before a number, in lower case."""
    if number.text not in text:
        # The number was read in another way than it is written, as ½ is.
        return []
    before = text.partition(number.text)[0]
    return _WORD.findall(before.casefold())


def _bold(text: str) -> str:
    """Return the numbers in bold, one a line, each with its unit; "" if there are none.

    If the conclusion of the text has numbers in bold, only these count.
    """
    in_conclusion = _numbers_in_bold(_conclusion(text))
    if in_conclusion:
        return in_conclusion
    return _numbers_in_bold(text)


def _numbers_in_bold(text: str) -> str:
    """Return the numbers in bold of a text, one a line, each with its unit; "" if there are none.

    Labels, such as "**Line 7**:", and names with a number are left out.
    """
    lines = []
    for bold in _BOLD.finditer(text):
        content = bold["stars"] or bold["lines"] or bold["html"]
        following = text[bold.end() : bold.end() + 1]
        is_label = content.rstrip().endswith((":", "\uff1a")) or following in {":", "\uff1a"}
        numbers = numbers_in(content)
        if is_label or not numbers:
            continue
        is_name = not QUALIFIERS.issuperset(_words_before(content, numbers[0]))
        if is_name:
            continue
        # The unit or the power of ten may stand after what is bold.
        unit = _UNIT.match(text, bold.end())
        if unit:
            content += unit[0]
        lines.append(content)
    return "\n".join(lines)


def _conclusion(text: str) -> str:
    """Return a text from its conclusion on; "" if it has none with a number.

    A conclusion begins with a word such as "so", a correction, the result of an equation, or a
    total of the numbers before it.
    """
    starts = [match.start("signal") for match in _CONCLUDES.finditer(text)]
    starts += [match.end() for match in _CORRECTS.finditer(text)]
    starts += [match.end("equals") for match in _EQUATION.finditer(text)]
    starts += _starts_inside_sentences(text)
    starts.sort()
    last_starts = starts[-MAX_SIGNALS:]
    for start in reversed(last_starts):
        conclusion = text[start:]
        # At the beginning of the text, the word concludes from nothing.
        if start > 0 and numbers_in(conclusion):
            return conclusion
    return _text_from_total(text)


def _starts_inside_sentences(text: str) -> list[int]:
    """Return where numbers stand right after a word such as "so" inside a sentence.

    In "27 lines from 1990, so they are 30 years old", the word does not conclude the answer.
    """
    starts = []
    matches = [*_CONCLUDES_INSIDE.finditer(text)]
    for match in matches[-MAX_SIGNALS:]:
        following = text[match.end() : match.end() + TOTAL_CHARACTERS]
        numbers = numbers_in(following)
        if numbers and following.startswith(numbers[0].text):
            # With the marks of bold before the number.
            starts.append(match.start("marks"))
    return starts


def _text_from_total(text: str) -> str:
    """Return a text from the last total of its numbers on; "" if it has none.

    The total may stand after a word that says so, "12 and 15, so 27", or before it, "12 and 15,
    27 in total".
    """
    signals = [*_TOTAL.finditer(text)]
    for signal in _last_first(signals):
        start_of_addends = max(0, signal.start() - ADDENDS_CHARACTERS)
        before = text[start_of_addends : signal.start()]
        after = text[signal.end() : signal.end() + TOTAL_CHARACTERS]
        numbers_before = numbers_in(before)[-MAX_ADDENDS:]
        values_before = [_first_value(number) for number in numbers_before]

        numbers_after = numbers_in(after)
        if numbers_after and _is_total(_first_value(numbers_after[0]), values_before):
            return text[signal.end() :]
        if values_before and _is_total(values_before[-1], values_before[:-1]):
            start_of_total = start_of_addends + before.rfind(numbers_before[-1].text)
            return text[start_of_total:]
    return ""


def _first_value(number: Number) -> float:
    """Return the value that a number most likely has; 1,234 is English rather than German."""
    return number.readings[0].value


def _is_total(total: float, values: Sequence[float]) -> bool:
    """Return whether a total is the sum of two or more of the last values, or a difference.

    The difference is that of the last two, as in "40, but 2 are closed, so 38".
    """
    if len(values) > 1 and isclose(total, values[-2] - values[-1]):
        return True
    addends = 0.0
    for count, value in enumerate(reversed(values), start=1):
        addends += value
        if count > 1 and isclose(total, addends):
            return True
    return False
