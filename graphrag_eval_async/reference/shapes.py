"""The keys of a reference set and their types, from which its checks and its JSON Schema are made."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from graphrag_eval_async.records.shapes import MEDIA_TYPES


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
