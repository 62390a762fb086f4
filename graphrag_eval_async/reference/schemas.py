"""JSON Schemas of input and output, generated from the types."""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import Meta

from graphrag_eval_async.catalogue.metrics import (
    RESOURCES,
    RESULT_KEYS,
    RESULT_METRICS,
    is_metric,
    metric_position,
)
from graphrag_eval_async.config import Config
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.reference.shapes import ReferenceShape, key, list_of, shape
from graphrag_eval_async.steps.failure import CLASSES

Status = Literal["success", "error"]
Number = Annotated[float, Meta(description="a finite number of at most 64 bits")]
Count = Annotated[float, Meta(ge=0, description="a number of 0 or more")]

ActualStepShape = shape(
    "ActualStepShape",
    "A step that the agent executed.",
    key("name", str | None, "the name of the step, such as sparql_query"),
    key(
        "status",
        Status | None,
        "whether it succeeded; by default, whether it has an output, and no error",
    ),
    key("args", Any, "the arguments of the step"),
    key("output", Any, "what it returned"),
    key("output_media_type", str | None, "format of a graph, or of CSV that may be a header alone"),
    key("error", Any, "why it failed"),
    key("id", Any, "of the call"),
    key("execution_timestamp", Any, "when it was executed, in ISO-8601"),
)

ResponseShape = shape(
    "Response",
    "A response of an agent: one line of a JSONL file. Other keys are kept.",
    key("question_id", str, "the id of a question of the reference set", min_length=1),
    key("id", str | float | None, "of the response; `response_id` of the result"),
    key("status", Status | None, "whether the agent answered"),
    key("error", Any, "why it did not; makes the response an error"),
    key("actual_answer", str | None, "the agent's answer"),
    key("actual_steps", list_of(ActualStepShape) | None, "what the agent executed, in its order"),
    key("trace_problems", list[str] | None, "what was wrong with the trace that it was made of"),
    *((name, Count | None, None) for name in RESOURCES),
)

ResultShape = shape(
    "Result",
    "A result: one line of a JSONL file. Outputs of custom evaluations and metrics in code are "
    "other keys.",
    ("template_id", str),
    ("question_id", Any, None),
    ("question_text", str | None, None),
    ("reference_answer", str | None, None),
    key("tags", dict[str, str | int | float | bool] | list[str] | None, "those of its question"),
    key(
        "reference_steps",
        list[list[dict[str, Any]]] | None,
        "reference steps, with what was found of each",
    ),
    ("status", Status, "success"),
    ("actual_answer", Any, None),
    ("actual_steps", list[Any] | None, None),
    ("trace_problems", list[str] | None, None),
    key(
        "execution",
        dict[str, str] | None,
        "where and when queries were run: endpoint or graph, and at",
    ),
    key(
        "failure",
        str | None,
        "why it failed; null if nothing was compared and there is no error",
        examples=[*CLASSES],
    ),
    key(
        "failure_detail",
        str | None,
        "the first line of an error, or which step is missing, for example",
    ),
    key("execution_error", str | None, "why the steps have no score, as queries could not be run"),
    key(
        "custom_metrics",
        dict[str, list[str]] | None,
        "metrics in code: names, outputs and fractions",
    ),
    *((name, Number | None, None) for name in RESULT_METRICS),
)

Statistics = shape(
    "Statistics",
    "Statistics of one metric; in `macro`, only the means and the bounds.",
    key("mean", float | None, "over all values"),
    key("mean_of_questions", float | None, "over questions, each the mean of its samples"),
    *((name, float | None, None) for name in ("sum", "median", "min", "max")),
)


_METRICS = [
    (name, Statistics | None, None)
    for name in sorted(filter(is_metric, RESULT_KEYS), key=metric_position)
]

Group = shape(
    "Group",
    "Counts and statistics of results.",
    ("number_of_error_samples", int),
    ("number_of_success_samples", int),
    key(
        "error_rate", float | None, "share of errors, over questions, each the mean of its samples"
    ),
    ("steps", dict[str, dict[str, int]], {}),
    key("repeats", dict[str, float] | None, "pass@k, pass^k and their questions@k, for k samples"),
    key(
        "published_means",
        dict[str, float] | None,
        "macro F1 QALD and TEXT2SPARQL's mean over questions, of steps with score: values_f1",
    ),
    *_METRICS,
)

AggregatesShape = shape(
    "AggregatesShape",
    "Aggregates of results; outputs of custom evaluations and metrics in code are other keys of "
    "groups.",
    ("per_template", GenericAlias(dict, (str, Group))),
    key(
        "per_tag",
        GenericAlias(dict, (str, GenericAlias(dict, (str, Group)))) | None,
        "by key and value",
    ),
    key("tags_are_cut", bool | None, "whether per_tag lacks tags beyond the limits"),
    key("cut_tag_keys", list[str] | None, "the keys in per_tag that lack values"),
    ("micro", Group),
    ("macro", shape("Macro", "Means over templates.", *_METRICS)),
    key("agreement", dict[str, dict[str, Any]] | None, "how far several judges agree on a metric"),
)

_MODEL_CONFIGS = ("GenerationConfig", "JudgeConfig", "EmbeddingConfig")
"""Classes of the configuration whose keys go into requests to a model."""

SHAPES: dict[str, Any] = {
    "reference": ReferenceShape,
    "responses": ResponseShape,
    "results": ResultShape,
    "aggregates": AggregatesShape,
    "configuration": Config,
}


def json_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one kind of input or output.

    Args:
        name: ``reference``, ``configuration`` or ``aggregates`` for the schema of a whole file;
            ``responses`` or ``results`` for that of one line of a file.

    Raises:
        UsageError: there is no schema of that name.
    """
    if name not in SHAPES:
        raise UsageError(f"no schema {name!r}; {did_you_mean(name, SHAPES)}")
    schema = msgspec.json.schema(SHAPES[name])

    for definition in schema.get("$defs", {}).values():
        if definition["title"] in _MODEL_CONFIGS:
            # Unknown keys are allowed, since they are sent to the model.
            definition["additionalProperties"] = True
            # `api_base` is an older name of `base_url`.
            definition["properties"]["api_base"] = definition["properties"]["base_url"]
    if name == "results":
        # Our results always have these keys. They are optional in the shape, since results of other
        # programs may lack them.
        schema["$defs"]["Result"]["required"] += ["steps_score", "failure"]

    # Regular expressions in JSON Schema have the anchors of ECMAScript, not those of Python.
    text = orjson.dumps(schema).replace(rb"\\A", b"^").replace(rb"\\Z", b"$")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **orjson.loads(text)}
