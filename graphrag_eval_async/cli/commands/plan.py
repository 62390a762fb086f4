"""``plan``: how many questions a comparison of two runs needs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.reading import primary_of, read_to_end
from graphrag_eval_async.cli.run_summary import end, list_rejects
from graphrag_eval_async.helpers.text import number, percent, plural, tell
from graphrag_eval_async.inference.planning import Spread, plan
from graphrag_eval_async.reports.tables import fold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Read the results of one run or two, and print how many questions a comparison needs."""
    check_distinct(given.results, [])
    spreads = [Spread(given.metric) for _ in given.results]
    sources = [(path, spread.add) for path, spread in zip(given.results, spreads, strict=True)]
    rejects, ending = read_to_end(given, sources, interrupts)
    list_rejects(given, rejects)
    if ending.is_complete:
        planned = plan(
            given.detect,
            spreads,
            metric=given.metric,
            sd=given.sd,
            level=given.level,
            primary=primary_of(given),
        )
        ending = ending.attempt(partial(tell, sys.stdout, render_plan(planned)))
    return end(ending, rejects)


def render_plan(planned: Mapping[str, Any]) -> str:
    """Return a plan as a sentence, and what it assumes if that may be wrong."""
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
