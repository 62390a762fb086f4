"""Divides the limits of a configuration among the workers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from graphrag_eval_async.config import Config

if TYPE_CHECKING:
    from graphrag_eval_async.evaluator import EvaluatorOptions


def budget_of(config: Config | None) -> float | None:
    """Return the budget of a run in US dollars; None if there is none."""
    if config is None or config.llm is None:
        return None
    return config.llm.limits.budget_usd


def most_workers(config: Config | None, wanted: int) -> int:
    """Return how many workers a run may have.

    Each worker sends requests, so there may not be more workers than concurrent requests.

    Args:
        config: the configuration, which limits concurrent requests; None if there is none.
        wanted: how many workers the user wants at most.
    """
    workers = wanted
    if config is None:
        return workers
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
        limits_of_worker = replace(
            limits,
            max_concurrency=limits.max_concurrency // workers,
            requests_per_minute=_divide_rate(limits.requests_per_minute, workers),
            tokens_per_minute=_divide_rate(limits.tokens_per_minute, workers),
        )
        llm = replace(llm, limits=limits_of_worker)

    execute = config.execute
    if execute is not None:
        execute = replace(execute, max_in_flight=execute.max_in_flight // workers)
    return replace(config, llm=llm, execute=execute)


def _divide_rate(rate: float | None, workers: int) -> float | None:
    """Return the part of a rate limit that one of several workers has; None without a limit."""
    if rate is None:
        return None
    return rate / workers


def with_budget(options: EvaluatorOptions, budget_usd: float) -> EvaluatorOptions:
    """Return options of an evaluator with another budget in their configuration.

    Args:
        options: the options, whose configuration is loaded.
        budget_usd: the budget in US dollars.
    """
    config = options["config"]
    # Only a loaded configuration with models has a budget to divide.
    assert isinstance(config, Config) and config.llm is not None  # noqa: PT018, S101
    limits = replace(config.llm.limits, budget_usd=budget_usd)
    llm = replace(config.llm, limits=limits)
    return {**options, "config": replace(config, llm=llm)}


class Budget:
    """Divides what is left of a budget among the shards in progress."""

    def __init__(self, dollars: float | None) -> None:
        """Divide this many US dollars; None stands for no limit."""
        # What is neither spent nor reserved.
        self._available = dollars

    def spend(self, dollars: float) -> None:
        """Count US dollars that were spent without a reservation."""
        if self._available is not None:
            self._available -= dollars

    def reserve(self, size: int, size_beside: int) -> float | None:
        """Reserve the share of a shard, in proportion to its bytes.

        Args:
            size: bytes of the shard.
            size_beside: bytes of the shards that will be submitted before any is finished.

        Returns:
            the share in US dollars; None without a limit.
        """
        if self._available is None:
            return None
        total_size = max(1, size + size_beside)
        share = max(0.0, self._available) * size / total_size
        self._available -= share
        return share

    def settle(self, share: float | None, spent: float) -> None:
        """Replace the reservation of a shard by the US dollars that were spent on the shard.

        Args:
            share: what `reserve` returned for the shard.
            spent: what was spent.
        """
        if self._available is not None and share is not None:
            self._available += share - spent
