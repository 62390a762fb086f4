"""RAGAS answer relevancy: whether the answer answers the question that was asked."""

from __future__ import annotations

from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import Calls, Case, Keys, Metric, Prompt, has_text
from graphrag_eval_async.metrics.ragas_bridge import ask_ragas, cosine, ragas_prompts, together

if TYPE_CHECKING:
    from graphrag_eval_async.catalogue.judged import AnswerRelevanceConfig

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
    noncommittal: Annotated[
        bool, Meta(description="Whether the answer is evasive, vague or ambiguous.")
    ]


def answer_relevance(config: AnswerRelevanceConfig) -> Metric:
    """Return the metric `answer_relevance`: the mean cosine of the question and guessed ones.

    From -1 to 1; 0 if the judge found the answer noncommittal, with RAGAS' prompt in every sample.
    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/answer_relevance/
    """
    count, is_joint = config.strictness, config.mode == "joint"
    prompt = Prompt.of(INSTRUCTIONS.replace("{count}", str(count)), GuessedQuestions)
    ragas = "AnswerRelevancePrompt"
    prompts = prompt.texts if is_joint else [*ragas_prompts(NAME, ragas), f"strictness {count}"]

    async def score(case: Case, calls: Calls) -> Keys:
        answer = case.actual_answer or ""
        if is_joint:
            found = await prompt.ask(calls, answer=answer)
            questions, noncommittal = (
                [*filter(has_text, found.questions)][:count],
                found.noncommittal,
            )
        else:
            ask = partial(ask_ragas, calls, "answer_relevancy", ragas, response=answer)
            outputs = await together(*(ask(repeat=index) for index in range(count)))
            told = [output for output in outputs if has_text(output.question)]
            questions = [output.question for output in told]
            noncommittal = bool(told) and all(output.noncommittal for output in told)
        if noncommittal:
            return {NAME: 0.0, f"{NAME}_reason": NONCOMMITTAL}
        if not questions:
            raise JudgeError("invalid_reply", "the judge generated no question from the answer")
        asked, *generated = await calls.embed([case.question, *questions])
        return {NAME: fsum(cosine(asked, vector) for vector in generated) / len(generated)}

    return Metric.of_answer(
        NAME, prompts, lambda case: has_text(case.question, case.actual_answer), score
    )
