"""Collects the results of a run for an HTML report."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import check_extra
from graphrag_eval_async.records.results import observe
from graphrag_eval_async.reports.evidence import result_names
from graphrag_eval_async.reports.examples import Example, example_of
from graphrag_eval_async.reports.kept import Reasons, quality, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.reports.summary import Findings

DETAILED = 200
"""How many of the worst results have their steps and reasons in a report."""

DETAIL_CHARACTERS = 1_500_000
"""About how much text the details may have; other results are in the list of questions only."""

MAX_TEXTS = 20_000
"""How many questions have their texts in a report: the first ones."""


class ReportResults:
    """Collects the results of a run for `html_report`: the worst whole, of others the texts."""

    def __init__(self, findings: Findings | None = None) -> None:
        """Create a collection without results.

        Args:
            findings: gets each result that is added here, too; None if nothing else needs it.
        """
        check_extra("a report", "web", "jinja2")
        self.count = 0
        self.findings = findings
        self.reasons = Reasons()
        self.texts: dict[str, str] = {}
        # The worst results by rank and place, the worst first.
        self._worst: list[tuple[float, int, Mapping[str, Any]]] = []

    def add(self, result: Mapping[str, Any]) -> None:
        """Add a result. One that waits for a judge is passed to `findings` only."""
        seen = observe(result, include_errors=True)
        if self.findings is not None:
            self.findings.add(observe(seen))
        if seen.pending is not None:
            return
        self.count += 1
        self.reasons.add(seen)
        text = text_of(result)
        if text and isinstance(seen.question_id, str) and len(self.texts) < MAX_TEXTS:
            self.texts.setdefault(seen.question_id, text)

        # A result whose scores are all 1 has nothing to explain.
        mean_score = quality(seen)
        if mean_score is not None and mean_score < 1:
            # An error, whose quality is minus infinity, is as bad as scores of 0.
            rank = max(mean_score, 0.0)
            insort(self._worst, (rank, self.count, result))
            del self._worst[DETAILED:]

    def details(self) -> list[Detail]:
        """Return the details of the worst results, the worst first.

        There are as many as fit into about `DETAIL_CHARACTERS`.
        """
        details: list[Detail] = []
        characters = 0
        for _, place, result in self._worst:
            if characters > DETAIL_CHARACTERS:
                break
            names = result_names(result)
            characters += len(repr(names))
            details.append(Detail(place, result, names))
        return details


class Detail:
    """The section of a report about one of the worst results.

    Attributes:
        anchor: the id of the section.
        title: the text of the question, and the number of the sample if it is not the first.
        question_id: the id of the question; "" if the result names none.
        example: the expected and the actual side in short.
        about: what identifies the result; this and all below are as in `result_names`.
        result: the texts of the result.
        metrics: its metrics.
        pairs: its expected and actual steps.
    """

    def __init__(self, place: int, result: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        """Describe a result.

        Args:
            place: the number of the result in the report.
            result: the result.
            names: what `result_names` returns for the result.
        """
        question_id = result.get("question_id")
        self.question_id = question_id if isinstance(question_id, str) else ""
        self.anchor = f"result-{place}"
        self.title = text_of(result) or self.question_id or "a result without a question"
        sample = result.get("sample")
        if sample not in (None, 1):
            self.title += f" (sample {sample})"
        self.example: Example = example_of(result, names["pairs"])
        self.about = names["about"]
        self.result = names["result"]
        self.metrics = names["metrics"]
        self.pairs = names["pairs"]
