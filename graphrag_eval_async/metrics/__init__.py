"""The metrics that an LLM judges, one file for each."""

from graphrag_eval_async.metrics.custom import kinds_of_outputs
from graphrag_eval_async.metrics.judging import Judged, Judging, OnFatal, Plan, judge_of, metrics_on

__all__ = ["Judged", "Judging", "OnFatal", "Plan", "judge_of", "kinds_of_outputs", "metrics_on"]
