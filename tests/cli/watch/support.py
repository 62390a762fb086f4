"""Logs that grow, and facts that never change, of a run that might have been."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.reports.history import Checkpoint, Course, Courses, Point
from tests.cli.support import to_jsonl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cli.support import Folder


def append(folder: Folder, *items: Any, name: str = "responses.jsonl") -> None:
    """Write lines to the end of a log."""
    with open(folder.file(name), "ab") as log:
        log.write(to_jsonl(items))


TEMPLATES = ("transformers", "lines", "measurements", "settings")


def value(mean: float, window: float | None = None) -> dict[str, Any]:
    """A mean so far, also over results, and that of the window."""
    recent = mean if window is None else window
    return {"mean": mean, "mean_of_results": mean, "window": recent}


def group(samples: int, window: int, score: float, *, judged: bool) -> dict[str, Any]:
    """The facts of the results of one template."""
    steps = value(score, score * 0.95)
    steps["confidence"] = {"level": 0.95, "low": score - 0.05, "high": score + 0.04}
    steps["quantiles"] = {"p50": 1, "p90": 1, "p95": 1, "p99": 1}
    metrics = {
        "steps_score": steps,
        "elapsed_sec": value(7.123, 6.87) | {"quantiles": {"p95": 11.2}},
    }
    if judged:
        metrics |= {"answer_recall": value(0.72), "answer_precision": value(0.69)}
        metrics["answer_f1"] = value(0.704, 0.688)
        metrics["answer_relevance"] = value(0.9041, 0.889)
    tokens = {
        "input_tokens": (15640.5, 15702),
        "output_tokens": (174, 174),
        "total_tokens": (15814.5, 15876),
    }
    metrics |= {name: value(*means) for name, means in tokens.items()}
    return {
        "coverage": {"steps_score": {"applied": 2, "values": 2, "failed": {}, "pending": 0}},
        "failure": {},
        "samples": {"total": samples, "window": window},
        "errors": {"total": samples // 50, "window": window // 50},
        "error_rate": {"mean": 0.02, "window": 0.02},
        "metrics": metrics,
        **({"cost": value(0.00123, 0.00131)} if judged else {}),
    }


def result(number: int, *, judged: bool) -> dict[str, Any]:
    """One result; every third is an error."""
    short: dict[str, Any] = {
        "question_id": f"{TEMPLATES[number % 4]}-bergheim",
        "template_id": TEMPLATES[number % 4],
        "sample": number,
        "status": "error" if number % 3 == 0 else "success",
    }
    if number % 3 == 0:
        return short | {
            "error": "TimeoutError: the agent gave no answer\nwithin 60 s",
            "metrics": {},
        }
    short["metrics"] = {"steps_score": 0.25, "total_tokens": 15000 + number, "elapsed_sec": 6.41}
    if judged:
        short["metrics"] |= {"answer_f1": 2 / 3, "answer_relevance": 0.9}
        short["cost"] = 0.0011
    return short


JUDGE = {
    "model": "gpt-4o-mini",
    "calls_per_sec": 14.25,
    "calls": 1180,
    "attempts": 1184,
    "cache_hits": 26,
    "input_tokens": 123456,
    "output_tokens": 2345,
    "max_concurrency": 32,
    "budget_usd": 5.0,
    "waiting": 3,
    "concurrency": 16,
    "retries": {"rate_limited": 3, "timeout": 1},
    "errors": {},
    "dollars": 1.5176,
    "paused_sec": 0.0,
}

ALERT = {"alert": "lines: steps_score < 0.8 over 200", "value": 0.7951}


def change(
    template: str | None, metric: str, before: float, after: float, *, is_loss: bool = True
) -> dict[str, Any]:
    """A clear change of a score, as the state of a run has it."""
    return {
        "template": template,
        "metric": metric,
        "before": before,
        "after": after,
        "since": "2026-11-29T14:33:00+00:00",
        "since_result": 801,
        "is_loss": is_loss,
    }


STEADY: dict[str, Any] = {
    "kind": "steady",
    "text": "Steady",
    "since": None,
    "changes": [],
    "tentative_losses": [],
}
WORSE: dict[str, Any] = {
    "kind": "worse",
    "text": "Getting worse since 14:33 UTC: steps_score of lines 0.95 to 0.73",
    "since": "2026-11-29T14:33:00+00:00",
    "changes": [change("lines", "steps_score", 0.95, 0.73)],
    "tentative_losses": [],
}
PERHAPS_WORSE: dict[str, Any] = {
    "kind": "perhaps_worse",
    "text": "Perhaps getting worse since 14:33 UTC: lines 0.95 to 0.73 (not certain yet)",
    "since": "2026-11-29T14:33:00+00:00",
    "changes": [],
    "tentative_losses": [change("lines", "steps_score", 0.95, 0.73)],
}

PROGRESS = {
    "phase": "running",
    "text": "1,000 of 6,000 questions, 4.2 results/s, about 20 min left",
}


CHECKPOINTS = [
    Checkpoint(number=0, results=0, time=None, values={}),
    Checkpoint(number=1, results=1206, time=None, values={}),
]


def courses(facts: Mapping[str, Any], points: int = 16) -> Courses:
    """Courses of the main scores and of the error rate: they fall to what is recent."""
    groups = {None: facts["overall"], **facts["templates"]}
    courses = {name: course(group, points) for name, group in groups.items()}
    overall = courses.pop(None)
    templates = {str(name): each for name, each in courses.items()}
    return Courses(overall=overall, templates=templates, checkpoints=CHECKPOINTS)


def course(group: Mapping[str, Any], points: int) -> Course:
    """The course of the scores of a group: for the first half, as high as can be."""
    step = max(1, group["samples"]["total"] // points)
    scores = {"error_rate": group["error_rate"], **group["metrics"]}
    sums = dict.fromkeys(scores, 0.0)
    recorded = [Point(0, {})]
    for place in range(1, points + 1):
        for name, statistics in scores.items():
            recent = statistics["window"]
            has_fallen = place > points / 2 and recent is not None
            sums[name] += step * (recent if has_fallen else 1.0)
        count = place * step
        recorded.append(Point(count, {name: (count, sums[name]) for name in sums}))
    return Course(points=recorded)


def facts(
    *, judged: bool = True, templates: tuple[str, ...] = TEMPLATES, **more: Any
) -> dict[str, Any]:
    """What the view shows."""
    return {
        "elapsed_sec": 761.25,
        "paths": ["logs/agent.jsonl"],
        "window": {"last": 200},
        "level": 0.95,
        "not_found": [],
        "state": STEADY,
        "progress": PROGRESS,
        "overall": group(1206, 200, 0.8312, judged=judged),
        "templates": {
            name: group(300 + i, 50, 0.9 - 0.05 * i, judged=judged)
            for i, name in enumerate(templates)
        },
        "results_per_sec": 4.21,
        "in_flight": 12,
        "misnamed": None,
        "rejects": {"invalid_json": 2},
        "questions": 6,
        "missing": 1,
        "lag": {"bytes": 12412, "seconds": 0.31},
        "judge": JUDGE if judged else None,
        "journal": None,
        "skipped": 0,
        "late": None,
        "alerts": [],
        "show": "last",
        "failure_texts": {},
        "results": [result(number, judged=judged) for number in range(40, 0, -1)],
        **more,
    }
