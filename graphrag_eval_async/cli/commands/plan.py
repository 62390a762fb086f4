"""``plan``: how many questions a comparison of two runs needs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.reading import primary_metrics, read_to_end
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.helpers.text import number, percent, plural, tell
from graphrag_eval_async.inference.planning import Spread, plan
from graphrag_eval_async.reports.tables import fold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.cli.exits import Exit, Interrupts


@dataclass(frozen=True, kw_only=True)
class PlanOptions(OptionValues):
    """The options of ``plan``."""

    results: list[str]
    detect: float
    metric: str
    sd: float | None
    level: float
    config: str | None


def run(options: PlanOptions, interrupts: Interrupts) -> Exit:
    """Read the results of one run or two, and print how many questions a comparison needs."""
    check_distinct(options.results, [])
    spreads = [Spread(options.metric) for _ in options.results]
    sources = [(path, spread.add) for path, spread in zip(options.results, spreads, strict=True)]
    rejects, ending = read_to_end(sources, interrupts)
    list_rejects(rejects, can_be_kept=False)
    if ending.is_complete:
        planned = plan(
            options.detect,
            spreads,
            metric=options.metric,
            sd=options.sd,
            level=options.level,
            primary=primary_metrics(options.config),
        )
        # If the text cannot be printed, this becomes the error of the run.
        ending = ending.attempt(partial(tell, sys.stdout, render_plan(planned)))
    return end(ending, rejects)


def render_plan(planned: Mapping[str, Any]) -> str:
    """Return a plan as sentences: the number of questions, and what may be wrong about it."""
    questions = planned["paired"]
    sentences = [
        (
            f"To see a change of {number(planned['detect'])} in {planned['metric']} with "
            f"{percent(planned['power'])} power, ask both agents the same {questions} questions "
            f"({2 * questions} responses). With different questions, each agent needs "
            f"{planned['unpaired']}."
        )
    ]
    if planned["assumed_correlation"] is not None:
        sentences.append(
            "Assumed: the true scores of a question in two runs correlate with "
            f"{planned['assumed_correlation']}; results of two runs tell."
        )
    without_value = sum(planned["missing"])
    if without_value:
        sentences.append(f"{plural(without_value, 'result')} without a value did not count.")
    if not planned["has_verdict"]:
        sentences.append(
            f"compare gives {planned['metric']} no verdict unless `primary` in a configuration "
            "names it."
        )
    return "\n".join(fold(sentences))
