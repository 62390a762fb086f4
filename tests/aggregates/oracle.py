"""The batch formulas of the aggregates, as plainly as they can be written, over a list of
results.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

RESULT_METRICS = [
    *("steps_score", "input_tokens", "output_tokens", "total_tokens", "elapsed_sec"),
    *("answer_recall", "answer_precision", "answer_f1", "answer_relevance"),
]
RETRIEVAL_METRICS = [
    f"retrieval_{about}_{score}"
    for about in ("answer", "context")
    for score in ("recall", "precision", "f1")
]
METRICS = RESULT_METRICS + RETRIEVAL_METRICS


def batch_aggregates(
    results: Sequence[Mapping[str, Any]],
    *,
    templates: Sequence[str] = (),
    include_errors: bool = False,
) -> dict[str, Any]:
    present = {result["template_id"] for result in results}
    order = [name for name in templates if name in present]
    order += sorted(present.difference(order))
    per_template = {
        name: _aggregate([r for r in results if r["template_id"] == name], include_errors)
        for name in order
    }
    micro = _aggregate(results, include_errors)
    macro = {}
    for metric in micro:
        if isinstance(micro[metric], dict) and metric != "steps":
            macro[metric] = {
                key: _mean(means)
                for key in ("mean", "mean_of_questions")
                if (
                    means := [
                        p[metric][key] for p in per_template.values() if key in p.get(metric, {})
                    ]
                )
            }
    per_tag: dict[str, dict[str, Any]] = {}
    for key, value in sorted({tag for result in results for tag in result.get("tags", {}).items()}):
        # Questions of different templates count as one if they have the same id.
        own = [{**r, "template_id": ""} for r in results if r.get("tags", {}).get(key) == value]
        per_tag.setdefault(key, {})[value] = _slim(_aggregate(own, include_errors))
    tags = {"per_tag": per_tag} if per_tag else {}
    return {"per_template": per_template, **tags, "micro": micro, "macro": macro}


def _slim(group: dict[str, Any]) -> dict[str, Any]:
    """A group without steps and order statistics."""
    group.pop("steps", None)
    for stats in group.values():
        for name in ("median", "min", "max") if isinstance(stats, dict) else ():
            stats.pop(name, None)
    return group


def _aggregate(results: Sequence[Mapping[str, Any]], include_errors: bool) -> dict[str, Any]:
    errors = sum(result["status"] == "error" for result in results)
    shown: dict[str, Any] = {
        "number_of_error_samples": errors,
        "number_of_success_samples": len(results) - errors,
    }
    if results:
        errors_of = [(_question(result), float(result["status"] == "error")) for result in results]
        shown["error_rate"] = _of_questions(errors_of).get(
            "mean_of_questions", errors / len(results)
        )
    counted = [result for result in results if include_errors or result["status"] != "error"]
    steps = _steps([result.get("actual_steps") or [] for result in counted])
    if steps:
        shown["steps"] = steps
    values = list(_values(counted))
    costs = sorted({metric for _, metric, _ in values if metric.endswith("_cost")})
    for metric in METRICS + costs:
        own = [(question, value) for question, key, value in values if key == metric]
        if own:
            shown[metric] = statistics_of([value for _, value in own]) | _of_questions(own)
    return shown


RIGHT = {"steps_score": 1, "answer_f1": 0.5}


def repeats_of(results: Sequence[Mapping[str, Any]], *, include_errors: bool) -> dict[str, float]:
    """pass@k and pass^k over all ways to take k samples of a question."""
    counted = [result for result in results if include_errors or result["status"] != "error"]
    scored = any(result.get(metric) is not None for result in counted for metric in RIGHT)
    questions = defaultdict(list)
    for result in results:
        checks = [
            result[metric] >= least
            for metric, least in RIGHT.items()
            if result.get(metric) is not None
        ]
        failed = result["status"] == "error"
        if scored and (failed or checks):
            questions[_question(result)].append(not failed and all(checks))
    most = min(max(map(len, questions.values()), default=0), 100)
    if most < 2 or {question for _, question in questions} & {None, ""}:
        return {}
    shown: dict[str, Any] = {}
    for k in range(1, most + 1):
        for name, holds in {"pass@": any, "pass^": all}.items():
            rates = [float(_share(own, k, holds)) for own in questions.values() if len(own) >= k]
            shown[f"{name}{k}"] = float(sum(map(Fraction, rates)) / len(rates))
        shown[f"questions@{k}"] = len(rates)
    return shown


def _share(samples: Sequence[bool], k: int, holds: Callable[[Sequence[bool]], bool]) -> Fraction:
    n, right = len(samples), sum(samples)
    if n < 9:
        return Fraction(sum(map(holds, combinations(samples, k))), comb(n, k))
    none, every = Fraction(comb(n - right, k), comb(n, k)), Fraction(comb(right, k), comb(n, k))
    return 1 - none if holds is any else every


def _question(result: Mapping[str, Any]) -> tuple[str, Any]:
    return result["template_id"], result.get("question_id")


def _of_questions(values: Sequence[tuple[tuple[str, Any], float]]) -> dict[str, Any]:
    """The mean over questions, each the mean of its values, correctly rounded; nothing if one is
    unknown.
    """
    by_question: dict[tuple[str, Any], list[Fraction]] = {}
    for question, value in values:
        by_question.setdefault(question, []).append(Fraction(value))
    if {question for _, question in by_question} & {None, ""}:
        return {}
    if len(by_question) == len(values):
        return {"mean_of_questions": _mean([value for _, value in values])}
    means = [float(sum(own, Fraction()) / len(own)) for own in by_question.values()]
    return {"mean_of_questions": _mean(means)}


def _values(results: Iterable[Mapping[str, Any]]) -> Iterable[tuple[tuple[str, Any], str, float]]:
    for result in results:
        retrievals = [
            step for step in result.get("actual_steps") or [] if step.get("name") == "retrieval"
        ]
        for item, metrics in [
            (result, RESULT_METRICS),
            *((step, RETRIEVAL_METRICS) for step in retrievals),
        ]:
            for key, value in item.items():
                if value is not None and (key in metrics or key.endswith("_cost")):
                    yield _question(result), key, value


def _steps(samples: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, int]]:
    steps = [step for sample in samples for step in sample]
    counts = {
        "total": Counter(step["name"] for step in steps),
        "once_per_sample": Counter(
            name for sample in samples for name in {step["name"] for step in sample}
        ),
        "empty_results": Counter(step["name"] for step in steps if _is_empty(step)),
        "errors": Counter(step["name"] for step in steps if step.get("status") == "error"),
    }
    return {count: dict(sorted(names.items())) for count, names in counts.items() if names}


def _is_empty(step: Mapping[str, Any]) -> bool:
    if step.get("status") == "error":
        return False
    output = step.get("output")
    if isinstance(output, str):
        try:
            output = json.loads(output)
        except ValueError:
            return False
    if isinstance(output, dict) and isinstance(output.get("results"), dict):
        return bool(output["results"].get("bindings") == [])
    return bool(output == [])


def statistics_of(values: Sequence[float]) -> dict[str, float]:
    """Correctly rounded by way of fractions; ints as `statistics` gives them, if all values are
    ints.
    """
    ordered = sorted(values)
    low, high = ordered[(len(values) - 1) // 2], ordered[len(values) // 2]
    stats = {
        "sum": _round(sum(map(Fraction, values), Fraction()), values),
        "mean": _mean(values),
        "median": float((Fraction(low) + Fraction(high)) / 2)
        if len(values) % 2 == 0
        else _show(low, values),
        "min": _show(ordered[0], values),
        "max": _show(ordered[-1], values),
    }
    return {name: value for name, value in stats.items() if value is not None}


def _mean(values: Sequence[float]) -> Any:
    return _round(sum(map(Fraction, values), Fraction()) / len(values), values)


def _round(exact: Fraction, values: Sequence[float]) -> float | None:
    if _all_ints(values) and exact == int(exact):
        return int(exact)
    try:
        return float(exact)
    except OverflowError:
        return None


def _show(value: float, values: Sequence[float]) -> float:
    if _all_ints(values) or float(value) != value:
        return value
    return float(value) + 0.0


def _all_ints(values: Sequence[float]) -> bool:
    return all(isinstance(value, int) for value in values)
