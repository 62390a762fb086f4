"""Statistics over results: exact, mergeable, and ready at any moment of a stream."""

from graphrag_eval_async.aggregates.running import RunningAggregates

__all__ = ["RunningAggregates"]
