"""The metrics that an LLM judges, one file for each."""

from graphrag_eval_async.metrics.custom import kinds_of_outputs
from graphrag_eval_async.metrics.judging import Judging, OnFatal, Plan

__all__ = ["Judging", "OnFatal", "Plan", "kinds_of_outputs"]
