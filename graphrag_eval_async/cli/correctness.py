"""``answer-correctness``: the claims of the answers in a table."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import check_distinct, make_folder_of
from graphrag_eval_async.cli.judges import judge_config, judging, keep_answer_correctness, nothing_judged
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import end
from graphrag_eval_async.cli.tsv import Answer, Output, read_answers
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.stream import MAX_IN_FLIGHT, EvaluationStream, evaluate_stream
from graphrag_eval_async.text import counts, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphrag_eval_async.cli.commands import AnswerCorrectness
    from graphrag_eval_async.config import Config

CALLS_AHEAD = 8
"""Rows in progress per allowed call: a slow row delays the ones behind it."""

MODEL = "openai/gpt-4o-mini"
"""The default LLM, if there is only an OpenAI key, as in the published library."""

COUNTS = ("answer_reference_claims_count", "answer_actual_claims_count", "answer_matching_claims_count")


def run(given: AnswerCorrectness, interrupts: Interrupts) -> Exit:
    llm = given.llm
    if llm is None and given.config is None and os.environ.get("OPENAI_API_KEY"):
        llm = MODEL
    config = judge_config(given.config, llm, prepare=keep_answer_correctness)
    if config is None:
        raise UsageError(
            "no LLM that judges: give --config FILE or --llm PROVIDER/MODEL, or set OPENAI_API_KEY, so "
            f"that {MODEL} judges"
        )
    assert config.llm is not None  # noqa: S101  (which the metric needs)
    check_distinct([given.answers, given.config, config.llm.cache], [given.output])
    answers = read_answers(given.answers)
    output = Output(given.output, len(answers), escape_formulas=given.escape_formulas)
    earlier = output.consumed
    # Before the output is touched, since it may find the configuration wanting.
    stream = _stream(answers, earlier, config, ahead=CALLS_AHEAD * config.llm.limits.max_concurrency)
    make_folder_of(given.output)
    errors: Counter[str] = Counter()
    with output, progress(output, usage=stream.usage) as advance:
        ending = run_to_end(_write_rows(stream, answers, output, errors, advance), interrupts)
    before = f", {earlier} of them from before" if earlier else ""
    without = f"; not judged: {counts(errors)}" if errors else ""
    tell(sys.stderr, f"rows: {output.consumed} of {len(answers)}{before}{without}")
    tell(sys.stderr, "\n".join(judging(judge_of(config) or "", stream.usage)))
    if ending.error is None:
        ending = ending._replace(error=nothing_judged(config, stream.usage, ()))
    return end(ending)


def _stream(answers: Sequence[Answer], start: int, config: Config, *, ahead: int) -> EvaluationStream:
    """Yield the results of the answers from `start` on, in order; each is a question of its own."""
    questions, responses = [], []
    for row, answer in enumerate(answers[start:], start):
        known = {"question_text": answer.question, "reference_answer": answer.reference_answer}
        questions.append({"id": str(row), **known})
        given = {} if answer.problem else {"actual_answer": answer.actual_answer}
        responses.append({"question_id": str(row), **given})
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
