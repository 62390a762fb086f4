"""Runs that end by a condition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.costs import dollars
from graphrag_eval_async.cli.gates import MISSING_RATE
from graphrag_eval_async.cli.text import one_line, percent, tell
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.sources import read_jsonl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.gates import Gate
    from graphrag_eval_async.stream.ending import Decision

DEFAULT_SEED = 0


def only_condition(conditions: Sequence[str], level: float) -> Until | None:
    """What a run is to end by, if anything.

    Raises:
        UsageError: it is no condition, or there are several.
    """
    if len(conditions) > 1:
        raise UsageError(f"--until: one condition only, got {len(conditions)}")
    return Until(conditions[0], level) if conditions else None


def seed_of(responses: str, until: Until | None, shuffle: int | None, gates: Sequence[Gate]) -> int | None:
    """By which responses are shuffled, if they are.

    Raises:
        UsageError: options do not go together.
    """
    if until is not None and any(gate.metric == MISSING_RATE for gate in gates):
        raise UsageError("missing_rate cannot be a gate with --until, which leaves questions out")
    if until is not None and shuffle is None and read_jsonl(responses).can_be_shuffled:
        return DEFAULT_SEED
    return shuffle


def tell_order(seed: int | None) -> None:
    """Say in which order responses are read, where that was not asked for.

    Args:
        seed: what `seed_of` gave.
    """
    if seed is None:
        order = (
            "standard input, pipes and compressed files are read in their order: if they are sorted, only "
            "their beginning decides"
        )
    else:
        order = f"read in a shuffled order (--shuffle {seed}), since files are often sorted"
    tell(sys.stderr, f"--until: {order}")


def deciding(decision: Decision, *, judged: bool) -> list[str]:
    """What was found out about the condition, and what that saved, in lines."""
    found = {None: "is open", True: "holds", False: "does not hold"}[decision.holds]
    failed = f", {decision.failed} of them failed" if decision.failed else ""
    interval = f"{percent(decision.level)}: {decision.low:.4g} to {decision.high:.4g}"
    lines = [
        one_line(
            f"{'not ' if decision.holds is None else ''}decided after {decision.responses} responses "
            f"to {decision.questions} questions: "
            f"{decision.condition} {found} ({interval}; {decision.samples} samples{failed})"
        )
    ]
    if decision.remaining:
        lines.append(f"left out: {decision.remaining} responses{_saved(decision) if judged else ''}")
    return lines


def _saved(decision: Decision) -> str:
    if decision.saved_calls is None:
        return ""
    cost = "" if decision.saved_dollars is None else f", about {dollars(decision.saved_dollars)}"
    return f"; judging them would have taken about {decision.saved_calls} calls{cost}"
