"""Answer correctness: the judge extracts and matches the claims of two answers; the scores count
them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.catalogue.judged import CORRECTNESS_INPUTS
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Metric,
    Prompt,
    has_text,
    replace_placeholders,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.catalogue.judged import AnswerCorrectnessConfig

INSTRUCTIONS = """\
Compare two answers to {question}: {reference_answer}, which is correct, and {actual_answer}, which is \
judged.

1. List the claims that each answer makes in reply to the question. A claim is one atomic fact that can be \
understood alone; each item of an enumeration is one. List what is said, true or not, equally fine in \
both. Leave out greetings, repetitions, how the answer was found, and details that the question does not \
ask for, unless the reference answer has them. "There are none" is a claim. An actual answer that refuses \
or does not know makes none; the reference answer makes at least one.
2. Match claims of the same meaning, whatever their wording, order, spelling of names, units, or rounding. \
A claim that contradicts or is vaguer does not match. A claim matches at most one other."""

REPLY = """\
Reply with JSON: "reference_claims" and "actual_claims", lists of texts; "reason", briefly why claims \
match or not; "matches", a list of {"reference": i, "actual": j}, positions in the two lists, from 0."""


class Match(Struct, frozen=True):
    """Two claims of the same meaning."""

    reference: Annotated[int, Meta(description="The position in reference_claims, counted from 0.")]
    actual: Annotated[int, Meta(description="The position in actual_claims, counted from 0.")]


class AnswerClaims(Struct, frozen=True):
    """The claims of two answers to a question, and which of them match."""

    reference_claims: Annotated[list[str], Meta(description="The claims of the reference answer.")]
    actual_claims: Annotated[list[str], Meta(description="The claims of the actual answer.")]
    reason: Annotated[str, Meta(description="Which claims match, which do not, and why.")]
    matches: Annotated[list[Match], Meta(description="Pairs of matching claims.")]

    def __post_init__(self) -> None:
        """Check the reply of the judge.

        Raises:
            ValueError: the reference answer has no claims, a claim is blank, or a match names a
                claim that does not exist or that another match names, too.
        """
        problems = []
        if not self.reference_claims:
            problems.append(
                "reference_claims is empty, but the reference answer makes at least one claim"
            )
        reference_positions = [match.reference for match in self.matches]
        problems += _problems_of_claims("reference", self.reference_claims, reference_positions)
        actual_positions = [match.actual for match in self.matches]
        problems += _problems_of_claims("actual", self.actual_claims, actual_positions)
        if problems:
            raise ValueError("; ".join(problems))


def _problems_of_claims(
    side: str, claims: Sequence[str], matched_positions: Sequence[int]
) -> list[str]:
    """Return the problems of one answer's claims, and of the positions by which matches name them.

    Args:
        side: "reference" or "actual", the name of the answer in messages.
        claims: the claims of the answer.
        matched_positions: for each match, the position of its claim in `claims`, from 0.
    """
    problems = []
    for position, claim in enumerate(claims):
        if not has_text(claim):
            problems.append(f"claim {position} of {side}_claims is blank")
    # The number of matches ("pairs") in which each position occurs.
    for position, pairs in Counter(matched_positions).items():
        if not 0 <= position < len(claims):
            problems.append(
                f"matches: {side} {position} is out of range: "
                f"{len(claims)} {side}_claims, counted from 0"
            )
        elif pairs > 1:
            problems.append(
                f"matches: {side} {position} occurs in {pairs} pairs, "
                "but a claim matches at most one"
            )
    return problems


def answer_correctness(config: AnswerCorrectnessConfig) -> Metric:
    """Return the metric `answer_correctness`: recall, precision and F1 of an answer's claims.

    The judge is asked once: it lists the claims of both answers and matches them. The metric needs
    the question and both answers. A blank reference answer counts as missing; a blank actual answer
    has no claims.
    """
    prompt = matching_prompt(config.prompt or INSTRUCTIONS)

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Ask the judge for the claims and matches, and return the entries of the result."""
        claims = await match_claims(prompt, case, calls)
        return _counts_and_scores(claims)

    return Metric.of_answer("answer_correctness", prompt.texts, has_both_answers, score)


def _counts_and_scores(claims: AnswerClaims) -> dict[str, Any]:
    """Return the entries of a result: counts of claims, recall, precision, F1 and the reason.

    Precision is left out if the actual answer makes no claims.
    """
    reference_count = len(claims.reference_claims)
    actual_count = len(claims.actual_claims)
    match_count = len(claims.matches)
    entries: dict[str, Any] = {
        "answer_reference_claims_count": reference_count,
        "answer_actual_claims_count": actual_count,
        "answer_matching_claims_count": match_count,
        "answer_correctness_reason": claims.reason,
        "answer_recall": match_count / reference_count,
    }
    if actual_count > 0:
        entries["answer_precision"] = match_count / actual_count
    # If there is a precision, this equals the harmonic mean of recall and precision, but without
    # their rounding errors. Otherwise it is 0.
    entries["answer_f1"] = 2 * match_count / (reference_count + actual_count)
    return entries


def matching_prompt(instructions: str = INSTRUCTIONS) -> Prompt:
    """Return the prompt that asks for the claims of both answers, as `AnswerClaims`."""
    filled_in = replace_placeholders(instructions, CORRECTNESS_INPUTS)
    return Prompt.for_struct(f"{filled_in}\n\n{REPLY}", AnswerClaims)


def has_both_answers(case: Case) -> bool:
    """Return whether a response has an answer, which may be blank, a question and a reference."""
    return case.actual_answer is not None and has_text(case.question, case.reference_answer)


async def match_claims(prompt: Prompt, case: Case, calls: Calls) -> AnswerClaims:
    """Ask the judge for the claims of both answers and their matches, and return the reply."""
    blocks = {name: getattr(case, name) for name in CORRECTNESS_INPUTS}
    claims: AnswerClaims = await prompt.ask(calls, **blocks)
    return claims
