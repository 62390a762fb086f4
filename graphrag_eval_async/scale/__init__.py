"""Evaluates on all cores, by workers of a Redis stream, or on a Ray cluster."""

from importlib import import_module
from typing import TYPE_CHECKING

from graphrag_eval_async.removed import explain_removed

if TYPE_CHECKING:
    from graphrag_eval_async.scale.evaluate_file import EvaluatedFile as EvaluatedFile
    from graphrag_eval_async.scale.evaluate_file import evaluate_file as evaluate_file
    from graphrag_eval_async.scale.ray import evaluate_dataset as evaluate_dataset
    from graphrag_eval_async.scale.redis.results import redis_results as redis_results
    from graphrag_eval_async.scale.redis.results import watch_redis as watch_redis
    from graphrag_eval_async.scale.redis.source import redis_stream as redis_stream

_MODULES = {
    "EvaluatedFile": "evaluate_file",
    "evaluate_dataset": "ray",
    "evaluate_file": "evaluate_file",
    "redis_results": "redis.results",
    "redis_stream": "redis.source",
    "watch_redis": "redis.results",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most programs need one."""
    if name not in _MODULES:
        if message := explain_removed(f"{name}()"):
            raise ImportError(message, name=__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
