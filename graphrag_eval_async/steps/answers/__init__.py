"""Matching of answers with reference answers by rules, without a judge: the metric
`answer_match`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import normalize

from graphrag_eval_async.errors import needs
from graphrag_eval_async.steps.numbers import numbers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.records.question import Matching

TOLERANCE = 1e-6  # Default maximum difference of a number, as a share of the reference number.
MAX_CHARACTERS = 100_000  # Those of an answer that count.
QUICK_CHARACTERS = 4000  # Longer answers are matched in threads: reading 4,000 takes up to 20 ms.
NAMED = 200  # Characters of the items that a reason names.

_GROUPED = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_split = re.compile(r"[,;|\n]|\s(?:and|&)\s", re.IGNORECASE).split
_MARKER = re.compile(r"\s*(?:[-\u2013*•+]\s+)?(?:\(?\d{1,3}[.)]\s+)?")
"""The bullet or the number before an item of a list."""

# No letters, digits or parts of a number may stand before or after it.
_BEFORE = r"(?<![^\W_])(?<!\d[.,](?=\d))(?<!\W[-\u2212](?=\d))(?<!^[-\u2212](?=\d))"
_AFTER = r"(?![^\W_]|(?<=\d)[.,]\d)"


def check_match(match: Matching | None, reference: str | None, tolerance: float | None) -> None:
    """Raise a `ValueError` that names the key if a reference answer cannot be matched this way."""
    if tolerance is not None and match != "number":
        raise ValueError("tolerance: needs `match: number`")
    if tolerance is not None and tolerance >= 1:
        raise ValueError("tolerance: is relative and must be below 1; 0.05 is 5%")
    if reference is None:
        raise ValueError("match: needs a reference_answer")
    if not reference.strip() or (match == "list" and not _items(reference)):
        raise ValueError("reference_answer: is blank, so no answer can match it")
    if match == "number" and (count := len(numbers_in(reference))) != 1:
        raise ValueError(f"reference_answer: must have one number for `match: number`, has {count}")
    if match == "regex":
        try:
            _finds(reference, "")
        except ImportError:
            raise ValueError(f"match: regex {needs('table')}") from None
        except ValueError as error:
            raise ValueError(f"reference_answer: {error}; the syntax is that of RE2") from None


def match_answer(
    match: Matching, reference: str, answer: str, tolerance: float | None
) -> tuple[float, str]:
    """The score of an answer, from 0 to 1, and why. The reference answer must have passed
    `check_match`.
    """
    answer, score, why = answer[:MAX_CHARACTERS], 0.0, ""
    if match == "list":
        score, why = _match_list(reference, answer)
    elif match == "contains":
        text = _plain(answer)
        lines = filter(str.strip, reference.split("\n"))
        lacking = [line for line in lines if not occurs(_plain(line), text)]
        score, why = float(not lacking), _named("lacks", lacking)
    elif match == "number":
        given, [known] = numbers_in(answer), numbers_in(reference)
        share = (TOLERANCE if tolerance is None else tolerance) * (1 + 1e-9)
        score = float(
            any(abs(a - b) <= share * abs(b) for each in given for a, b in each.pairs(known))
        )
        why = "" if score else _named("has", [number.text for number in given]) or "has no number"
    else:
        score = float(
            _finds(reference, answer) if match == "regex" else _plain(answer) == _plain(reference)
        )
    return score, f"{match}: {why or ('matches' if score else 'does not match')}"


def occurs(part: str, text: str) -> bool:
    """Whether a part stands in a text as whole words and numbers: 5 is not in 1.5, 5,000 and -5."""
    return part in text and bool(re.search(f"{_BEFORE}{re.escape(part)}{_AFTER}", text))


def _plain(text: str) -> str:
    """The text in one Unicode form, case and white space."""
    return " ".join(normalize("NFKC", normalize("NFKC", text).casefold()).split())


def _finds(pattern: str, text: str) -> bool:
    """Whether a pattern is found. Raises `ImportError`, or a `ValueError` if it is invalid."""
    import pyarrow  # It has RE2, which takes linear time.
    from pyarrow import compute

    scalar = pyarrow.scalar(text.encode(errors="replace").decode())
    return bool(compute.match_substring_regex(scalar, pattern=pattern).as_py())


def _items(text: str, *, grouped: bool = True) -> set[str]:
    """The items of a written list, without bullets and numbers; 1,000 is one item if `grouped`,
    else two.
    """
    parts = _split(_GROUPED.sub(lambda found: found[0].replace(",", ""), text) if grouped else text)
    return {
        *filter(
            None, (_plain(_MARKER.sub("", part, count=1)).strip(" .\"'`*_[]<>") for part in parts)
        )
    }


def _match_list(reference: str, answer: str) -> tuple[float, str]:
    """F1 of the items of an answer, and what it lacks and adds."""
    expected = _items(reference)
    lead, *rest = re.split(r":\s", answer, maxsplit=1)
    if rest and not any(": " in item for item in expected) and expected.isdisjoint(_items(lead)):
        [answer] = rest  # The introduction is not an item.
    given = _items(answer)
    readings = [
        (one, other)
        for one in (expected, _items(reference, grouped=False))
        for other in (given, _items(answer, grouped=False))
    ]
    pairs = [readings[0], *(each for each in readings[1:] if len(each[0] & each[1]) > 1)]
    expected, given = max(pairs, key=lambda each: _f1(*each))
    named = _named("lacks", sorted(expected - given)), _named("adds", sorted(given - expected))
    return _f1(expected, given), "; ".join(filter(None, named))


def _f1(expected: set[str], given: set[str]) -> float:
    return 2 * len(expected & given) / (len(expected) + len(given))


def _named(what: str, items: Sequence[str]) -> str:
    """Name items, shortened; "" if there are none."""
    listed = ", ".join(items)
    return f"{what} {listed if len(listed) <= NAMED else listed[:NAMED] + '...'}" if items else ""
