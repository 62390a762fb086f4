"""`assert_evaluation`, by which a test of an agent says what it expects of a result.

It works under pytest and any other runner of tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import OPERATORS, parse_bound
from graphrag_eval_async.catalogue.metrics import COST, RESULT_KEYS, RETRIEVAL_METRICS
from graphrag_eval_async.catalogue.outcomes import (
    AGENT_ERROR,
    CUSTOM_METRICS,
    ERRORS_OF_RESULT,
    REASON,
)
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import did_you_mean, escape, one_line, plural
from graphrag_eval_async.reports.evidence import Step, pairs_of
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LINES = 10
"""Maximum number of lines that a message shows of an output."""

MOST_CHARACTERS = 160
"""Maximum number of characters that a message shows of a value or of a line."""

_COMPARISON = re.compile(r"\s*(?P<operator>[<>]=?)(?P<bound>.*)", re.DOTALL)

_EXPLAINING_KEYS = (
    REASON,
    "failure_detail",
    "error",
    "pending",
    "reference_answer",
    "actual_answer",
    "answer_match_reason",
)
"""Keys of a result that explain why it is not as expected, in the order of the message."""


def assert_evaluation(result: Mapping[str, Any], /, **expected: Any) -> None:
    """Assert what a result should be: ``assert_evaluation(result, steps_score=">= 0.8",
    failure="none")``.

    Args:
        result: a result, as `Evaluator.evaluate`, `run_evaluation` and streams return it.
        expected: by key of the result, such as a metric or an output of a custom evaluation, what
            its value should be: a comparison as text (``">= 0.8"``, or with ``>``, ``<=`` or
            ``<``), a function that is true for it, or an equal value. None: it has no value.

    Raises:
        AssertionError: a condition does not hold. The message lists each with the value found, why
            the response is wrong, both answers, and the first step that differs from the reference.
        UsageError: `result` is not a result, results have no such key, or a comparison is invalid.
    """
    __tracebackhide__ = True  # pytest shows the line of the test.
    is_result = isinstance(result, Mapping) and {"template_id", "question_id"} <= result.keys()
    if not is_result or not expected:
        conditions = plural(len(expected), "condition")
        raise UsageError(
            'assert_evaluation: expected a result and conditions, such as failure="none"; '
            f"got {type(result).__name__} and {conditions}"
        )
    problems = []
    for key, condition in expected.items():
        problem = _problem_at(key, condition, result)
        if problem is not None:
            problems.append(problem)
    if problems:
        raise AssertionError(escape("\n".join(_message_lines(result, problems))))


def _problem_at(key: str, expected: Any, result: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the value of a key of a result; None if it is as expected.

    Args:
        key: the key.
        expected: a condition, as `assert_evaluation` takes it.
        result: the result.

    Raises:
        UsageError: results have no such key, or the condition is an invalid comparison.
    """
    __tracebackhide__ = True
    _check_key(key, result)
    value = result.get(key)
    comparison = _COMPARISON.match(expected) if isinstance(expected, str) else None
    if comparison is not None:
        try:
            bound = parse_bound(expected, comparison["bound"].strip(), key)
        except ValueError as error:
            raise UsageError(f"{key}: {str(error).removeprefix(f'{key} ')}") from None
        holds = isinstance(value, int | float) and OPERATORS[comparison["operator"]](value, bound)
        condition = f"expected {expected.strip()}"
    elif callable(expected):
        holds = value is not None and bool(expected(value))
        condition = f"for which {getattr(expected, '__name__', expected)} is not true"
    else:
        holds = value == expected
        condition = f"expected {expected!r:.{MOST_CHARACTERS}}"

    if holds:
        return None
    if value is None:
        return f"{key}: has no value ({_why_absent(key, result)}), {condition}"
    return f"{key}: {value!r:.{MOST_CHARACTERS}}, {condition}"


def _check_key(key: str, result: Mapping[str, Any]) -> None:
    """Check that a result may have a key.

    Raises:
        UsageError: no result has it.
    """
    __tracebackhide__ = True
    judge = result.get("judge") or {}
    keys_of_results = sorted(RESULT_KEYS.difference(RETRIEVAL_METRICS))
    known = dict.fromkeys(
        [*result, *judge.get("outputs", ()), *_metrics_in_code(result), *keys_of_results]
    )
    # A result with an error lacks keys of metrics that others have.
    is_error = result.get("status") == "error"
    if key in known or key.endswith(COST) or is_error or _is_of_metric_in_code(key, result):
        return
    raise UsageError(f"{key}: not a key of results; {did_you_mean(key, known)}")


def _metrics_in_code(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the metrics in code of a result."""
    section = result.get(CUSTOM_METRICS) or {}
    names: Sequence[str] = section.get("names", ())
    return names


def _is_of_metric_in_code(key: str, result: Mapping[str, Any]) -> bool:
    """Return whether a metric in code may have its value at a key: ``NAME`` or ``NAME_...``."""
    return any(key == name or key.startswith(f"{name}_") for name in _metrics_in_code(result))


def _why_absent(key: str, result: Mapping[str, Any]) -> Any:
    """Return why a result has no value at a key: an error in the result, or what else may be."""
    keys_of_errors = [f"{key}_error"]
    keys_of_errors += [error for error, metrics in ERRORS_OF_RESULT.items() if key in metrics]
    keys_of_errors.append("error")
    for key_of_error in keys_of_errors:
        if result.get(key_of_error):
            return result[key_of_error]
    if _is_of_metric_in_code(key, result):
        return "skipped"
    return "not configured, or nothing to compare or judge"


def _message_lines(result: Mapping[str, Any], problems: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the message of an `AssertionError`.

    Args:
        result: the result, of which the message shows what explains the problems.
        problems: the conditions that do not hold.
    """
    question = one_line(str(result.get("question_text", "")))
    yield f"question {result['question_id']!r}: {question}"
    for problem in problems:
        yield f"  {problem}"
    for key in _EXPLAINING_KEYS:
        value = result.get(key)
        # The detail of an error of the agent is the first line of the `error`, which follows.
        repeats_error = key == "failure_detail" and result.get(REASON) == AGENT_ERROR
        if value is not None and value != NO_FAILURE and not repeats_error:
            yield f"{key}: {one_line(_value_in_words(key, value), limit=MOST_CHARACTERS)}"
    # The steps of a response with an error are not compared.
    if result.get("status") != "error":
        yield from _lines_of_steps(result)


def _value_in_words(key: str, value: Any) -> str:
    """Return the value of one of `_EXPLAINING_KEYS` as text."""
    if key == REASON:
        return reason_in_words(str(value))
    if key.endswith("_answer"):
        # An answer that is a list has an item on each line.
        return repr(str(value))
    return str(value)


def _lines_of_steps(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the first reference step that no step matches expected, and what came instead."""
    differing = [
        pair
        for pair in pairs_of(result)
        if pair.expected is not None and pair.verdict not in ("matched", "earlier step")
    ]
    if not differing:
        return
    pair = differing[0]
    assert pair.expected is not None  # noqa: S101  (see above)
    heading = f"reference step {pair.expected.name}: {pair.verdict}"
    if len(differing) > 1:
        heading += f" (the first of {len(differing)} steps that differ)"
    yield heading
    yield from _block("expected", _output_lines(pair.expected))
    if pair.actual is None:
        yield from _block("actual", ["no such step"])
    else:
        yield from _block("called with", pair.actual.args.splitlines())
        yield from _block("actual", _output_lines(pair.actual))
    differences = [f"{difference.name}: {difference.text}" for difference in pair.differences]
    yield from _block("differences", differences)


def _output_lines(step: Step) -> list[str]:
    """Return the lines of the output of a step, or of its error."""
    lines = step.text.splitlines()
    if step.error:
        lines = [f"error: {step.error}"]
    for document in step.documents:
        lines.append(f"{document.mark or 'document'} {document.name}: {document.text}")
    if step.table is not None:
        rows = step.table.rows or [["(no rows)"]]
        lines += [" | ".join(row) for row in [step.table.headings, *rows]]
    return lines


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a title, and the first lines indented below it; nothing if there are no lines."""
    if not lines:
        return
    yield f"  {title}:"
    for line in lines[:MOST_LINES]:
        yield f"    {one_line(line, limit=MOST_CHARACTERS)}"
    unshown = len(lines) - MOST_LINES
    if unshown > 0:
        yield f"    ... {plural(unshown, 'more line')}"
