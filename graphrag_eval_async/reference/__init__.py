"""The reference set: questions, their answers and steps, read and checked once."""

from graphrag_eval_async.reference.loading import load_reference as load_reference
from graphrag_eval_async.reference.reference_set import NoReference as NoReference
from graphrag_eval_async.reference.reference_set import Prepared as Prepared
from graphrag_eval_async.reference.reference_set import PreparedSteps as PreparedSteps
from graphrag_eval_async.reference.reference_set import Reference as Reference
from graphrag_eval_async.reference.reference_set import Templates as Templates
from graphrag_eval_async.reference.reference_set import idle_comparators as idle_comparators
from graphrag_eval_async.reference.run_checks import check_matches as check_matches
from graphrag_eval_async.reference.run_checks import check_outputs as check_outputs
from graphrag_eval_async.reference.step_names import StepNames as StepNames
from graphrag_eval_async.reference.step_names import misnamed_steps as misnamed_steps
