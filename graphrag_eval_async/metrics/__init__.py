"""The metrics that an LLM judges, one file for each."""

from graphrag_eval_async.metrics.configured import metrics_on
from graphrag_eval_async.metrics.judging import Judged, Judging, OnFatal, Plan

__all__ = ["Judged", "Judging", "OnFatal", "Plan", "metrics_on"]
