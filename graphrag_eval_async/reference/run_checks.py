"""Checks of a reference set against the configuration of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.reference.mistakes import Mistakes
from graphrag_eval_async.steps import is_cypher_step, needs_execution

if TYPE_CHECKING:
    from graphrag_eval_async.records.question import Matching
    from graphrag_eval_async.reference.reference_set import Reference


def check_outputs(reference: Reference, *, runs_sparql: bool, runs_cypher: bool) -> None:
    """Check that each reference step has an output, or a query that will be run to get one.

    Args:
        reference: the reference set.
        runs_sparql: whether SPARQL queries are run.
        runs_cypher: whether Cypher queries are run.

    Raises:
        ReferenceDataError: a step has only a query, which will not be run.
    """
    if not reference.prepared.lacks_output:
        return  # No step lacks its output, so no question needs to be decoded.
    problems = Mistakes()
    for question in reference:
        for group_index, group in enumerate(question.reference_steps or ()):
            for index, step in enumerate(group):
                is_cypher = is_cypher_step(step)
                is_run = runs_cypher if is_cypher else runs_sparql
                if is_run or not needs_execution(step):
                    continue
                language = "Cypher" if is_cypher else "SPARQL"
                step_place = f"reference_steps[{group_index}][{index}].output"
                problems.add(
                    f"question {question.id!r}",
                    f"{step_place}: missing; `execute` in the configuration says where its "
                    f"reference_query, in {language}, is run",
                    like=language,
                )
    if problems:
        raise ReferenceDataError(problems.texts(document=None))


def check_matches(reference: Reference, match: Matching, tolerance: float | None) -> None:
    """Check that reference answers can be matched with the `match` of a configuration.

    Questions with their own `match` are skipped, since they were checked when they were read.

    Args:
        reference: the reference set.
        match: how the configuration matches answers.
        tolerance: the maximum difference of numbers in the configuration; None for the default.

    Raises:
        ReferenceDataError: answers cannot be matched. The error lists each kind of problem.
    """
    # The rules for answers take long to import.
    from graphrag_eval_async.steps.answers import check_match

    problems = Mistakes()
    for question in reference:
        if question.match is not None or question.reference_answer is None:
            continue
        try:
            check_match(match, question.reference_answer, tolerance)
        except ValueError as error:
            problems.add(
                f"question {question.id!r}",
                f"{error}; a `match` of its own would come before that of the configuration",
                like=str(error),
            )
    if problems:
        raise ReferenceDataError(problems.texts(document=None))
