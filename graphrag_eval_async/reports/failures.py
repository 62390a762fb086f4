"""Counts why results of a run failed: by reason, with their texts and templates."""

from __future__ import annotations

import re
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, REASON
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from graphrag_eval_async.records.evaluation import Evaluation

MAX_REASONS = 50
"""Maximum number of reasons; there are about 25 unless another program scored the results."""

MAX_TEXTS = 100
"""Maximum number of different texts that are counted for a reason: the first ones."""

MAX_TEMPLATES = 1000
"""Maximum number of templates that are counted for a reason: the first ones."""

MAX_RECENT = 1000
"""Number of the latest failures that are kept to explain a change."""

TEXT_CHARACTERS = 160
REASON_CHARACTERS = 100

_STEP_BEFORE_TEXT = re.compile(r"actual_steps\[\d+\] \(([^()]*)\): ")
"""The step that a `failure_detail` names first. Its place differs from response to response."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A result that failed.

    Attributes:
        number: its number in the run, from 1.
        template: its template.
        reason: why it failed, such as "step_error".
        text: what its error says, or which step it is about; empty if nothing is known.
    """

    number: int
    template: str
    reason: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasonSummary:
    """What most results that failed for one reason have in common.

    Attributes:
        text: the most frequent text; empty if no result has one.
        results_with_text: how many results have this text.
        template: the most frequent template.
        results_of_template: how many results it has.
    """

    text: str
    results_with_text: int
    template: str
    results_of_template: int


class ReasonCounts:
    """The results that failed for one reason.

    Attributes:
        texts: how many results have each text.
        templates: how many results each template has.
    """

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()
        self.templates: Counter[str] = Counter()

    def summary(self) -> ReasonSummary:
        """Return what most of the results have in common."""
        text, results_with_text = _commonest(self.texts)
        template, results_of_template = _commonest(self.templates)
        return ReasonSummary(
            text=text,
            results_with_text=results_with_text,
            template=template,
            results_of_template=results_of_template,
        )


class Failures:
    """The results of a run that failed, by reason.

    Attributes:
        reasons: the counts of each reason.
        recent: the latest failures, the latest last.
    """

    def __init__(self) -> None:
        self.reasons: dict[str, ReasonCounts] = {}
        self.recent: deque[Failure] = deque(maxlen=MAX_RECENT)

    def add(self, failure: Failure) -> None:
        """Count a result that failed, unless it has one reason more than `MAX_REASONS`."""
        self.recent.append(failure)
        if failure.reason not in self.reasons:
            if len(self.reasons) >= MAX_REASONS:
                return
            self.reasons[failure.reason] = ReasonCounts()
        counts = self.reasons[failure.reason]
        if failure.text:
            _count(counts.texts, failure.text, MAX_TEXTS)
        _count(counts.templates, failure.template, MAX_TEMPLATES)

    def summaries(self) -> dict[str, ReasonSummary]:
        """Return what the results of each reason have in common, by reason."""
        return {reason: counts.summary() for reason, counts in self.reasons.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The most frequent reason of some failures.

    Attributes:
        failures: number of the failures.
        reason: the reason.
        results: how many of the failures have it.
        text: the most frequent text of these; empty if none has one.
    """

    failures: int
    reason: str
    results: int
    text: str


def explain(failures: Sequence[Failure]) -> Explanation | None:
    """Return the most frequent reason of failures, and its most frequent text.

    Returns:
        None if there are no failures.
    """
    if not failures:
        return None
    reasons = Counter(failure.reason for failure in failures)
    reason, results = _commonest(reasons)
    texts = Counter(
        failure.text for failure in failures if failure.reason == reason and failure.text
    )
    text, _ = _commonest(texts)
    return Explanation(failures=len(failures), reason=reason, results=results, text=text)


def failure_of(number: int, seen: Evaluation) -> Failure | None:
    """Return why a result failed; None if it did not.

    Args:
        number: the number of the result in the run, from 1.
        seen: the result.
    """
    result = seen.as_dict()
    reason = AGENT_ERROR if seen.failed else result.get(REASON, NO_FAILURE)
    # Results of other programs may have a reason that is no text.
    if not isinstance(reason, str) or reason == NO_FAILURE:
        return None
    return Failure(
        number=number,
        template=str(seen.template_id),
        reason=reason[:REASON_CHARACTERS],
        text=_text_of_failure(result, is_error=seen.failed),
    )


def _text_of_failure(result: Mapping[str, Any], *, is_error: bool) -> str:
    """Return the first line of the text that explains a failed result; "" if there is none.

    Args:
        result: the result.
        is_error: whether it is an error of the agent.
    """
    text = result.get("error") if is_error else result.get("failure_detail")
    if text is None:
        return ""
    lines = str(text).strip().splitlines()
    if not lines:
        return ""
    # Without the step that failed, failures of the same kind have the same text.
    line_without_step = _STEP_BEFORE_TEXT.sub("", lines[0], count=1)
    return one_line(line_without_step, limit=TEXT_CHARACTERS)


def _count(counts: Counter[str], name: str, max_names: int) -> None:
    """Count a name in `counts`, unless it is new and there are `max_names` names already."""
    has_room = len(counts) < max_names
    if name in counts or has_room:
        counts[name] += 1


def _commonest(counts: Counter[str]) -> tuple[str, int]:
    """Return the most frequent name and its count; "" and 0 if there are no names.

    Of equally frequent names, it is the first in alphabetical order.
    """
    if not counts:
        return "", 0
    name = min(counts, key=lambda name: (-counts[name], name))
    return name, counts[name]
