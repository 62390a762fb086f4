"""Whether two runs can be compared: who judged them, and by which reference data."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REFERENCE_KEYS = ("question_text", "reference_answer", "reference_steps")

JUDGED_BY = {"model": "models", "prompts": "prompts", "embedding": "embedding models"}
"""Keys of what a result says of its judge, and words for several of each."""

SHOWN_CHARACTERS = 60

Judges = defaultdict[str, set[str]]


def judges() -> Judges:
    """Those of one side, none as yet: by key, what its results say."""
    return defaultdict(set)


def note_judge(known: Judges, result: Mapping[str, Any]) -> None:
    """Add what a result says of its judge."""
    judge = result.get("judge")
    if isinstance(judge, dict):
        for key in JUDGED_BY:
            if isinstance(name := judge.get(key), str):
                known[key].add(name)


def judge_warnings(baseline: Judges, candidate: Judges) -> Iterator[str]:
    """What differs between the two sides, or on one of them; where only one was judged, nothing does."""
    for key, names in JUDGED_BY.items():
        sides = {"baseline": sorted(baseline[key]), "candidate": sorted(candidate[key])}
        if all(sides.values()) and sides["baseline"] != sides["candidate"]:
            told = "; ".join(f"{side}: {_listed(values)}" for side, values in sides.items())
            yield f"the two were judged by different {names}: {told}"
        else:
            for side, values in sides.items():
                if len(values) > 1:
                    yield f"the {side} was judged by several {names}: {_listed(values)}"


def _listed(names: list[str]) -> str:
    shown = [name[:SHOWN_CHARACTERS] for name in names[:3]]
    return ", ".join(shown + [f"{len(names) - 3} more"] * (len(names) > 3))


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """Of the reference data in a result, without what scoring adds; None where there are none."""
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(reference[-1], list):
        reference[-1] = [
            [_without_matches(step) for step in group] if isinstance(group, list) else group
            for group in reference[-1]
        ]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:  # It holds what orjson does not write, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _without_matches(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "matches"} if isinstance(step, dict) else step
