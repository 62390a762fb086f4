"""Matching of answers with reference answers by rules, without a judge: the metric
`answer_match`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.errors import needs
from graphrag_eval_async.steps.answers.conclusion import concluding_numbers
from graphrag_eval_async.steps.answers.items import items_of, match_list
from graphrag_eval_async.steps.answers.occurrence import occurs as occurs
from graphrag_eval_async.steps.answers.reasoning import without_reasoning
from graphrag_eval_async.steps.answers.text import bare, plain, without_emphasis, without_entities
from graphrag_eval_async.steps.numbers import Number, numbers_in, uncertain_numbers_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.records.question import Matching

TOLERANCE = 1e-6
"""The default maximum difference of a number, as a share of the reference number."""

MAX_CHARACTERS = 100_000
"""How many characters of an answer count, without its reasoning."""

QUICK_CHARACTERS = 2000
"""The length from which on answers are matched in threads: reading 2,000 takes up to 20 ms."""

MAX_WORDS_AFTER_UNCERTAIN = 2
"""How many words may follow "one" in a reference answer that is a number, such as its unit."""

MAX_SHOWN_CHARACTERS = 200
"""How many characters of the items a reason names."""

_ROUNDING = 1 + 1e-9
"""Widens a tolerance, so that a rounding error of a float does not count."""


def check_match(match: Matching | None, reference: str | None, tolerance: float | None) -> None:
    """Check that answers can be matched with a reference answer.

    Args:
        match: how to match them; None if neither the question nor the configuration says.
        reference: the reference answer; None if the question has none.
        tolerance: maximum difference of a number, as a share of it; None if it is not set.

    Raises:
        ValueError: answers cannot be matched; the message begins with the wrong key of the
            question.
    """
    if tolerance is not None and match != "number":
        raise ValueError("tolerance: needs `match: number`")
    if tolerance is not None and tolerance >= 1:
        raise ValueError("tolerance: is relative and must be below 1; 0.05 is 5%")
    if reference is None:
        raise ValueError("match: needs a reference_answer")
    _check_length(match, reference)
    is_blank = not plain(reference)
    if is_blank or (match == "list" and not items_of(reference)):
        raise ValueError("reference_answer: is blank, so no answer can match it")
    if match == "number":
        count = len(_reference_numbers(reference))
        if count != 1:
            raise ValueError(
                f"reference_answer: must have one number for `match: number`, has {count}"
            )
    if match == "regex":
        try:
            # Called for its error, which it raises if the pattern is no valid expression.
            _matches_pattern("", reference)
        except ImportError:
            raise ValueError(f"match: regex {needs('table')}") from None
        except ValueError as error:
            raise ValueError(f"reference_answer: {error}; the syntax is that of RE2") from None


def _check_length(match: Matching | None, reference: str) -> None:
    """Check that a reference answer is not longer than what is read of an answer.

    No answer could match a longer list or number, and reading it would take seconds.

    Raises:
        ValueError: the reference answer is longer.
    """
    if match in {"number", "list"} and len(reference) > MAX_CHARACTERS:
        raise ValueError(
            f"reference_answer: has more than {MAX_CHARACTERS:,} characters, which is all that "
            f"`match: {match}` reads of an answer"
        )


def match_answer(
    match: Matching, reference: str, answer: str, tolerance: float | None
) -> tuple[float, str]:
    """Return the score of an answer, from 0 to 1, and the reason for it.

    Args:
        match: how to compare the answers.
        reference: a reference answer that `check_match` accepts.
        answer: the whole answer; its reasoning does not count.
        tolerance: maximum difference of a number, as a share of it; None for `TOLERANCE`.
    """
    statement = without_reasoning(answer)[:MAX_CHARACTERS]
    if answer.strip() and not statement.strip():
        return 0.0, f"{match}: the answer is nothing but reasoning"

    reason = ""
    if match == "list":
        score, reason = _match_items(reference, statement)
    elif match == "contains":
        score, reason = _match_parts(reference, statement)
    elif match == "number":
        score, reason = _match_number(reference, statement, tolerance)
    elif match == "regex":
        score = float(_matches_pattern(statement, reference))
    else:
        score = float(bare(statement) == bare(reference))

    if not reason:
        reason = "matches" if score else "does not match"
    return score, f"{match}: {reason}"


def _match_items(reference: str, answer: str) -> tuple[float, str]:
    """Return the F1 of an answer's items against those of the reference answer, and a reason.

    The reason names the items that the answer lacks and adds; "" if there are none.
    """
    matched = match_list(reference, answer)
    reasons = [_reason("lacks", matched.missing), _reason("adds", matched.added)]
    return matched.f1, "; ".join(filter(None, reasons))


def _match_parts(reference: str, answer: str) -> tuple[float, str]:
    """Return 1 if each line of the reference answer occurs in an answer, else 0, and a reason.

    The reason names the lines that do not occur; it is "" if all do.
    """
    plain_answer = plain(answer)
    parts = [line for line in reference.split("\n") if plain(line)]
    missing = [part for part in parts if not occurs(plain(part), plain_answer)]
    if missing:
        # Emphasis may stand within a line: "**120** km" is the same as "120 km".
        unmarked_answer = plain(without_emphasis(answer))
        missing = [
            part for part in missing if not occurs(plain(without_emphasis(part)), unmarked_answer)
        ]
    return float(not missing), _reason("lacks", missing)


def _match_number(reference: str, answer: str, tolerance: float | None) -> tuple[float, str]:
    """Return 1 if an answer has the number of the reference answer, else 0, and a reason.

    The reason names the numbers that the answer has instead; "" if it has the right one.
    """
    [expected] = _reference_numbers(reference)
    relative_tolerance = TOLERANCE if tolerance is None else tolerance
    numbers = concluding_numbers(answer)
    for number in numbers:
        for value, expected_value in number.pairs(expected):
            max_difference = relative_tolerance * _ROUNDING * abs(expected_value)
            if abs(value - expected_value) <= max_difference:
                return 1.0, ""
    if not numbers:
        return 0.0, "has no number"
    return 0.0, _reason("has", [number.text for number in numbers])


def _reference_numbers(reference: str) -> list[Number]:
    """Return the numbers of a reference answer.

    A word such as "one" counts only at the beginning of a short answer: in "one line", not in
    "Shoma Uno".
    """
    numbers = numbers_in(without_entities(reference))
    is_short = len(reference.split()) <= MAX_WORDS_AFTER_UNCERTAIN + 1
    if numbers or not is_short:
        return numbers
    uncertain = uncertain_numbers_in(reference)
    if uncertain and reference.strip().startswith(uncertain[0].text):
        return uncertain[:1]
    return []


def _matches_pattern(text: str, pattern: str) -> bool:
    """Return whether a text has a match of a regular expression in the syntax of RE2.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the expression is invalid.
    """
    import pyarrow  # It has RE2, which takes linear time.
    from pyarrow import compute

    scalar = pyarrow.scalar(text.encode(errors="replace").decode())
    return bool(compute.match_substring_regex(scalar, pattern=pattern).as_py())


def _reason(verb: str, items: Sequence[str]) -> str:
    """Return a reason such as "lacks Berlin, Bonn", shortened; "" if there are no items."""
    if not items:
        return ""
    names = ", ".join(items)
    if len(names) > MAX_SHOWN_CHARACTERS:
        names = names[:MAX_SHOWN_CHARACTERS] + "..."
    return f"{verb} {names}"
