"""All cores: files cut into ranges, evaluated by worker processes, merged in order."""

from graphrag_eval_async.scale.file_evaluation import EvaluatedFile, evaluate_file

__all__ = ["EvaluatedFile", "evaluate_file"]
