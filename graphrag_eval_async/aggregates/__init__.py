"""Statistics over results: exact, mergeable, and available at any time during a stream."""

from graphrag_eval_async.aggregates.running import Aggregates
from graphrag_eval_async.aggregates.window import Last, Seconds

__all__ = ["Aggregates", "Last", "Seconds"]
