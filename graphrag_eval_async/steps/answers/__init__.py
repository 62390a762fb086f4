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
    """Check that a reference answer can be matched.

    Raises:
        ValueError: it cannot; the message begins with the key that is wrong.
    """
    if tolerance is not None and match != "number":
        raise ValueError("tolerance: needs `match: number`")
    if tolerance is not None and tolerance >= 1:
        raise ValueError("tolerance: is relative and must be below 1; 0.05 is 5%")
    if reference is None:
        raise ValueError("match: needs a reference_answer")
    if not plain(reference) or (match == "list" and not items_of(reference)):
        raise ValueError("reference_answer: is blank, so no answer can match it")
    if match == "number":
        count = len(_reference_numbers(reference))
        if count != 1:
            raise ValueError(
                f"reference_answer: must have one number for `match: number`, has {count}"
            )
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
    """Return the score of an answer, from 0 to 1, and the reason for it.

    Args:
        match: how to compare the answers.
        reference: a reference answer that `check_match` accepts.
        answer: the whole answer; its reasoning does not count.
        tolerance: for numbers, None for the default.
    """
    said = without_reasoning(answer)[:MAX_CHARACTERS]
    if not said.strip() and answer.strip():
        return 0.0, f"{match}: the answer is nothing but reasoning"

    if match == "list":
        score, reason = _match_items(reference, said)
    elif match == "contains":
        score, reason = _match_parts(reference, said)
    elif match == "number":
        score, reason = _match_number(reference, said, tolerance)
    elif match == "regex":
        score, reason = float(_finds(reference, said)), ""
    else:
        score, reason = float(bare(said) == bare(reference)), ""

    if not reason:
        reason = "matches" if score else "does not match"
    return score, f"{match}: {reason}"


def _match_items(reference: str, answer: str) -> tuple[float, str]:
    """Return the F1 of an answer's items, and which it lacks and adds."""
    matched = match_list(reference, answer)
    reasons = [_named("lacks", matched.missing), _named("adds", matched.added)]
    return matched.f1, "; ".join(filter(None, reasons))


def _match_parts(reference: str, answer: str) -> tuple[float, str]:
    """Return 1 if each line of the reference answer occurs in an answer, and which do not."""
    text = plain(answer)
    missing = []
    for line in reference.split("\n"):
        part = plain(line)
        if not part or occurs(part, text):
            continue
        missing.append(line)
    if missing:
        # "**120** km" is the same as "120 km".
        text = plain(without_emphasis(answer))
        missing = [line for line in missing if not _occurs_without_emphasis(line, text)]
    return float(not missing), _named("lacks", missing)


def _occurs_without_emphasis(line: str, text: str) -> bool:
    part = plain(without_emphasis(line))
    return part != "" and occurs(part, text)


def _match_number(reference: str, answer: str, tolerance: float | None) -> tuple[float, str]:
    """Return 1 if the number of an answer is the expected one, and else which numbers it has."""
    [expected] = _reference_numbers(reference)
    share = TOLERANCE if tolerance is None else tolerance
    numbers = concluding_numbers(answer)
    for number in numbers:
        for value, expected_value in number.pairs(expected):
            if abs(value - expected_value) <= share * _ROUNDING * abs(expected_value):
                return 1.0, ""
    if not numbers:
        return 0.0, "has no number"
    return 0.0, _named("has", [number.text for number in numbers])


def _reference_numbers(reference: str) -> list[Number]:
    """Return the numbers of a reference answer; "one" counts in "one line", not in "Shoma Uno"."""
    numbers = numbers_in(without_entities(reference))
    if numbers or len(reference.split()) > MAX_WORDS_AFTER_UNCERTAIN + 1:
        return numbers
    uncertain = uncertain_numbers_in(reference)
    begins_with_it = uncertain and reference.strip().startswith(uncertain[0].text)
    return uncertain[:1] if begins_with_it else []


def _finds(pattern: str, text: str) -> bool:
    """Return whether a pattern is found.

    Raises:
        ImportError: pyarrow is not installed.
        ValueError: the pattern is invalid.
    """
    import pyarrow  # It has RE2, which takes linear time.
    from pyarrow import compute

    scalar = pyarrow.scalar(text.encode(errors="replace").decode())
    return bool(compute.match_substring_regex(scalar, pattern=pattern).as_py())


def _named(verb: str, items: Sequence[str]) -> str:
    """Return a reason that names items, shortened; "" if there are none."""
    if not items:
        return ""
    names = ", ".join(items)
    if len(names) > MAX_SHOWN_CHARACTERS:
        names = names[:MAX_SHOWN_CHARACTERS] + "..."
    return f"{verb} {names}"
