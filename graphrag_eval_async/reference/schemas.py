"""JSON Schemas of input and output, generated from the types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import Meta, Struct, defstruct

from graphrag_eval_async.config import Config
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.metrics import (
    RESOURCES,
    RESULT_KEYS,
    RESULT_METRICS,
    is_metric,
    metric_position,
)
from graphrag_eval_async.records.shapes import did_you_mean
from graphrag_eval_async.reference.shapes import ReferenceShape
from graphrag_eval_async.steps.differences import KINDS, MAX_DIFFERENCES
from graphrag_eval_async.steps.failure import CLASSES

Status = Literal["success", "error"]
Number = Annotated[float, Meta(description="a finite number of at most 64 bits")]
Count = Annotated[float, Meta(ge=0, description="a number of 0 or more")]
_METRICS = sorted(filter(is_metric, RESULT_KEYS), key=metric_position)


class ActualStepShape(Struct, kw_only=True):
    """A step that the agent executed."""

    name: Annotated[str | None, Meta(description="the name of the step, such as sparql_query")] = None
    status: Annotated[Status | None, Meta(description="whether it succeeded")] = None
    args: Annotated[Any, Meta(description="the arguments of the step")] = None
    output: Annotated[Any, Meta(description="what it returned")] = None
    error: Annotated[Any, Meta(description="why it failed")] = None
    id: Annotated[Any, Meta(description="of the call")] = None
    execution_timestamp: Annotated[Any, Meta(description="when it was executed, in ISO-8601")] = None


class _Response(Struct, kw_only=True):
    question_id: Annotated[str, Meta(min_length=1, description="the id of a question of the reference set")]
    id: Annotated[str | float | None, Meta(description="of the response")] = None
    status: Annotated[Status | None, Meta(description="whether the agent answered")] = None
    error: Annotated[Any, Meta(description="why it did not; makes the response an error")] = None
    actual_answer: Annotated[str | None, Meta(description="the agent's answer")] = None
    actual_steps: Annotated[
        list[ActualStepShape] | None, Meta(description="what the agent executed, in its order")
    ] = None
    trace_problems: Annotated[
        list[str] | None, Meta(description="what was wrong with the trace that it was made of")
    ] = None


ResponseShape = defstruct(
    "Response",
    [(name, Count | None, None) for name in RESOURCES],
    bases=(_Response,),
    kw_only=True,
    namespace={"__doc__": "A response of an agent: one line of a JSONL file. Other keys are kept."},
)


class DifferenceShape(Struct, kw_only=True):
    """A difference between an expected and an actual output."""

    kind: Annotated[str, Meta(examples=list(KINDS))]
    row: Annotated[
        dict[str, str | None] | int | None,
        Meta(description="the cells of a row; of a wrong value, the index of the actual row, from 0"),
    ] = None
    column: Annotated[str | None, Meta(description="the column, as the reference names it")] = None
    expected: Annotated[str | None, Meta(description="the expected value; null if unbound")] = None
    actual: Annotated[str | None, Meta(description="the actual value; null if unbound")] = None
    triple: Annotated[str | None, Meta(description="a triple, as in N-Triples")] = None


class ReferenceStepOfResult(Struct, kw_only=True):
    """A reference step, with what was found; other keys as in the reference set."""

    matches: Annotated[Any, Meta(description="the id of the actual step that matches it")] = None
    diff: (
        Annotated[list[DifferenceShape], Meta(max_length=MAX_DIFFERENCES, description="what differs")] | None
    ) = None
    query_similarity: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="how near the agent's query is to the reference query"),
    ] = None
    executed_at: Annotated[str | None, Meta(description="when the reference query was run, in ISO-8601")] = (
        None
    )


class _Result(Struct, kw_only=True):
    template_id: str
    question_id: Any = None
    question_text: str | None = None
    reference_answer: str | None = None
    reference_steps: list[list[ReferenceStepOfResult]] | None = None
    status: Status = "success"
    actual_answer: Any = None
    actual_steps: list[Any] | None = None
    trace_problems: list[str] | None = None
    execution: Annotated[
        dict[str, str] | None, Meta(description="where and when queries were run: endpoint or graph, and at")
    ] = None
    failure: Annotated[
        str | None,
        Meta(description="why the response failed; null if its steps were not compared", examples=[*CLASSES]),
    ] = None
    failure_detail: Annotated[
        str | None, Meta(description="which step is missing, or that IRIs differ in http, https or prefixes")
    ] = None
    execution_error: Annotated[
        str | None, Meta(description="why the steps have no score, as queries could not be run")
    ] = None


ResultShape = defstruct(
    "Result",
    [(name, Number | None, None) for name in RESULT_METRICS],
    bases=(_Result,),
    kw_only=True,
    namespace={
        "__doc__": "A result: one line of a JSONL file. Outputs of custom evaluations are other keys."
    },
)


class Statistics(Struct, kw_only=True):
    """Statistics of one metric; in `macro`, only the means and the bounds."""

    mean: Annotated[float | None, Meta(description="over all values")] = None
    mean_of_questions: Annotated[
        float | None, Meta(description="over questions, each the mean of its samples")
    ] = None
    sum: float | None = None
    median: float | None = None
    min: float | None = None
    max: float | None = None


class _Group(Struct, kw_only=True):
    number_of_error_samples: int
    number_of_success_samples: int
    error_rate: Annotated[
        float | None, Meta(description="share of errors, over questions, each the mean of its samples")
    ] = None
    steps: dict[str, dict[str, int]] = {}


_STATISTICS: list[Any] = [(name, Statistics | None, None) for name in _METRICS]
Group = defstruct("Group", _STATISTICS, bases=(_Group,), kw_only=True)
Macro = defstruct("Macro", _STATISTICS, kw_only=True)


class Agreement(Struct, kw_only=True):
    """How far several judges agree on a metric: the mean of each judge, and measures that are 1 at most."""

    judges: dict[str, float]
    krippendorff_alpha: float | None
    cohen_kappa: float | None = None


class AggregatesShape(Struct, kw_only=True):
    """Aggregates of results; with outputs of custom evaluations as other keys of each group."""

    per_template: dict[str, Group]  # type: ignore[valid-type]
    micro: Group  # type: ignore[valid-type]
    macro: Macro  # type: ignore[valid-type]
    agreement: dict[str, Agreement] | None = None


SHAPES: dict[str, Any] = {
    "reference": ReferenceShape,
    "responses": ResponseShape,
    "results": ResultShape,
    "aggregates": AggregatesShape,
    "configuration": Config,
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a ``reference`` set, the ``configuration`` or ``aggregates``, or of one line of
    ``responses`` or ``results``.

    Raises:
        UsageError: there is no schema of that name.
    """
    if name not in SHAPES:
        raise UsageError(f"no schema {name!r}; {did_you_mean(name, SHAPES)}")
    schema = msgspec.json.schema(SHAPES[name])
    models = ("GenerationConfig", "JudgeConfig", "EmbeddingConfig")
    for model in (schema.get("$defs", {}).get(each) for each in models):
        if model is not None:  # Other keys go into the request.
            model["additionalProperties"] = True
            model["properties"]["api_base"] = model["properties"]["base_url"]
    if name == "results":  # Those of other programs may lack these keys.
        schema["$defs"]["Result"]["required"] += ["steps_score", "failure"]
    text = orjson.dumps(schema).replace(rb"\\A", b"^").replace(rb"\\Z", b"$")  # As ECMAScript has them.
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **orjson.loads(text)}
