"""An example of each reason of failure: what was expected of the agent, and what it did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, REASON
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.reports.evidence import pairs_of
from graphrag_eval_async.reports.kept import text_of
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.records.evaluation import Evaluation
    from graphrag_eval_async.reports.evidence import Pair, Step

REASONS_OF_ANSWERS = frozenset({"wrong_answer", "right_steps_wrong_answer", "no_answer"})
"""The reasons of failure that answers show, and not steps."""

VERDICTS_WITHOUT_FAULT = frozenset({"matched", "earlier step", "not expected"})
"""The verdicts on pairs of steps that do not explain why a result failed."""

MAX_VALUES = 5
"""How many values of a table an example quotes."""

MAX_CHARACTERS = 200
"""How many characters of either side an example quotes."""

LAST_PART_OF_IRI = re.compile(r"https?://\S*[/#]([^\s/#]+)")
"""An IRI whose last part is enough to recognize it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A result that failed, in short.

    Attributes:
        question_id: the question.
        question: the beginning of its text; "" without one.
        expected: the answer, values or step that the reference set expects; "" if it has none.
        actual: what the agent gave instead.
    """

    question_id: str
    question: str
    expected: str
    actual: str

    @property
    def in_words(self) -> str:
        """The two sides, such as "expected Grace Hopper; got Donald Knuth"."""
        if not self.expected:
            return f"got {self.actual}"
        return f"expected {self.expected}; got {self.actual}"


class Examples:
    """Keeps the first result of each reason of failure as an example.

    Attributes:
        by_reason: the example of each reason.
    """

    def __init__(self) -> None:
        self.by_reason: dict[str, Example] = {}

    def add(self, seen: Evaluation) -> None:
        """Keep a result if it is the first with its reason of failure."""
        result = seen.as_dict()
        if REASON in result:
            reason = result[REASON]
        elif seen.failed:
            # Errors in results of other programs have no reason.
            reason = AGENT_ERROR
        else:
            return
        is_failure = isinstance(reason, str) and reason != NO_FAILURE
        if is_failure and reason not in self.by_reason:
            self.by_reason[reason] = example_of(result)


def example_of(result: Mapping[str, Any], pairs: Sequence[Pair] | None = None) -> Example:
    """Return a result that failed as an example.

    Args:
        result: the result.
        pairs: its expected and actual steps; None if they have not been compared yet.
    """
    expected, actual = expected_and_actual(result, pairs)
    return Example(
        question_id=str(result.get("question_id") or ""),
        question=text_of(result),
        expected=one_line(expected, limit=MAX_CHARACTERS),
        actual=one_line(actual, limit=MAX_CHARACTERS),
    )


def expected_and_actual(
    result: Mapping[str, Any], pairs: Sequence[Pair] | None = None
) -> tuple[str, str]:
    """Return what the reference set expects of a result that failed, and what the agent gave.

    If it failed because of its steps, both are about the first step that went wrong. Otherwise
    they are the answers.

    Args:
        result: the result.
        pairs: its expected and actual steps; None if they have not been compared yet.
    """
    expected_answer = _text_or_empty(result.get("reference_answer"))
    if result.get("status") == "error":
        error = _text_or_empty(result.get("error")) or "no message"
        return expected_answer, f"an error: {error}"

    if result.get(REASON) not in REASONS_OF_ANSWERS:
        if pairs is None:
            pairs = pairs_of(result)
        for pair in pairs:
            if pair.verdict not in VERDICTS_WITHOUT_FAULT:
                return _sides_of_pair(pair, result)
    actual_answer = _text_or_empty(result.get("actual_answer")) or "no answer"
    return expected_answer, actual_answer


def _text_or_empty(value: Any) -> str:
    """Return a value of a result as text; "" for None."""
    return "" if value is None else str(value)


def _sides_of_pair(pair: Pair, result: Mapping[str, Any]) -> tuple[str, str]:
    """Return how an expected step and the agent's step beside it differ: a text for either side.

    Args:
        pair: both steps.
        result: the result that they belong to.
    """
    if pair.expected is None:
        return "", _step_in_words(pair.actual)
    if pair.actual is None:
        return f"a step {pair.expected.name}", _steps_of_agent(result)
    if pair.actual.error:
        return _step_in_words(pair.expected), f"an error: {pair.actual.error}"

    wrong_args = _texts_of_differences(pair, "wrong arg")
    if wrong_args:
        return f"other arguments of {pair.expected.name}", wrong_args[0]
    if _is_cut(pair.expected) or _is_cut(pair.actual):
        # A row of one table may be among the hidden rows of the other one, so that tables that are
        # cut cannot be compared here.
        missing = _texts_of_differences(pair, "missing row")
        unexpected = _texts_of_differences(pair, "extra row")
        return _list_values(missing) or "other rows", _list_values(unexpected) or "other rows"
    return _differing_values(_values_of_step(pair.expected), _values_of_step(pair.actual))


def _texts_of_differences(pair: Pair, kind: str) -> list[str]:
    """Return the texts of the differences between two steps that are of a kind.

    Args:
        pair: the steps.
        kind: the kind of the differences, such as "missing row".
    """
    return [difference.text for difference in pair.differences if difference.name == kind]


def _is_cut(step: Step) -> bool:
    """Return whether some rows or columns of the table that a step returned are hidden."""
    return step.table is not None and bool(step.table.hidden)


def _differing_values(expected: Sequence[str], actual: Sequence[str]) -> tuple[str, str]:
    """Return the expected and the actual values of a step in words, without the common values."""
    missing = [value for value in expected if value not in actual]
    unexpected = [value for value in actual if value not in expected]
    if not missing and not unexpected:
        # The values differ in their order, or in how often one occurs.
        return _list_values(expected), _list_values(actual)

    short_missing = [_shorten_iris(value) for value in missing]
    short_unexpected = [_shorten_iris(value) for value in unexpected]
    still_differ = set(short_missing).isdisjoint(short_unexpected)
    if still_differ:
        missing = short_missing
        unexpected = short_unexpected
    expected_values = _list_values(missing) or _only(expected)
    actual_values = _list_values(unexpected) or _only(actual)
    return expected_values, actual_values


def _only(values: Sequence[str]) -> str:
    """Return all values of a step in words, such as "only Lindau"; "nothing" if it has none."""
    if not values:
        return "nothing"
    return f"only {_list_values([_shorten_iris(value) for value in values])}"


def _shorten_iris(value: str) -> str:
    """Return a value in which each IRI is replaced by its last part."""
    return LAST_PART_OF_IRI.sub(r"\1", value)


def _list_values(values: Sequence[str]) -> str:
    """Return the first `MAX_VALUES` values, and how many more there are; "" without values."""
    shown = values[:MAX_VALUES]
    separator = ", "
    if any(", " in value for value in shown):
        # A value may be a row of a table, whose cells are separated by commas.
        separator = "; "
    in_words = separator.join(shown)
    hidden = len(values) - len(shown)
    if hidden > 0:
        in_words += f" and {hidden} more"
    return in_words


def _values_of_step(step: Step) -> list[str]:
    """Return what a step returned: a text for each row or document, or its whole output."""
    if step.table is not None:
        return [", ".join(row) for row in step.table.rows]
    if step.documents:
        return [document.name for document in step.documents if document.name]
    return [step.text] if step.text else []


def _step_in_words(step: Step | None) -> str:
    """Return what a step returned, or its name if it returned nothing; "nothing" for None."""
    if step is None:
        return "nothing"
    values = [_shorten_iris(value) for value in _values_of_step(step)]
    return _list_values(values) or f"a step {step.name}"


def _steps_of_agent(result: Mapping[str, Any]) -> str:
    """Return the names of the steps that the agent took, each once, as a list in words."""
    steps = result.get("actual_steps") or ()
    names = [str(step.get("name")) for step in steps if isinstance(step, dict)]
    different_names = list(dict.fromkeys(names))
    return _list_values(different_names) or "no steps"
