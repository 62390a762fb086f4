"""The public names, one a line. `__init__.py` reads them here, as type checkers do."""

from graphrag_eval_async.aggregates import Last as Last
from graphrag_eval_async.aggregates import Seconds as Seconds
from graphrag_eval_async.batch import calibrate as calibrate
from graphrag_eval_async.batch import compare as compare
from graphrag_eval_async.batch import compute_aggregates as compute_aggregates
from graphrag_eval_async.batch import plan_questions as plan_questions
from graphrag_eval_async.batch import run_evaluation as run_evaluation
from graphrag_eval_async.blocking import run_evaluation_sync as run_evaluation_sync
from graphrag_eval_async.catalogue.result_columns import RESULT_COLUMNS as RESULT_COLUMNS
from graphrag_eval_async.config import load_config as load_config
from graphrag_eval_async.config.in_code import metric as metric
from graphrag_eval_async.errors import AggregationError as AggregationError
from graphrag_eval_async.errors import ConfigError as ConfigError
from graphrag_eval_async.errors import ExecutionUnavailable as ExecutionUnavailable
from graphrag_eval_async.errors import GraphragEvalError as GraphragEvalError
from graphrag_eval_async.errors import GraphragEvalWarning as GraphragEvalWarning
from graphrag_eval_async.errors import JournalError as JournalError
from graphrag_eval_async.errors import JournalLocked as JournalLocked
from graphrag_eval_async.errors import JournalMismatch as JournalMismatch
from graphrag_eval_async.errors import JudgeError as JudgeError
from graphrag_eval_async.errors import JudgeUnavailable as JudgeUnavailable
from graphrag_eval_async.errors import MissingResponses as MissingResponses
from graphrag_eval_async.errors import ReferenceDataError as ReferenceDataError
from graphrag_eval_async.errors import RejectedResponse as RejectedResponse
from graphrag_eval_async.errors import RejectedResponses as RejectedResponses
from graphrag_eval_async.errors import SourceError as SourceError
from graphrag_eval_async.errors import TraceError as TraceError
from graphrag_eval_async.errors import UsageError as UsageError
from graphrag_eval_async.errors import WorkerError as WorkerError
from graphrag_eval_async.evaluator import Evaluator as Evaluator
from graphrag_eval_async.exporters.otel import OtelSink as OtelSink
from graphrag_eval_async.exporters.prometheus import PrometheusCollector as PrometheusCollector
from graphrag_eval_async.inference.compared import Comparison as Comparison
from graphrag_eval_async.inference.running import RunningAggregates as RunningAggregates
from graphrag_eval_async.inference.until import Until as Until
from graphrag_eval_async.judge import Judge as Judge
from graphrag_eval_async.judge import JudgeUsage as JudgeUsage
from graphrag_eval_async.judge import TokenUsage as TokenUsage
from graphrag_eval_async.judge.openai_judge import OpenAIJudge as OpenAIJudge
from graphrag_eval_async.monitor.dashboard import Dashboard as Dashboard
from graphrag_eval_async.records import Line as Line
from graphrag_eval_async.records import LongLine as LongLine
from graphrag_eval_async.records import Position as Position
from graphrag_eval_async.records import Question as Question
from graphrag_eval_async.records import Reject as Reject
from graphrag_eval_async.records import Rejects as Rejects
from graphrag_eval_async.records.tabular import results_to_rows as results_to_rows
from graphrag_eval_async.reference import Reference as Reference
from graphrag_eval_async.reference import load_reference as load_reference
from graphrag_eval_async.reference.authoring import (
    reference_step_from_sparql as reference_step_from_sparql,
)
from graphrag_eval_async.reference.authoring import save_reference as save_reference
from graphrag_eval_async.reference.importing import import_questions as import_questions
from graphrag_eval_async.scale import evaluate_file as evaluate_file
from graphrag_eval_async.sinks.journal import Journal as Journal
from graphrag_eval_async.sources import Follower as Follower
from graphrag_eval_async.sources import follow_jsonl as follow_jsonl
from graphrag_eval_async.sources import read_jsonl as read_jsonl
from graphrag_eval_async.sources.receiving import receive_otlp as receive_otlp
from graphrag_eval_async.steps import average_precision as average_precision
from graphrag_eval_async.steps import recall_at_k as recall_at_k
from graphrag_eval_async.stream import EvaluationStream as EvaluationStream
from graphrag_eval_async.stream import evaluate_agent as evaluate_agent
from graphrag_eval_async.stream import evaluate_stream as evaluate_stream
from graphrag_eval_async.stream.http_agent import http_agent as http_agent
from graphrag_eval_async.stream.until import Decision as Decision

__all__: list[str]
