"""RAGAS answer relevancy: whether the answer answers the question that was asked.

The prompt and the formula are those of `AnswerRelevancy` of ragas, but not its class: without any
guessed question, it scores 0, while here that is an error, since a failure is no score. It also
asks for one question after the other, and embeds evasive answers.
"""

from __future__ import annotations

from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from graphrag_eval_async.errors import JudgeError
from graphrag_eval_async.metrics.metric import Calls, Case, Metric, Prompt, has_text
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


RAGAS_PROMPT = "AnswerRelevancePrompt"


class Guess(NamedTuple):
    """Questions that the judge guessed from an answer.

    Attributes:
        questions: the guessed questions that are not blank.
        is_noncommittal: whether the judge finds the answer evasive. With the prompt of RAGAS,
            every reply that has a question must say so.
    """

    questions: list[str]
    is_noncommittal: bool


def answer_relevance(config: AnswerRelevanceConfig) -> Metric:
    """Return the metric `answer_relevance`: the mean cosine of the question and guessed questions.

    The judge guesses questions from the answer. Values are from -1 to 1; the value is 0 if the
    judge finds the answer noncommittal.
    Formula: https://docs.ragas.io/en/v0.3.3/concepts/metrics/available_metrics/answer_relevance/
    """
    count = config.strictness
    if config.mode == "joint":
        prompt = Prompt.for_struct(INSTRUCTIONS.replace("{count}", str(count)), GuessedQuestions)
        prompts = prompt.texts
        guess_questions = partial(_guess_in_one_call, prompt, count)
    else:
        prompts = [*ragas_prompts(NAME, RAGAS_PROMPT), f"strictness {count}"]
        guess_questions = partial(_guess_by_ragas, count)

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Ask the judge to guess questions, and return the entries of the result."""
        guess = await guess_questions(case.actual_answer or "", calls)
        return await _score(case.question, guess, calls)

    return Metric.of_answer(NAME, prompts, _applies, score)


def _applies(case: Case) -> bool:
    """Return whether a response has an answer, and its question a text."""
    return has_text(case.question, case.actual_answer)


async def _guess_in_one_call(prompt: Prompt, count: int, answer: str, calls: Calls) -> Guess:
    """Ask the judge once, and return at most `count` questions that `answer` may reply to."""
    reply = await prompt.ask(calls, answer=answer)
    questions = [question for question in reply.questions if has_text(question)]
    return Guess(questions[:count], reply.noncommittal)


async def _guess_by_ragas(count: int, answer: str, calls: Calls) -> Guess:
    """Ask the judge `count` times with the prompt of RAGAS for a question that `answer` replies to.

    The answer is noncommittal if each reply that has a question says so.
    """
    requests = [
        ask_ragas(calls, "answer_relevancy", RAGAS_PROMPT, repeat=repeat, response=answer)
        for repeat in range(count)
    ]
    replies = await together(*requests)
    useful_replies = [reply for reply in replies if has_text(reply.question)]
    # If there is no question at all, `all` would say yes.
    is_noncommittal = False
    if useful_replies:
        is_noncommittal = all(reply.noncommittal for reply in useful_replies)
    return Guess([reply.question for reply in useful_replies], is_noncommittal)


async def _score(question: str, guess: Guess, calls: Calls) -> dict[str, Any]:
    """Return the entries of a result: the mean cosine of the question and the guessed questions.

    The mean is 0 if the judge finds the answer noncommittal.

    Raises:
        JudgeError: a call failed, or no question was guessed.
    """
    if guess.is_noncommittal:
        return {NAME: 0.0, f"{NAME}_reason": NONCOMMITTAL}
    if not guess.questions:
        raise JudgeError("invalid_reply", "the judge generated no question from the answer")
    question_vector, *guessed_vectors = await calls.embed([question, *guess.questions])
    cosines = [cosine(question_vector, vector) for vector in guessed_vectors]
    return {NAME: fsum(cosines) / len(cosines)}
