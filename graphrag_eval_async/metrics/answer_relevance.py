"""RAGAS answer relevancy: whether the answer answers the question that was asked."""

from __future__ import annotations

from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.judge.protocol import format_of
from graphrag_eval_async.metrics.metric import has_text, messages, metric_of_one_call, prompts_of
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, require_ragas, together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphrag_eval_async.config.model import AnswerRelevanceConfig
    from graphrag_eval_async.judge.calls import MetricCalls
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

NAME = "answer_relevance"
NONCOMMITTAL = "the judge found the answer noncommittal: evasive, vague or ambiguous"


INSTRUCTIONS = """\
<answer> replies to a question that you do not see. Write that question as it was probably asked, from \
<answer> alone. Number of versions, which differ in wording only: {count}. Then say whether <answer> is \
noncommittal, that is, evasive, vague or ambiguous, such as "I don't know".

Reply with JSON: "questions", a list of the versions; "noncommittal", true or false."""


class GuessedQuestions(Struct, frozen=True):
    """Questions that an answer may reply to."""

    questions: list[str]
    noncommittal: Annotated[bool, Meta(description="Whether the answer is evasive, vague or ambiguous.")]


FORM = format_of(GuessedQuestions)


def answer_relevance(config: AnswerRelevanceConfig) -> Metric:
    """Return the metric `answer_relevance`."""
    if config.mode == "joint":
        instructions = INSTRUCTIONS.replace("{count}", str(config.strictness))
        guess, prompts = partial(_jointly, instructions, config.strictness), prompts_of(instructions, FORM)
    else:
        guess = partial(_one_by_one, config.strictness)
        prompts = [f"ragas {require_ragas(NAME)} AnswerRelevancePrompt", f"strictness {config.strictness}"]

    def call_for(case: Case) -> Call | None:
        answer = case.actual_answer or ""
        is_complete = has_text(case.question, answer)
        return partial(_relevance, guess, case.question, answer) if is_complete else None

    return metric_of_one_call(NAME, prompts, call_for)


async def _relevance(
    guess: Callable[[str, MetricCalls], Awaitable[GuessedQuestions]],
    question: str,
    answer: str,
    judge: MetricCalls,
) -> dict[str, Any]:
    """Return the mean cosine similarity of the question and questions generated from the answer.

    From -1 to 1; 0 if the judge found the answer noncommittal, with RAGAS' prompt in every sample. Formula:
    https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/answer_relevance/
    """
    found = await guess(answer, judge)
    if found.noncommittal:
        return {NAME: 0.0, f"{NAME}_reason": NONCOMMITTAL}
    if not found.questions:
        raise JudgeError("invalid_reply", "the judge generated no question from the answer")
    asked, *generated = await judge.embed([question, *found.questions])
    return {NAME: fsum(cosine(asked, vector) for vector in generated) / len(generated)}


async def _jointly(instructions: str, strictness: int, answer: str, judge: MetricCalls) -> GuessedQuestions:
    found = await judge.ask(partial(messages, instructions, {"answer": answer}), FORM)
    return GuessedQuestions([*filter(has_text, found.questions)][:strictness], found.noncommittal)


async def _one_by_one(strictness: int, answer: str, judge: MetricCalls) -> GuessedQuestions:
    from ragas.metrics.collections.answer_relevancy.util import AnswerRelevancePrompt

    sample = partial(ask_ragas, judge, AnswerRelevancePrompt, response=answer)
    samples = [partial(sample, repeat=index) for index in range(strictness)]
    outputs = [output for output in await together(*samples) if has_text(output.question)]
    is_noncommittal = bool(outputs) and all(output.noncommittal for output in outputs)
    return GuessedQuestions([output.question for output in outputs], is_noncommittal)
