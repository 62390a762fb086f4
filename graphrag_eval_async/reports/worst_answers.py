"""Keeps the worst answers of a run, to show them at its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, REASON
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.reports.examples import Example, example_of
from graphrag_eval_async.reports.kept import RANKING_SCORES
from graphrag_eval_async.reports.wording import MEANING_BY_REASON
from graphrag_eval_async.steps.failure import NO_FAILURE

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN_ANSWERS = 3
"""How many of the worst answers are shown, and kept of each reason."""

MAX_REASONS = 50
"""Maximum number of reasons; there are about 25 unless another program scored the results."""

MAX_CHARACTERS = 200
"""Maximum number of characters of each part of an answer in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorstAnswer:
    """An answer with a low score, or an error of the agent.

    Attributes:
        quality: the mean of its scores; below all others for an error.
        scores: its scores, by name.
        reason: why it failed, such as "missing_rows"; empty if nobody knows.
        detail: what is wrong in detail; empty if nobody knows.
        example: its question, what was expected, and what the agent gave.
    """

    quality: float
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str
    detail: str
    example: Example

    @property
    def lines(self) -> list[str]:
        """Three lines: the question, why the answer is wrong, and what was expected and given."""
        title = _in_one_line(self.example.question_id)
        if self.example.question:
            title += f": {_in_one_line(self.example.question)}"
        return [title, self.why, self.example.in_words]

    @property
    def why(self) -> str:
        """The scores, and why they are low: "steps_score 0.5; missing_rows: ...".

        What is not known is left out.
        """
        scores = ", ".join(f"{name} {score:.3g}" for name, score in self.scores.items())
        explanation = _in_one_line(self.detail) or MEANING_BY_REASON.get(self.reason, "")
        if self.reason == AGENT_ERROR:
            # The example quotes the error already.
            explanation = ""
        reason_parts = [part for part in (_in_one_line(self.reason), explanation) if part]
        reason = ": ".join(reason_parts)
        return "; ".join(part for part in (scores, reason) if part)


class WorstAnswers:
    """The worst answers of a run: of each reason of failure, the first ones with the lowest scores.

    So a single reason, such as a server that is down for a while, does not hide all other reasons.
    """

    def __init__(self) -> None:
        self._by_reason: dict[str, list[WorstAnswer]] = {}

    def add(self, result: Mapping[str, Any]) -> None:
        """Keep a result if it is among the worst so far. One that waits for a judge is not kept."""
        if "pending" in result:
            return
        reason = _reason_of(result)
        scores = _scores_of(result)
        if reason == AGENT_ERROR:
            quality = -inf
        elif scores:
            quality = sum(scores.values()) / len(scores)
        else:
            # Nothing says whether the answer is right.
            return
        if quality >= 1:
            return

        kept = self._by_reason.get(reason, [])
        is_full = len(kept) == SHOWN_ANSWERS
        if is_full and quality >= kept[-1].quality:
            return
        has_too_many_reasons = len(self._by_reason) >= MAX_REASONS
        if reason not in self._by_reason and has_too_many_reasons:
            return

        answer = WorstAnswer(
            quality=quality,
            scores=scores,
            reason=reason,
            detail=_detail_of(result),
            example=example_of(result),
        )
        kept = [*kept, answer]
        # Sorting is stable: of equal answers, the first ones stay.
        kept.sort(key=attrgetter("quality"))
        self._by_reason[reason] = kept[:SHOWN_ANSWERS]

    def worst(self) -> list[WorstAnswer]:
        """Return the `SHOWN_ANSWERS` worst answers, the worst first.

        The worst answer of each reason is chosen before the second answer of any reason, so that
        the answers have as many reasons as possible.
        """
        worst_of_reasons = []
        others = []
        for answers in self._by_reason.values():
            worst_of_reasons.append(answers[0])
            others += answers[1:]
        worst_of_reasons.sort(key=attrgetter("quality"))
        others.sort(key=attrgetter("quality"))
        chosen = [*worst_of_reasons, *others][:SHOWN_ANSWERS]
        return sorted(chosen, key=attrgetter("quality"))

    def lines(self, width: int) -> list[str]:
        """Return the worst answers as lines of at most `width` characters, after a title.

        Texts from the data are escaped.

        Returns:
            [] if no answer failed or has a score below 1.
        """
        answers = self.worst()
        if not answers:
            return []
        title = "worst answer:"
        if len(answers) > 1:
            title = f"{len(answers)} of the worst answers:"
        lines = [title]
        for answer in answers:
            question, *explanations = answer.lines
            lines += wrap(question, width, initial_indent="- ", subsequent_indent="  ")
            for explanation in explanations:
                lines += wrap(explanation, width, initial_indent="  ", subsequent_indent="    ")
        return lines


def _reason_of(result: Mapping[str, Any]) -> str:
    """Return why a result failed; "" if it did not, or if nobody knows."""
    if result.get("status") == "error":
        return AGENT_ERROR
    reason = result.get(REASON)
    if not isinstance(reason, str) or reason == NO_FAILURE:
        return ""
    return reason


def _scores_of(result: Mapping[str, Any]) -> dict[str, float]:
    """Return the `RANKING_SCORES` that a result has; an error of the agent has none."""
    if result.get("status") == "error":
        return {}
    return {name: result[name] for name in RANKING_SCORES if result.get(name) is not None}


def _detail_of(result: Mapping[str, Any]) -> str:
    """Return the first line of the text that explains a failure; "" if there is none."""
    lines = str(result.get("failure_detail") or "").strip().splitlines()
    return lines[0] if lines else ""


def _in_one_line(text: str) -> str:
    """Return the beginning of a text from the data on one line, with control characters escaped."""
    return one_line(text, limit=MAX_CHARACTERS)
