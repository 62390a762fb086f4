"""`assert_evaluation`: what a test of an agent expects of a result, for pytest or any other
runner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import repeat
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
from graphrag_eval_async.reports.evidence import Step, pairs_of
from graphrag_eval_async.reports.wording import reason_in_words
from graphrag_eval_async.steps.failure import NO_FAILURE
from graphrag_eval_async.text import did_you_mean, escape, one_line, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES, CHARACTERS = 10, 160  # Shown of an output, and of a line.

_COMPARISON = re.compile(r"\s*([<>]=?)(.*)", re.DOTALL)


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
        told = f"got {type(result).__name__} and {plural(len(expected), 'condition')}"
        raise UsageError(
            f'assert_evaluation: expected a result and conditions, such as failure="none"; {told}'
        )
    if broken := [*filter(None, map(_broken, repeat(result), expected, expected.values()))]:
        raise AssertionError(escape("\n".join([*_told(result, broken)])))


def _broken(result: Mapping[str, Any], key: str, expected: Any) -> str:
    """Say what is wrong with the value of a key; "" if it is as expected."""
    __tracebackhide__ = True
    outputs = (result.get("judge") or {}).get("outputs", ())
    names = (result.get(CUSTOM_METRICS) or {}).get("names", ())
    in_code = key in names or key.startswith((*(f"{name}_" for name in names),))
    known = dict.fromkeys(
        [*result, *outputs, *names, *sorted(RESULT_KEYS.difference(RETRIEVAL_METRICS))]
    )
    if key not in known and not (in_code or key.endswith(COST) or result.get("status") == "error"):
        raise UsageError(f"{key}: not a key of results; {did_you_mean(key, known)}")
    found = result.get(key)
    wanted, holds = f"expected {expected!r:.{CHARACTERS}}", found == expected
    if isinstance(expected, str) and (match := _COMPARISON.match(expected)):
        try:
            bound = parse_bound(expected, match[2].strip(), key)
        except ValueError as error:
            raise UsageError(f"{key}: {str(error).removeprefix(f'{key} ')}") from None
        wanted = f"expected {expected.strip()}"
        holds = isinstance(found, int | float) and OPERATORS[match[1]](found, bound)
    elif callable(expected):
        wanted = f"for which {getattr(expected, '__name__', expected)} is not true"
        holds = found is not None and bool(expected(found))
    if holds or found is not None:
        return "" if holds else f"{key}: {found!r:.{CHARACTERS}}, {wanted}"
    errors = [
        f"{key}_error",
        *(each for each, values in ERRORS_OF_RESULT.items() if key in values),
        "error",
    ]
    lacking = "skipped" if in_code else "not configured, or nothing to compare or judge"
    why = next((result[each] for each in errors if result.get(each)), lacking)
    return f"{key}: has no value ({why}), {wanted}"


def _told(result: Mapping[str, Any], broken: Sequence[str]) -> Iterator[str]:
    """The message: what does not hold, and what explains it."""
    yield f"question {result['question_id']!r}: {one_line(str(result.get('question_text', '')))}"
    yield from (f"  {each}" for each in broken)
    answers = ("reference_answer", "actual_answer", "answer_match_reason")
    for key in (REASON, "failure_detail", "error", "pending", *answers):
        if key == "failure_detail" and result.get(REASON) == AGENT_ERROR:
            continue  # It is the first line of the `error`, which follows.
        if (value := result.get(key)) not in (None, NO_FAILURE):
            told = reason_in_words(str(value)) if key == REASON else str(value)
            told = repr(value) if key.endswith("_answer") else told  # A list has an item a line.
            yield f"{key}: {one_line(told, limit=CHARACTERS)}"
    if result.get("status") == "error":  # Its steps are not compared.
        return
    expected = [(pair.expected, pair) for pair in pairs_of(result) if pair.expected is not None]
    differing = [each for each in expected if each[1].verdict not in ("matched", "earlier step")]
    for step, pair in differing[:1]:
        more = f" (the first of {len(differing)} steps that differ)" if differing[1:] else ""
        yield f"reference step {step.name}: {pair.verdict}{more}"
        yield from _block("expected", _output(step))
        yield from _block("called with", pair.actual.args.splitlines() if pair.actual else ())
        yield from _block("actual", _output(pair.actual))
        yield from _block("differences", [f"{each.name}: {each.text}" for each in pair.differences])


def _output(step: Step | None) -> list[str]:
    """The output of a step, or its error, by line."""
    if step is None:
        return ["no such step"]
    lines = [f"error: {step.error}"] if step.error else step.text.splitlines()
    lines += [f"{each.mark or 'document'} {each.name}: {each.text}" for each in step.documents]
    if step.table is not None:
        lines += [
            " | ".join(row) for row in [step.table.headings, *(step.table.rows or [["(no rows)"]])]
        ]
    return lines


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    """The first lines, indented below a title; nothing if there are none."""
    more = [f"... {plural(len(lines) - LINES, 'more line')}"] if len(lines) > LINES else []
    yield from [f"  {title}:"] if lines else []
    yield from (f"    {one_line(line, limit=CHARACTERS)}" for line in (*lines[:LINES], *more))
