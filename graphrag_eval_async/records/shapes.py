"""The keys of a reference set, from which its checks and its JSON Schema are made; doubts about others."""

from __future__ import annotations

from collections import Counter
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

MEDIA_TYPES = (*TABLES, "application/json", *GRAPHS, "text/uri", "text/plain")
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


MAX_DOUBTS = 1000
"""Maximum number of different doubts that are kept."""

_STEP_KEYS = keys_of(ReferenceStepShape)
QUESTION_KEYS = keys_of(QuestionShape)
TEMPLATE_KEYS = keys_of(TemplateShape)
_MEDIA_TYPES = frozenset(MEDIA_TYPES)
_NO_GRAPHS = (None, *(each for each in MEDIA_TYPES if each not in GRAPHS))
_OF_TABLES: Mapping[str, Any] = {"ordered": False, "required_columns": [], "ignore_duplicates": True}
"""Keys of steps that say how tables are compared, and their defaults."""
_IDLE = frozenset(_OF_TABLES)


class Doubts:
    """Collects doubts, each once, with its first place. Skips steps whose names are in `own`."""

    def __init__(self, own: Collection[str] = ()) -> None:
        self._own = own
        self._places: dict[tuple[frozenset[str], str], str] = {}
        self._times: Counter[tuple[frozenset[str], str]] = Counter()

    def listed(self) -> list[str]:
        """All doubts, as ``place: what``."""
        more = {doubt: f"; in {count} places" for doubt, count in self._times.items() if count > 1}
        return [f"{place}: {_describe(*doubt)}{more.get(doubt, '')}" for doubt, place in self._places.items()]

    def look_at_question(self, question: Mapping[Any, Any], place: str) -> None:
        """Check a question and its steps, which may be invalid."""
        self.look_at_keys(question, QUESTION_KEYS, place)
        groups = question.get("reference_steps")
        for group_index, group in enumerate(groups if isinstance(groups, list) else ()):
            for index, step in enumerate(group if isinstance(group, list) else ()):
                if isinstance(step, dict) and not (
                    _STEP_KEYS.issuperset(step) and step.get("output_media_type") in _NO_GRAPHS
                ):
                    self._look_at_step(step, f"{place}.reference_steps[{group_index}][{index}]")

    def _look_at_step(self, step: Mapping[Any, Any], place: str) -> None:
        name, media_type = step.get("name"), step.get("output_media_type")
        if isinstance(name, str) and name in self._own:
            return
        self.look_at_keys(step, _STEP_KEYS, place)
        if isinstance(media_type, str) and media_type not in _MEDIA_TYPES:
            self._add(_MEDIA_TYPES, media_type, f"{place}.output_media_type")
        if media_type in GRAPHS:
            for key, default in _OF_TABLES.items():
                if step.get(key) not in (None, default):
                    self._add(_IDLE, key, f"{place}.{key}")

    def look_at_keys(self, members: Mapping[Any, Any], known: frozenset[str], place: str) -> None:
        """Doubt the keys of a mapping that are not known."""
        if not known.issuperset(members):
            for key in members:
                if isinstance(key, str) and key not in known:
                    name = key[:64] if key.isprintable() else ascii(key[:64])
                    self._add(known, key, f"{place}.{name}")

    def _add(self, known: frozenset[str], name: str, place: str) -> None:
        doubt = known, name[:64]
        if doubt in self._places or len(self._places) < MAX_DOUBTS:
            self._places.setdefault(doubt, place)
            self._times[doubt] += 1


def _describe(known: frozenset[str], name: str) -> str:
    """Describe an unknown name, or a key that does nothing."""
    if known == _MEDIA_TYPES:
        hint = did_you_mean(name, MEDIA_TYPES, cutoff=0.8)
        return f"unknown media type {name!r}, the output is compared as text; {hint}"
    if known == _IDLE:
        return "ignored, since the output is a graph, which has no rows and columns; remove it"
    return f"unknown key, ignored; {did_you_mean(name, sorted(known))}"
