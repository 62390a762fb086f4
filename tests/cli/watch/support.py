"""Logs that grow, and facts that never change, of a run that might have been."""

from __future__ import annotations

from math import sin
from typing import TYPE_CHECKING, Any

from tests.cli.support import to_jsonl

if TYPE_CHECKING:
    from tests.cli.support import Folder


def append(folder: Folder, *items: Any, name: str = "responses.jsonl") -> None:
    """Write lines to the end of a log."""
    with open(folder.file(name), "ab") as log:
        log.write(to_jsonl(items))


TEMPLATES = ("transformers", "lines", "measurements", "settings")


def value(mean: float, window: float | None = None, phase: float = 0.0) -> dict[str, Any]:
    """A mean so far, that of the window, and a wave for its trend."""
    window = mean if window is None else window
    return {
        "mean": mean,
        "window": window,
        "trend": [window + 0.1 * mean * sin(i / 3 + phase) for i in range(24)],
    }


def group(samples: int, window: int, score: float, *, judged: bool) -> dict[str, Any]:
    """The facts of the results of one template."""
    steps = value(score, score * 0.95, score)
    steps["confidence"] = {"level": 0.95, "low": score - 0.05, "high": score + 0.04}
    steps["quantiles"] = {"p50": 1, "p90": 1, "p95": 1, "p99": 1}
    metrics = {"steps_score": steps, "elapsed_sec": value(7.123, 6.87, 4 * score)}
    if judged:
        metrics |= {"answer_recall": value(0.72), "answer_precision": value(0.69)}
        metrics["answer_f1"] = value(0.704, 0.688, 2 * score)
        metrics["answer_relevance"] = value(0.9041, 0.889, 3 * score)
    tokens = {
        "input_tokens": (15640.5, 15702),
        "output_tokens": (174, 174),
        "total_tokens": (15814.5, 15876),
    }
    metrics |= {name: value(*means) for name, means in tokens.items()}
    return {
        "coverage": {"steps_score": {"applied": 2, "values": 2, "failed": {}, "pending": 0}},
        "failure": {},
        "samples": {"total": samples, "window": window, "trend": [window] * 9},
        "errors": {"total": samples // 50, "window": window // 50, "trend": [0, 0, 1, 2, 2, 1]},
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
        "results": [result(number, judged=judged) for number in range(40, 0, -1)],
        **more,
    }
