"""The pipeline: responses in as they arrive, results and running aggregates out."""

from graphrag_eval_async.sources.lines import MAX_LINE_BYTES
from graphrag_eval_async.stream.agent import evaluate_agent
from graphrag_eval_async.stream.options import MAX_IN_FLIGHT
from graphrag_eval_async.stream.pipeline import EvaluationStream, evaluate_stream

__all__ = ["MAX_IN_FLIGHT", "MAX_LINE_BYTES", "EvaluationStream", "evaluate_agent", "evaluate_stream"]
