"""The keys of a reference set and their types, from which its checks and its JSON Schema are
made.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, defstruct

from graphrag_eval_async.catalogue.media_types import MEDIA_TYPES
from graphrag_eval_async.catalogue.reference_steps import KEYS_OF_EVALUATIONS
from graphrag_eval_async.records.question import Matching


def key(name: str, kind: Any, description: str, **constraints: Any) -> tuple[Any, ...]:
    """Return the definition of one key of an object, as `shape` takes it.

    The definition is the name and the type. If the type includes None, the definition also has None
    as the default; otherwise, objects must have the key.

    Args:
        name: the key.
        kind: the type of its values.
        description: what the key means, for the JSON Schema.
        constraints: limits of values, as parameters of `msgspec.Meta`.
    """
    described: Any = Annotated[kind, Meta(description=description, **constraints)]
    takes_none = kind is Any or type(None) in get_args(kind)
    if takes_none:
        return name, described, None
    return name, described


def shape(name: str, description: str, *keys: tuple[Any, ...]) -> Any:
    """Return a new class of msgspec structs for JSON objects.

    Args:
        name: name of the class.
        description: what the objects are, for the JSON Schema.
        keys: definitions of the keys, as `key` returns them.
    """
    return defstruct(name, keys, kw_only=True, namespace={"__doc__": description})


def list_of(kind: Any) -> Any:
    """Return the type ``list[kind]``, for a `kind` that is made at run time."""
    return GenericAlias(list, (kind,))


def keys_of_shape(shape: Any) -> tuple[str, ...]:
    """Return the keys that the objects of a shape may have, sorted."""
    return tuple(sorted(shape.__struct_fields__))


_Order: Any = Literal["strict", "any"] | None
Score: Any = Literal["exact", "f1", "values_f1"] | None
ColumnRule: Any = Literal["contents", "name", "count"] | None

AlternativeShape = shape(
    "AlternativeShape",
    "Another right output of a reference step.",
    key("output", Any, "the expected output"),
    key("output_media_type", str | None, "how it is compared; by default as that of the step"),
    key("reference_query", str | None, "a query that gives the expected output"),
)

ReferenceStepShape = shape(
    "ReferenceStepShape",
    "A step that the agent is expected to execute.",
    key("name", str, "the name of the step, such as sparql_query"),
    key("args", dict[str, Any] | None, "the arguments of the step"),
    key(
        "args_match",
        Literal["exact", "subset", "none"] | None,
        "whether the arguments must be equal, or have at least these; by default, they are not "
        "compared",
    ),
    key("output", Any, "the expected output"),
    key("output_media_type", str | None, "how the output is compared", examples=list(MEDIA_TYPES)),
    key("ordered", bool | None, "whether the order of SPARQL rows matters"),
    key("alternatives", list_of(AlternativeShape) | None, "other right outputs; the best counts"),
    key(
        "required_columns", list[str] | None, "the SPARQL variables that must match; all by default"
    ),
    key(
        "ignore_duplicates", bool | None, "whether duplicate SPARQL rows count once, as by default"
    ),
    key(
        "score",
        Score,
        "whether a match is 0 or 1, as by default, or F1 of rows and cells, or of values",
    ),
    key(
        "match_columns",
        ColumnRule,
        "which columns of tables are paired: by contents, as by default, by name, or by contents "
        "if both tables have as many",
    ),
    key("compare", Literal["table"] | None, "table: output in JSON is compared as a table"),
    key("order", _Order, "of its group, where it is the first step; see there"),
    key("reference_query", str | None, "the query, in SPARQL or Cypher, that gives the output"),
    key(
        "ignore_graph_names",
        bool | None,
        "whether all graphs of an RDF dataset are compared as one",
    ),
    *(key(name, Any, "left over from an evaluation; ignored") for name in KEYS_OF_EVALUATIONS),
)

TagsShape: Any = dict[str, str | int | float | bool] | list[str]

_Steps: Any = Annotated[list_of(ReferenceStepShape), Meta(min_length=1)]

GroupShape = shape(
    "GroupShape",
    "A group of steps with an order.",
    key("steps", _Steps, "the steps"),
    key(
        "order", _Order, "whether the agent must take them in this order, or in any, as by default"
    ),
)

NamesShape: Any = list[Annotated[str, Meta(min_length=1)]] | None
CountShape: Any = Annotated[int, Meta(ge=0)] | None

_Limits = (
    key("forbidden_steps", NamesShape, "names of steps that the agent must not execute"),
    key("max_steps", CountShape, "the maximum number of steps that the agent may execute"),
)
_Amount: Any = Annotated[float, Meta(ge=0)]

QuestionShape = shape(
    "QuestionShape",
    "A question, and the answer and steps that are expected.",
    key("id", str, "unique in the whole set", min_length=1),
    key("question_text", str, "the question as the agent gets it"),
    key(
        "reference_answer",
        str | list[str] | None,
        "the expected answer, or the texts that it must have",
    ),
    key("match", Matching | None, "how answers are matched with it, without a judge"),
    key(
        "tolerance",
        _Amount | None,
        "maximum difference of a number, as a share of it; 1e-6 by default",
    ),
    key("reviewed", bool | None, "false if nobody has reviewed the reference answer, which warns"),
    key("reference_steps", list_of(_Steps | GroupShape) | None, "groups of steps, in order"),
    key("tags", TagsShape | None, "keys and values, or names, by which results are grouped"),
    *_Limits,
)

TemplateShape = shape(
    "TemplateShape",
    "Questions of one kind.",
    key("template_id", str, "unique in the whole set", min_length=1),
    key("questions", list_of(QuestionShape), "may be empty"),
    key(
        "tags",
        TagsShape | None,
        "tags of all its questions; a question's own values take precedence",
    ),
    *_Limits,
)

ReferenceShape: Any = Annotated[
    list_of(TemplateShape), Meta(min_length=1, description="a reference set")
]
