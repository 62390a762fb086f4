"""Runs queries before steps are scored: on an endpoint, or on a file in processes that can be
killed.
"""

from graphrag_eval_async.execution.outcomes import Executed
from graphrag_eval_async.execution.session import Executing, ExecutionSession

__all__ = ["Executed", "Executing", "ExecutionSession"]
