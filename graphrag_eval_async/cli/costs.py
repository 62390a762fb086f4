"""What judging took, in words."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.text import one_line
from graphrag_eval_async.metrics import metrics_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import JudgeUsage


def judge_of(config: Config | None) -> str | None:
    """The LLM that judges; None where no metric is on."""
    if config is None or config.llm is None or config.llm.generation is None or not metrics_on(config):
        return None
    return one_line(config.llm.generation.model)


def dollars(amount: float | None) -> str:
    """An amount in US dollars: to the cent, or to four digits where that is more."""
    if amount is None:
        return "price not known"
    digits = 2 if amount <= 0 else max(2, 3 - floor(log10(amount)))
    whole, _, rest = f"{amount:.{digits}f}".partition(".")
    return f"${whole}.{rest[:2]}{rest[2:].rstrip('0')}"


def judging(model: str, usage: JudgeUsage) -> list[str]:
    """What the judge did, in a few lines."""
    about = "about " if usage.unmetered and usage.dollars is not None else ""
    shared = f", {usage.shared_calls} shared" if usage.shared_calls else ""
    failed = sum(usage.errors.values())
    metrics = [
        f"{usage.outcomes['ok']} ok",
        f"{usage.outcomes['skipped']} skipped",
        f"{failed} failed" + (f" ({counts(usage.errors)})" if failed else ""),
    ]
    calls = f"{usage.calls} calls, {usage.attempts} attempts, {usage.cache_hits} cached{shared}"
    before = f", {dollars(usage.restored_dollars)} of it before" if usage.restored_dollars else ""
    return [
        f"judge {model}: {calls}, {about}{dollars(usage.dollars)}{before}",
        f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, {usage.embedding_tokens} embedded",
        f"metrics: {', '.join(metrics)}" + (f"; retries: {counts(usage.retries)}" if usage.retries else ""),
    ]


def counts(of: Mapping[Any, int]) -> str:
    """Such as "2 budget, 1 timeout"."""
    return ", ".join(f"{count} {kind}" for kind, count in sorted(of.items()))


def by_frequency(of: Mapping[str, int]) -> str:
    """The same, the most frequent first."""
    ordered = sorted(of.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {kind}" for kind, count in ordered)
