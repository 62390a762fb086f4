"""Precision, recall and F1 of the names of an agent's steps, whatever these returned."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.catalogue.metrics import TOOL_CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.steps.comparators import PreparedStep

    Groups = Sequence[Sequence[PreparedStep]]


def tool_calls(
    groups: Groups, steps: Sequence[Mapping[str, Any]] | None, *, mode: Literal["last", "all"]
) -> dict[str, float | None]:
    """Return `TOOL_CALLS`, each from 0 to 1 or None, of the names of steps and reference steps as
    multisets.

    ``"last"`` expects the steps of the last group; steps that earlier groups expect are neither
    right nor wrong. All steps count, also those that failed. Precision is None without a step that
    is right or wrong.
    """
    if steps is None:
        return dict.fromkeys(TOOL_CALLS)
    left, expected = (
        Counter(step.get("name") for step in steps),
        groups if mode == "all" else groups[-1:],
    )
    right, total = _take(left, expected), sum(map(len, expected))
    if mode == "last":
        _take(left, groups[:-1])
    wrong = left.total()
    precision = right / (right + wrong) if right + wrong else None
    f1 = 2 * right / (right + wrong + total)
    return dict(zip(TOOL_CALLS, (precision, right / total, f1), strict=True))


def _take(left: Counter[str | None], groups: Groups) -> int:
    """Take a remaining name for each reference step that accepts one; return how many were
    taken.
    """
    taken = 0
    for step in sorted(
        (step for group in groups for step in group), key=lambda step: len(step.names)
    ):
        if (name := next((name for name in sorted(step.names) if left[name]), None)) is not None:
            left[name] -= 1
            taken += 1
    return taken
