"""The judged metrics of this package: one declaration each, from which all else follows.

A new metric needs its declaration in `JUDGED`, and the module in `metrics` that computes it. The
configuration has a section for it then, results and aggregates know its keys, ranges and
directions, and reports, gates and pages show it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from graphrag_eval_async.catalogue.sections import Amount, BuiltInConfig, Seed, Share, Text

if TYPE_CHECKING:
    from collections.abc import Mapping

CORRECTNESS_INPUTS = ("question", "reference_answer", "actual_answer")
"""What answer correctness shows the judge; placeholders in its prompt name them."""


class JudgedMetric(Struct, frozen=True, kw_only=True):
    """A metric that a judge computes: all that the rest of the package knows of it.

    Attributes:
        name: its section of the configuration, and the function in `metrics` that makes it.
        section: what its section may have.
        module: the module of `metrics` with that function; by default, it has the metric's name.
        values: keys of its values in a result or a retrieval step.
        about: what its values are, for the page of judges.
        needs: what a response and its question must have, in words; else the metric is skipped.
        low: the least value.
        high: the greatest value.
        lower_is_better: whether lower values are better.
        primary: those of `values` that comparisons decide by default.
        in_all: whether ``metrics: all`` turns it on.
        other_keys: other keys that it may add.
        error: key of the error that explains why all values are missing, without ``_error``; by
            default, the metric's name.
        errors: by key of an error, the values that are missing because of it; without entries,
            `error` explains all.
        needs_reference: whether it needs a reference answer or reference steps.
        counts_unanswered: whether an absent answer counts as a missing value.
        scores_blank_answers: whether a blank answer has a value, as it makes no claims.
        of_step: whether it belongs to single retrieval steps.
        evidence: name of the steps whose outputs people must see to judge it themselves.
    """

    name: str
    values: tuple[str, ...]
    about: str
    needs: str
    section: type[BuiltInConfig] = BuiltInConfig
    module: str = ""
    low: float = 0.0
    high: float = 1.0
    lower_is_better: bool = False
    primary: tuple[str, ...] = ()
    in_all: bool = False
    other_keys: tuple[str, ...] = ()
    error: str = ""
    errors: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    needs_reference: bool = False
    counts_unanswered: bool = False
    scores_blank_answers: bool = False
    of_step: bool = False
    evidence: str = ""

    @property
    def maker(self) -> str:
        """The path of the function that makes the metric from its section."""
        return f"graphrag_eval_async.metrics.{self.module or self.name}:{self.name}"

    @property
    def error_name(self) -> str:
        """The key of the error of the whole metric, without ``_error``."""
        return self.error or self.name

    @property
    def missing_by_error(self) -> Mapping[str, tuple[str, ...]]:
        """The values that are missing because of an error, by the error's key."""
        return self.errors or {f"{self.error_name}_error": self.values}


class AnswerCorrectnessConfig(BuiltInConfig, frozen=True, kw_only=True):
    """Recall, precision and F1 of the answers' claims.

    The judge lists the claims of both answers and pairs those that say the same; the library
    counts. An answer without claims, such as a refusal, has recall and F1 0, and no precision.

    Attributes:
        prompt: instructions that replace the built-in ones. `{question}`, `{reference_answer}` and
            `{actual_answer}` stand for the data; any other name in braces is an error.
    """

    prompt: Text | None = None


class AnswerRelevanceConfig(BuiltInConfig, frozen=True, kw_only=True):
    """RAGAS answer relevancy.

    The mean cosine of the question and the questions that the judge guesses from the answer. It may
    be negative. An evasive answer scores 0.

    Attributes:
        mode: "ragas" uses the prompt of RAGAS, with one call per guessed question; "joint" guesses
            all in one call, with the library's own prompt.
        strictness: number of questions to guess, from 1 to 20.
    """

    mode: Literal["ragas", "joint"] = "ragas"
    strictness: Annotated[int, Meta(ge=1, le=20, description="an integer from 1 to 20")] = 3

    @property
    def needs_embedding(self) -> bool:
        """Whether the metric asks for embeddings: it compares questions by them."""
        return True


class RetrievalConfig(BuiltInConfig, frozen=True, kw_only=True):
    """What the sections of both retrieval metrics have.

    Attributes:
        mode: "ragas" uses the prompts of RAGAS, with one call per document; "joint" judges all
            documents of a step in one call, with the library's own prompt.
        seed: seed of the random order in which "joint" shows the documents to the judge.
    """

    mode: Literal["ragas", "joint"] = "ragas"
    seed: Seed = 0


class RetrievalAnswerConfig(RetrievalConfig, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against the reference answer.

    A document without text counts as irrelevant at its rank. A step that returned no text scores 0
    without a call. If no document has the key `text`, the metric is skipped.
    """


class RetrievalContextConfig(RetrievalConfig, frozen=True, kw_only=True):
    """RAGAS context recall and precision of retrieved texts against those of the matched reference
    step.

    If `retrieval_answer` is also "joint", with the same `seed` and `judges`, one call judges both
    metrics. The judge then sees the reference answer and the reference texts, so values may differ
    a little from those of separate calls.
    """


class RagasAnswerCorrectnessConfig(BuiltInConfig, frozen=True, kw_only=True):
    """RAGAS answer correctness: the weighted mean of an F-score of statements and the answers'
    similarity.

    An answer without statements, such as a refusal or an empty answer, scores 0.

    Attributes:
        mode: "ragas" uses the prompts of RAGAS, in three calls; "joint" counts the claims that
            answer correctness finds with its built-in prompt. If both metrics are on, they share
            the call.
        weights: weights of the F-score and of the similarity, relative to their sum.
        beta: beta of the F-score; above 1, recall counts for more. At most a million.
        threshold: from 0 to 1; values at or above it become 1, others 0.
    """

    mode: Literal["ragas", "joint"] = "ragas"
    weights: Annotated[tuple[Amount, Amount], Meta(description="a list of 2 numbers")] = (
        0.75,
        0.25,
    )
    beta: Annotated[
        float, Meta(gt=0, le=1e6, description="a number above 0, at most a million")
    ] = 1.0
    threshold: Share | None = None

    @property
    def needs_embedding(self) -> bool:
        """Whether the metric asks for embeddings: it does if the similarity has a weight."""
        return self.weights[1] > 0


class FaithfulnessConfig(BuiltInConfig, frozen=True, kw_only=True):
    """Share of the answer's claims that the retrieved texts support; needs no reference answer.

    An answer without claims has no value.

    Attributes:
        mode: "joint" finds and judges the claims in one call, with the library's own prompt;
            "ragas" uses the two prompts of RAGAS.
    """

    mode: Literal["joint", "ragas"] = "joint"


class ContextRelevanceConfig(BuiltInConfig, frozen=True, kw_only=True):
    """Relevance of the retrieved texts to the question; needs no reference answer.

    The mean over the texts: 1 if a text helps to answer the question, 0.5 if it is only about the
    same subject, and 0 otherwise or if the document has no text.

    Attributes:
        mode: "joint", the only mode, judges all texts in one call.
        seed: seed of the random order in which the judge sees the texts.
    """

    mode: Literal["joint"] = "joint"
    seed: Seed = 0


class SparqlGroundednessConfig(BuiltInConfig, frozen=True, kw_only=True):
    """Share of the answer's values that are in the rows of the agent's queries; needs no reference
    answer.

    Values in the question do not count. A number is found if it is in the rows, exactly or rounded
    to as many decimals; numbers below 10 are not rounded to integers. It is also found if it is the
    year of a date, or the number of rows of a query, unless that is 1. Units and negation are
    ignored. The judge decides about all other values, and sees 20,000 characters of rows;
    `sparql_groundedness_reason` says how many rows were cut off.

    Attributes:
        mode: "joint", the only mode, judges all values without an exact match in one call.
    """

    mode: Literal["joint"] = "joint"


def _retrieval_metric(
    name: str, *, section: type[BuiltInConfig], about: str, needs: str
) -> JudgedMetric:
    """Return the declaration of a metric of single retrieval steps.

    Its values are recall, precision and F1, each with a reason, an error and a cost.

    Args:
        name: its section of the configuration.
        section: what its section may have.
        about: what its values are, for the page of judges.
        needs: what a response and its question must have, in words.
    """
    recall = f"{name}_recall"
    precision = f"{name}_precision"
    f1 = f"{name}_f1"
    other_keys = []
    for value in (recall, precision, f1):
        other_keys += [f"{value}_reason", f"{value}_error", f"{value}_cost"]
    return JudgedMetric(
        name=name,
        section=section,
        module="retrieval",
        values=(recall, precision, f1),
        about=about,
        needs=needs,
        in_all=True,
        other_keys=tuple(other_keys),
        # Without recall or precision, there is no F1.
        errors={
            f"{name}_error": (recall, precision, f1),
            f"{recall}_error": (recall, f1),
            f"{precision}_error": (precision, f1),
        },
        needs_reference=True,
        of_step=True,
        evidence="retrieval",
    )


JUDGED = (
    JudgedMetric(
        name="answer_correctness",
        section=AnswerCorrectnessConfig,
        values=("answer_recall", "answer_precision", "answer_f1"),
        about=(
            "`answer_recall`: claims in both answers / claims in the reference answer. "
            "`answer_precision`: claims in both / claims in the agent's answer. "
            "`answer_f1`: their harmonic mean"
        ),
        needs="an answer and a reference answer",
        primary=("answer_f1",),
        in_all=True,
        other_keys=(
            "answer_reference_claims_count",
            "answer_actual_claims_count",
            "answer_matching_claims_count",
            "answer_correctness_reason",
            "answer_eval_error",
        ),
        error="answer_eval",
        needs_reference=True,
        counts_unanswered=True,
        scores_blank_answers=True,
    ),
    JudgedMetric(
        name="answer_relevance",
        section=AnswerRelevanceConfig,
        values=("answer_relevance",),
        about="mean cosine of the question and questions that the judge guesses from the answer",
        needs="an answer",
        low=-1.0,
        primary=("answer_relevance",),
        in_all=True,
        counts_unanswered=True,
    ),
    _retrieval_metric(
        "retrieval_answer",
        section=RetrievalAnswerConfig,
        about=(
            "`retrieval_answer_recall` of each `retrieval` step: share of the reference answer's "
            "statements that the retrieved texts support. `_precision`: average precision of the "
            "useful texts. `_f1`: their harmonic mean"
        ),
        needs="the texts of a retrieval step and a reference answer",
    ),
    _retrieval_metric(
        "retrieval_context",
        section=RetrievalContextConfig,
        about="the same, against the texts of the matched reference step",
        needs="the texts of a retrieval step that matches one of the reference",
    ),
    JudgedMetric(
        name="ragas_answer_correctness",
        section=RagasAnswerCorrectnessConfig,
        values=("ragas_answer_correctness",),
        about=(
            "weighted mean of the F1 of statements and the cosine of both answers "
            "([weights](configuration.md#ragas_answer_correctness))"
        ),
        needs="an answer and a reference answer",
        low=-1.0,
        primary=("ragas_answer_correctness",),
        other_keys=(
            "ragas_answer_correctness_tp",
            "ragas_answer_correctness_fp",
            "ragas_answer_correctness_fn",
            "ragas_answer_correctness_similarity",
        ),
        needs_reference=True,
        counts_unanswered=True,
    ),
    JudgedMetric(
        name="faithfulness",
        section=FaithfulnessConfig,
        values=("faithfulness",),
        about="claims that the retrieved texts support / claims in the answer",
        needs="an answer and the texts of a retrieval step",
        primary=("faithfulness",),
        evidence="retrieval",
    ),
    JudgedMetric(
        name="context_relevance",
        section=ContextRelevanceConfig,
        values=("context_relevance",),
        about="mean [rating](configuration.md#context_relevance) of the retrieved texts",
        needs="the texts of a retrieval step",
        evidence="retrieval",
    ),
    JudgedMetric(
        name="sparql_groundedness",
        section=SparqlGroundednessConfig,
        values=("sparql_groundedness",),
        about="values in the answer that the query results contain / values in the answer",
        needs="an answer and the rows of a SPARQL query",
        primary=("sparql_groundedness",),
        evidence="sparql_query",
    ),
)
"""The judged metrics, in the order of their keys in results and aggregates."""

JUDGED_BY_NAME: Mapping[str, JudgedMetric] = {metric.name: metric for metric in JUDGED}
"""The judged metrics by the names of their sections, which stand in `pending`."""
