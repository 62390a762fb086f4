"""A bounded, cancel-safe map over an asynchronous source; it knows nothing of evaluation."""

from graphrag_eval_async.concurrency.bounded_map import SLICE_SECONDS, BoundedMap, Later, Source
from graphrag_eval_async.concurrency.threads import outlast, run_in_thread

__all__ = ["SLICE_SECONDS", "BoundedMap", "Later", "Source", "outlast", "run_in_thread"]
