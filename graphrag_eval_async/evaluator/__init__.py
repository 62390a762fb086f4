"""One response in, one evaluation out: the evaluator, its fast path, its scoring and its setup."""

from graphrag_eval_async.evaluator.evaluator import Evaluator as Evaluator
from graphrag_eval_async.evaluator.evaluator import EvaluatorOptions as EvaluatorOptions
from graphrag_eval_async.evaluator.evaluator import is_large as is_large
