"""``answer-correctness``: the claims of the answers in a table."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.costs import counts, judge_of, judging
from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.files import check_distinct, open_output
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.text import describe, tell
from graphrag_eval_async.cli.tsv import Output, read_answers, read_written
from graphrag_eval_async.stream import MAX_IN_FLIGHT, EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.models import Models
    from graphrag_eval_async.cli.tsv import Answer
    from graphrag_eval_async.config import Config

CALLS_AHEAD = 8
"""How many times as many rows are in work as calls may be in flight: a slow row holds up those behind."""

COUNTS = ("answer_reference_claims_count", "answer_actual_claims_count", "answer_matching_claims_count")


def correctness(input_path: str, output_path: str, interrupts: Interrupts, *, models: Models) -> Exit:
    """Run the command.

    Raises:
        UsageError: there is no judge, or the input or the output is not what it should be.
        ConfigError: the configuration cannot be right, or needs a package that is not installed.
    """
    config = models.config_of_answer_correctness()
    assert config.llm is not None  # noqa: S101  (which the metric needs)
    check_distinct([input_path, models.path, config.llm.cache], [output_path])
    answers = read_answers(input_path)
    written = read_written(output_path, len(answers))
    # Before the output is touched, since it may find the configuration wanting.
    stream = _stream(answers, written.rows, config, ahead=CALLS_AHEAD * config.llm.limits.max_concurrency)
    errors: Counter[str] = Counter()
    opened = open_output(partial(Output, written=written, rows=len(answers)), output_path)
    with opened as output, progress(output, usage=stream.usage) as advance:
        ending = run_to_end(_write_rows(stream, answers, output, errors, advance), interrupts)
    before = f", {written.rows} of them from before" if written.rows else ""
    without = f"; not judged: {counts(errors)}" if errors else ""
    tell(sys.stderr, f"rows: {output.consumed} of {len(answers)}{before}{without}")
    tell(sys.stderr, "\n".join(judging(judge_of(config) or "", stream.usage)))
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")
    return ending.code(rejects=False)


def _stream(answers: Sequence[Answer], start: int, config: Config, *, ahead: int) -> EvaluationStream:
    """The results of the answers from `start` on, in their order; each is a question of its own."""
    rows = range(start, len(answers))
    questions = [
        {
            "id": str(row),
            "question_text": answers[row].question,
            "reference_answer": answers[row].reference_answer,
        }
        for row in rows
    ]
    responses = (
        {"question_id": str(row)}
        if answers[row].problem
        else {"question_id": str(row), "actual_answer": answers[row].actual_answer}
        for row in rows
    )
    return evaluate_stream(
        [{"template_id": "answers", "questions": questions}],
        responses,
        config=config,
        ordered=True,
        max_in_flight=max(MAX_IN_FLIGHT, ahead),
        on_reject="raise",
    )


async def _write_rows(
    stream: EvaluationStream,
    answers: Sequence[Answer],
    output: Output,
    errors: Counter[str],
    advance: Callable[[], None],
) -> None:
    async with stream:
        async for result in stream:
            # Where a row has ended the stream, those behind it may still come, but are not next.
            if result["question_id"] == str(output.consumed):
                cells = _cells(answers[output.consumed], result)
                output.write(cells)
                advance()
                if cells[-1]:
                    errors[cells[-1].partition(":")[0]] += 1


def _cells(answer: Answer, result: Mapping[str, Any]) -> list[str]:
    if answer.problem:
        return ["", "", "", "", f"skipped: {answer.problem}"]
    if "answer_eval_error" in result:
        return ["", "", "", "", result["answer_eval_error"]]
    return [*(str(result[key]) for key in COUNTS), result["answer_correctness_reason"], ""]
