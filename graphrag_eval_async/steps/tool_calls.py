"""Precision, recall and F1 of the names of an agent's steps, whatever these returned."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.catalogue.metrics import TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep


def tool_calls(
    reference_groups: Sequence[Sequence[PreparedStep]],
    steps: Sequence[Mapping[str, Any]] | None,
    *,
    mode: Literal["last", "all"],
) -> dict[str, float | None]:
    """Return precision, recall and F1 of the names of an agent's steps, by the name of each metric.

    A name counts as often as it occurs, in any order. Steps that failed count, too.

    Args:
        reference_groups: the expected steps.
        steps: the agent's steps; None if its response has none, so that there are no scores.
        mode: "all" expects the steps of all groups. "last" expects those of the last group; steps
            that earlier groups expect are neither right nor wrong.

    Returns:
        Scores from 0 to 1. Precision is None if no step is right or wrong.
    """
    if steps is None:
        return dict.fromkeys(TOOL_CALLS)
    expected_groups = reference_groups
    earlier_groups: Sequence[Sequence[PreparedStep]] = []
    if mode == "last":
        expected_groups = reference_groups[-1:]
        earlier_groups = reference_groups[:-1]

    # Remove the names that are expected. Those that are left are wrong.
    unmatched_names = Counter(step.get("name") for step in steps)
    right = _remove_matched(unmatched_names, expected_groups)
    _remove_matched(unmatched_names, earlier_groups)
    wrong = unmatched_names.total()
    expected = sum(len(group) for group in expected_groups)

    precision = None
    if right + wrong > 0:
        precision = right / (right + wrong)
    recall = right / expected
    f1 = 2 * right / (right + wrong + expected)
    return dict(zip(TOOL_CALLS, (precision, recall, f1), strict=True))


def _remove_matched(
    unmatched_names: Counter[str | None], groups: Sequence[Sequence[PreparedStep]]
) -> int:
    """Remove one name from `unmatched_names` for each reference step that accepts one of them.

    Reference steps that accept few names come first, so that steps that accept more names do not
    take the only ones that suit them.

    Returns:
        How many names were removed.
    """
    removed = 0
    reference_steps = [step for group in groups for step in group]
    reference_steps.sort(key=lambda step: len(step.names))
    for step in reference_steps:
        for name in sorted(step.names):
            if unmatched_names[name] > 0:
                unmatched_names[name] -= 1
                removed += 1
                break
    return removed
