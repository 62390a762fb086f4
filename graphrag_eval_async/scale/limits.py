"""Divides the limits of a configuration among the workers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from graphrag_eval_async.config import Config

if TYPE_CHECKING:
    from graphrag_eval_async.evaluator import EvaluatorOptions


def budget_of(config: Config | None) -> float | None:
    """Return the budget of a run in US dollars; None if there is none."""
    return None if config is None or config.llm is None else config.llm.limits.budget_usd


def most_workers(config: Config | None, wanted: int) -> int:
    """Return how many workers a run may have, up to `wanted`: each needs one of the allowed
    requests.
    """
    if config is None:
        return wanted
    workers = wanted
    if config.llm is not None:
        workers = min(workers, config.llm.limits.max_concurrency)
    if config.execute is not None:
        workers = min(workers, config.execute.max_in_flight)
    return workers


def divide_limits(config: Config, workers: int) -> Config:
    """Return the configuration of one of several workers, which together keep to its limits.

    Concurrency is rounded down. The budget stays: `Budget` divides it shard by shard.
    """
    llm = config.llm
    if llm is not None:
        limits = llm.limits
        share = replace(
            limits,
            max_concurrency=limits.max_concurrency // workers,
            requests_per_minute=_share(limits.requests_per_minute, workers),
            tokens_per_minute=_share(limits.tokens_per_minute, workers),
        )
        llm = replace(llm, limits=share)

    execute = config.execute
    if execute is not None:
        execute = replace(execute, max_in_flight=execute.max_in_flight // workers)
    return replace(config, llm=llm, execute=execute)


def _share(rate: float | None, workers: int) -> float | None:
    return None if rate is None else rate / workers


def with_budget(options: EvaluatorOptions, budget_usd: float) -> EvaluatorOptions:
    """Return the options with this budget in their configuration, which is loaded."""
    config = options["config"]
    # Only a loaded configuration with models has a budget to divide.
    assert isinstance(config, Config) and config.llm is not None  # noqa: PT018, S101
    limits = replace(config.llm.limits, budget_usd=budget_usd)
    return {**options, "config": replace(config, llm=replace(config.llm, limits=limits))}


class Budget:
    """Divides what is left of a budget among the shards in progress."""

    def __init__(self, dollars: float | None) -> None:
        """Divide `dollars`; None stands for no limit."""
        self._left = dollars  # Neither spent nor reserved.

    def spend(self, dollars: float) -> None:
        """Count what was spent outside of reservations."""
        if self._left is not None:
            self._left -= dollars

    def reserve(self, size: int, size_beside: int) -> float | None:
        """Reserve and return the share of a shard, in proportion to its bytes; None without a
        limit.

        Args:
            size: bytes of the shard.
            size_beside: bytes of the shards that will be submitted before any is finished.
        """
        if self._left is None:
            return None
        share = max(0.0, self._left) * size / max(1, size + size_beside)
        self._left -= share
        return share

    def settle(self, share: float | None, spent: float) -> None:
        """Replace a reservation by what was spent of it."""
        if self._left is not None and share is not None:
            self._left += share - spent
