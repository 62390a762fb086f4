"""Scoring an agent's steps against the reference's: pure, synchronous, one comparator per
module.
"""

from graphrag_eval_async.steps.budget import QUICK_STEPS as QUICK_STEPS
from graphrag_eval_async.steps.budget import STEPS as STEPS
from graphrag_eval_async.steps.budget import Budget as Budget
from graphrag_eval_async.steps.comparators import Comparator as Comparator
from graphrag_eval_async.steps.comparators import PreparedStep as PreparedStep
from graphrag_eval_async.steps.comparators import accepted_names as accepted_names
from graphrag_eval_async.steps.comparators import check_step as check_step
from graphrag_eval_async.steps.comparators import compares_by_name as compares_by_name
from graphrag_eval_async.steps.comparators import needs_execution as needs_execution
from graphrag_eval_async.steps.comparators import prepare_step as prepare_step
from graphrag_eval_async.steps.failure import Facts as Facts
from graphrag_eval_async.steps.failure import agent_error as agent_error
from graphrag_eval_async.steps.failure import broken_limit as broken_limit
from graphrag_eval_async.steps.failure import failure_of as failure_of
from graphrag_eval_async.steps.matching import StepsScore as StepsScore
from graphrag_eval_async.steps.matching import mean_values as mean_values
from graphrag_eval_async.steps.matching import score_steps as score_steps
from graphrag_eval_async.steps.matching import usable_names as usable_names
from graphrag_eval_async.steps.queries import is_cypher_step as is_cypher_step
from graphrag_eval_async.steps.retrieval import average_precision as average_precision
from graphrag_eval_async.steps.retrieval import recall_at_k as recall_at_k
from graphrag_eval_async.steps.tool_calls import tool_calls as tool_calls
