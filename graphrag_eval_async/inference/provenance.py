"""Whether two runs can be compared: who judged them, and by which reference data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.inference.pairs import Side

REFERENCE_KEYS = ("question_text", "reference_answer", "reference_steps")

JUDGED_BY = {"model": "models", "prompts": "prompts", "embedding": "embedding models"}
"""What a result says about its judge: the keys, and a plural for each."""

SHOWN_CHARACTERS = 60

Judges: TypeAlias = dict[str, set[str]]
"""By key of `JUDGED_BY`, all names that the results of a run give."""


def add_judge(judges: Judges, judge: object) -> None:
    """Add what one result says about its judge."""
    if isinstance(judge, dict):
        for key in JUDGED_BY:
            if isinstance(name := judge.get(key), str):
                judges.setdefault(key, set()).add(name)


def judge_warnings(judges: Mapping[Side, Judges]) -> Iterator[str]:
    """Judges that differ between the two runs or within one; if only one was judged, they do not differ."""
    for key, plural in JUDGED_BY.items():
        names = {side: sorted(own.get(key, ())) for side, own in judges.items()}
        if all(names.values()) and names["baseline"] != names["candidate"]:
            told = "; ".join(f"{side}: {_listed(own)}" for side, own in names.items())
            yield f"the two were judged by different {plural}: {told}"
        else:
            for side, own in names.items():
                if len(own) > 1:
                    yield f"the {side} was judged by several {plural}: {_listed(own)}"


def _listed(names: list[str]) -> str:
    shown = [name[:SHOWN_CHARACTERS] for name in names[:3]]
    return ", ".join(shown + [f"{len(names) - 3} more"] * (len(names) > 3))


def reference_hash(result: Mapping[str, Any]) -> int | None:
    """A hash of the reference data in a result, without what scoring adds; None if there are none."""
    reference = [result.get(key) for key in REFERENCE_KEYS]
    if reference.count(None) == len(reference):
        return None
    if isinstance(groups := reference[-1], list):
        reference[-1] = [[*map(_plain, group)] if isinstance(group, list) else group for group in groups]
    try:
        return hash(orjson.dumps(reference, option=orjson.OPT_SORT_KEYS))
    except TypeError:  # It holds what orjson does not write, such as a lone surrogate or an int of 65 bits.
        return hash(repr(reference))


def _plain(step: Any) -> Any:
    return {key: value for key, value in step.items() if key != "matches"} if isinstance(step, dict) else step
