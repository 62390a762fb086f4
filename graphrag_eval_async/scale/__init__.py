"""Uses all cores: cuts files into ranges, evaluates them in worker processes, merges in order."""

from graphrag_eval_async.scale.file_evaluation import EvaluatedFile, evaluate_file

__all__ = ["EvaluatedFile", "evaluate_file"]
