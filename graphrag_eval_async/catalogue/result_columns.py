"""The columns that every table of results has, in their order, and their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrag_eval_async.catalogue.metrics import RESULT_METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

_QUESTION_AND_RESPONSE = """
    template_id question_id question_text reference_steps reference_answer
    status error actual_answer actual_steps
"""

_EXPLANATIONS_AND_ORIGIN = """
    steps_score_error answer_match_reason failure failure_detail execution_error
    response_id trace_problems metadata source tags execution judge
"""

COLUMN_TYPES: Mapping[str, str] = {
    **dict.fromkeys(_QUESTION_AND_RESPONSE.split(), "string"),
    "sample": "int64",
    **dict.fromkeys(RESULT_METRICS, "double"),
    **dict.fromkeys(_EXPLANATIONS_AND_ORIGIN.split(), "string"),
}
"""The type of each of these columns in a Parquet file, by its name."""

RESULT_COLUMNS: tuple[str, ...] = tuple(COLUMN_TYPES)
"""Names of the columns that `results_to_rows` always returns, in their order.

With them, a table has its columns even without results:
``pandas.DataFrame(rows, columns=RESULT_COLUMNS)``.
"""
