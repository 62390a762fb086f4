"""Answer correctness: the judge extracts and matches the claims of two answers; the scores count them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from graphrag_eval_async.config.model import CORRECTNESS_INPUTS
from graphrag_eval_async.judge.protocol import ResponseFormat, format_of
from graphrag_eval_async.metrics.metric import fill, has_text, messages, metric_of_one_call, prompts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphrag_eval_async.config.model import AnswerCorrectnessConfig
    from graphrag_eval_async.metrics.metric import Call, Case, Metric

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


def answer_correctness(config: AnswerCorrectnessConfig) -> Metric:
    """Return the metric `answer_correctness`: recall, precision and F1 of an answer's claims.

    Makes one call: the judge returns claims and matches, which give counts and scores. Needs the question and
    both answers. A blank reference answer counts as missing; a blank actual answer has no claims.
    """
    instructions = instructions_of(INSTRUCTIONS if config.prompt is None else config.prompt)

    def call_for(case: Case) -> Call | None:
        if case.actual_answer is None or not has_text(case.question, case.reference_answer):
            return None
        blocks = {name: getattr(case, name) for name in CORRECTNESS_INPUTS}
        return lambda judge: judge.ask(partial(messages, instructions, blocks), FORM)

    prompts = prompts_of(instructions, FORM)
    return metric_of_one_call("answer_correctness", prompts, call_for, error_key="answer_eval_error")


def instructions_of(prompt: str = INSTRUCTIONS) -> str:
    """Return what the judge is told."""
    return f"{fill(prompt, CORRECTNESS_INPUTS)}\n\n{REPLY}"


def _form() -> ResponseFormat[dict[str, Any]]:
    claims_form = format_of(AnswerClaims)

    def read(reply: Any) -> dict[str, Any]:
        claims = claims_form.read(reply)
        if problems := list(_problems(claims)):
            raise ValueError("; ".join(problems))
        return _scores(claims)

    return ResponseFormat(claims_form.schema, read)


FORM = _form()


def _problems(claims: AnswerClaims) -> Iterator[str]:
    if not claims.reference_claims:
        yield "reference_claims is empty, but the reference answer makes at least one claim"
    yield from _problems_of("reference", claims.reference_claims, [pair.reference for pair in claims.matches])
    yield from _problems_of("actual", claims.actual_claims, [pair.actual for pair in claims.matches])


def _problems_of(side: str, claims: Sequence[str], used: Sequence[int]) -> Iterator[str]:
    for position, claim in enumerate(claims):
        if not claim.strip():
            yield f"claim {position} of {side}_claims is blank"
    for position, times in Counter(used).items():
        if not 0 <= position < len(claims):
            yield f"matches: {side} {position} is out of range: {len(claims)} {side}_claims, counted from 0"
        elif times > 1:
            yield f"matches: {side} {position} occurs in {times} pairs, but a claim matches at most one"


def _scores(claims: AnswerClaims) -> dict[str, Any]:
    reference, actual = len(claims.reference_claims), len(claims.actual_claims)
    matching = len(claims.matches)
    scores: dict[str, Any] = {
        "answer_reference_claims_count": reference,
        "answer_actual_claims_count": actual,
        "answer_matching_claims_count": matching,
        "answer_correctness_reason": claims.reason,
        "answer_recall": matching / reference,
    }
    if actual:
        scores["answer_precision"] = matching / actual
    # Equals the harmonic mean of recall and precision if both exist, without their rounding errors.
    return scores | {"answer_f1": 2 * matching / (reference + actual)}
