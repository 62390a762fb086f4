"""The keys of a reference set, from which its checks and its JSON Schema are made."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SPARQL_RESULTS = "application/sparql-results+json"
XML = "application/sparql-results+xml"
CSV = "text/csv"
TSV = "text/tab-separated-values"

TABLES = (SPARQL_RESULTS, XML, CSV, TSV)
"""Media types of SPARQL results."""

GRAPHS = (
    "text/turtle",
    "application/n-triples",
    "application/n-quads",
    "application/trig",
    "application/rdf+xml",
    "application/ld+json",
    "text/n3",
)
"""Media types of RDF graphs and datasets."""

MEDIA_TYPES = (*TABLES, "application/json", *GRAPHS, "text/uri")
"""Known media types of outputs. Outputs of other types are compared as text."""


class ReferenceStepShape(Struct, kw_only=True):
    """A step that the agent is expected to execute."""

    name: Annotated[str, Meta(description="the name of the step, such as sparql_query")]
    args: Annotated[dict[str, Any] | None, Meta(description="the arguments of the step")] = None
    output: Annotated[Any, Meta(description="the expected output")] = None
    output_media_type: Annotated[
        str | None, Meta(description="how the output is compared", examples=list(MEDIA_TYPES))
    ] = None
    ordered: Annotated[bool | None, Meta(description="whether the order of SPARQL rows matters")] = None
    required_columns: Annotated[
        list[str] | None, Meta(description="the SPARQL variables that must match; all by default")
    ] = None
    ignore_duplicates: Annotated[
        bool | None, Meta(description="whether duplicate SPARQL rows count once, as by default")
    ] = None
    score: Annotated[
        Literal["exact", "f1"] | None,
        Meta(description="whether the match score is 0 or 1, as by default, or F1"),
    ] = None
    reference_query: Annotated[
        str | None,
        Meta(description="the SPARQL query that gives the output; the agent's query is compared with it"),
    ] = None
    ignore_graph_names: Annotated[
        bool | None, Meta(description="whether all graphs of an RDF dataset are compared as one")
    ] = None
    matches: Annotated[Any, Meta(description="left over from an evaluation; ignored")] = None
    diff: Annotated[Any, Meta(description="left over from an evaluation; ignored")] = None
    query_similarity: Annotated[Any, Meta(description="left over from an evaluation; ignored")] = None
    executed_at: Annotated[Any, Meta(description="left over from an evaluation; ignored")] = None


OF_EVALUATIONS = ("matches", "diff", "query_similarity", "executed_at")
"""Keys of reference steps that evaluations add; those left over from an earlier one are ignored."""


class QuestionShape(Struct, kw_only=True):
    """A question, and the answer and steps that are expected."""

    id: Annotated[str, Meta(min_length=1, description="unique in the whole set")]
    question_text: Annotated[str, Meta(description="the question as the agent gets it")]
    reference_answer: Annotated[str | None, Meta(description="the expected answer")] = None
    reference_steps: Annotated[
        list[Annotated[list[ReferenceStepShape], Meta(min_length=1)]] | None,
        Meta(description="groups of steps, in order of execution; steps of one group may come in any order"),
    ] = None


class TemplateShape(Struct, kw_only=True):
    """Questions of one kind."""

    template_id: Annotated[str, Meta(min_length=1, description="unique in the whole set")]
    questions: Annotated[list[QuestionShape], Meta(description="may be empty")]


ReferenceShape = Annotated[list[TemplateShape], Meta(min_length=1, description="a reference set")]


def keys_of(shape: type[Struct]) -> frozenset[str]:
    """The names of the keys of a shape."""
    return frozenset(field.name for field in fields(shape))


def kinds_of(shape: type[Struct]) -> Mapping[str, type]:
    """The Python type of each key, except for keys that accept any value."""
    kinds = {}
    for field in fields(shape):
        kind = get_args(field.type)[0] if get_origin(field.type) is Annotated else field.type
        options = [option for option in get_args(kind) if option is not type(None)]
        kind = options[0] if type(None) in get_args(kind) else kind
        if get_origin(kind) is Literal:
            kind = type(get_args(kind)[0])
        if kind is not Any:
            kinds[field.name] = get_origin(kind) or kind
    return kinds


def did_you_mean(name: str, known: Collection[str], cutoff: float = 0.6) -> str:
    """End of a message that suggests the known name closest to `name` or, if none is close, lists all."""
    close = get_close_matches(name[:64], known, 1, cutoff)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
