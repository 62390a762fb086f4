"""The sections of a configuration for steps and metrics, and the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, cast

from msgspec import Meta, defstruct, field

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.catalogue.sections import (
    GENERATION,
    Amount,
    BuiltInConfig,
    MetricConfig,
    Name,
    Text,
    Texts,
)
from graphrag_eval_async.config.llm import Count, Headers, LLMConfig, Positive, Section
from graphrag_eval_async.records.question import Matching  # noqa: TC001  (its members are read)

T = TypeVar("T", bound=Section)

LADYBUG_SUFFIX = ".lbug"
"""Suffix of the files of Ladybug."""

Input: TypeAlias = Literal[
    "question", "reference_answer", "reference_steps", "actual_answer", "actual_steps"
]


class StepsConfig(Section, frozen=True, kw_only=True):
    """How steps are scored.

    Attributes:
        groups: which groups of reference steps count.
        strict_types: whether an output without types (CSV, Markdown, or a list of objects) scores 0
            if typed SPARQL results are expected, and an IRI differs from a literal of the same
            text.
        match_columns: which columns of tables are paired, for reference steps without a
            `match_columns` of their own: "contents", columns of any name; "name", only those of the
            same name; "count", those of any name, if both tables have as many columns. It has no
            effect on steps with ``score: values_f1``.
        check_queries: whether to parse the queries of the agent's steps, without running them.
            Steps then have `query_facts`, and `failure` may be `query_invalid`. Needs the extra
            `rdf`.
        tool_calls: whether to compare the names of the agent's steps with those of the reference
            steps. Results then have `tool_calls_precision`, `tool_calls_recall` and
            `tool_calls_f1`.
    """

    groups: Literal["last", "all"] = "last"
    strict_types: bool = False
    match_columns: Literal["contents", "name", "count"] = "contents"
    check_queries: bool = False
    tool_calls: bool = False


class ExecuteConfig(Section, frozen=True, kw_only=True):
    """Where reference queries and the agent's queries are run.

    SPARQL is run on an `endpoint` or on a `graph` in a file, and needs the extra `execute`. Cypher
    is run on a `database` or on a `graph` of Ladybug, and needs the extra `cypher`.

    Only the last 50 queries of a response are run. After four timeouts, no more queries of that
    response are run. Queries of more than 100,000 characters are refused.

    A query is at fault if the endpoint answers with status 400, 413, 414, 422 or 500, with only
    part of the results (206, `X-SQL-State`, as many rows as `X-SPARQL-MaxRows` says, or results
    that end in the middle), or not within `timeout_sec`.

    After status 408, 429, 502, 503 or 504, after 500 with a message that the endpoint is
    overloaded, or after a lost connection, the query is tried again, up to three times in all.
    `Retry-After` sets the pause if it is at most 60 s. If all three attempts end with 408, 502,
    503, 504, or 429 with a message that the query timed out, and the endpoint answers `ASK {}`
    before and after the second and third attempt, the agent's query is at fault. In all other
    cases, the endpoint is.

    A Cypher query is at fault if the database says so, or if it takes more than `timeout_sec` while
    the database answers ``RETURN 1``. After a lost connection or a passing failure of the database,
    it is tried again, up to three times in all.

    Attributes:
        endpoint: address of a SPARQL 1.1 endpoint that answers queries.
        graph: path of an RDF file, in place of an endpoint: .ttl, .nt, .nq, .trig, .rdf, .jsonld or
            .n3; or of a Ladybug database: .lbug.
        database: address of a database for Cypher that speaks Bolt, such as Neo4j, Memgraph or
            Neptune. It begins with bolt:// or neo4j://, bolt+s:// or neo4j+s:// for TLS, or
            bolt+ssc:// or neo4j+ssc:// for TLS with a certificate that is not checked.
        database_name: name of the database on that server, if it is not the default one.
        prefixes: prefixes that queries need not declare, with their IRIs. Prefixes in the file of
            `graph` are known, too.
        reference_prefixes: whether the agent's queries that declare no prefix are run with the
            prefixes of the reference queries of their question. Published scores are not computed
            so.
        headers: HTTP headers to add to each request to the endpoint.
        username: user for HTTP basic authentication at the endpoint, or for the database.
        password: password of that user.
        actual: whether to run the agent's queries. If false, the outputs in the response are
            compared.
        reference: whether to run the queries of reference steps that have an `output`. If false,
            the `output` is compared.
        allow_from: whether the agent's queries may use FROM at the endpoint, which may fetch the
            graphs that FROM names.
        allow_service: whether the agent's queries may use SERVICE at the endpoint, such as
            Wikidata's label service. The endpoint then sends requests to other servers.
        timeout_sec: time for one attempt of a query, in seconds.
        max_rows: a query that returns more rows or triples fails.
        max_bytes: a query whose results have more bytes fails.
        max_memory_bytes: memory limit of each process that runs queries on a file, in bytes, beyond
            the file itself.
        max_in_flight: number of queries to run at a time. Queries on a file run in this many
            processes, each with a copy of the file.
    """

    endpoint: Text | None = None
    graph: Text | None = None
    database: Text | None = None
    database_name: Text | None = None
    prefixes: dict[str, str] = field(default_factory=dict)
    reference_prefixes: bool = True
    headers: Headers = field(default_factory=dict)
    username: Text | None = None
    password: Text | None = None
    actual: bool = True
    reference: bool = True
    allow_from: bool = False
    allow_service: bool = False
    timeout_sec: Positive = 30.0
    max_rows: Count = 100_000
    max_bytes: Count = 16 << 20
    max_memory_bytes: Count = 1 << 30
    max_in_flight: Count = 4

    @property
    def runs_cypher(self) -> bool:
        """Whether queries are in Cypher; otherwise, they are in SPARQL."""
        return self.database is not None or is_ladybug(self.graph)


def is_ladybug(graph: str | None) -> bool:
    """Return whether a path is that of a Ladybug database."""
    return graph is not None and graph.lower().endswith(LADYBUG_SUFFIX)


class AnswerMatchConfig(Section, frozen=True, kw_only=True):
    """How answers are matched with reference answers, without a judge.

    The model's reasoning is not part of its answer: a ``<think>`` block, for example, or the text
    between "Thought:" and "Answer:". All kinds of quotes count as the same, and so do hyphens,
    dashes and spaces; soft hyphens and other invisible characters do not count. "exact" also
    ignores what may stand around an answer: quotes, emphasis, tags such as ``<answer>``,
    ``\\boxed{}``, the mark of a heading, and a final full stop.

    "contains" finds whole words and numbers only: 12 is not in 120, 12.5, 12,000 or -12. In
    scripts without spaces, such as Chinese and Thai, it finds any part, and in Korean a word with
    a particle. "regex" has the syntax of RE2, and ignores case only if the pattern begins with
    ``(?i)``.

    "list" splits items at commas, semicolons, line breaks, ``&`` and "and" in about 80 languages,
    and reads lists in Markdown, HTML and JSON, and the columns of tables. It ignores bullets,
    numbers, quotes, brackets, marks of sources such as [1], and text before and after a list. A
    word that is only sometimes an "and", such as Czech "a", splits items where more of them then
    agree.

    "number" reads 1,234.5 and 1.234,5, 12,34,567, 2.5e-3, 3 x 10^8, 1/2, LaTeX, and words such as
    "twenty-one" in fourteen languages. It knows powers of ten: 1.5 million, 2 Mrd., 3.5M, 5 lakh,
    3万5千. 12.345 may be English or German, and is right if either reading is. 45% is both 45 and
    0.45. Dates such as 2021-05-03, times, versions, ranges and IRIs are not numbers, nor are marks
    of sources such as [1], and what the answer strikes out does not count.

    If an answer has several numbers, those count that are in ``\\boxed{}``, after "Answer:" or in
    bold; otherwise those from its conclusion on, such as "So ...", "..., so 42" or the sum of the
    numbers before; otherwise all. Words such as "one" and "no" count in answers without another
    number, but not in refusals such as "I have no information".

    Attributes:
        match: how to match answers to questions that have no `match`.
        tolerance: for "number": the maximum difference, as a share of the reference number.
            Default: 1e-6.
    """

    match: Matching
    tolerance: Amount | None = None


class OutputConfig(Section, frozen=True, kw_only=True):
    """One output of a custom evaluation.

    Attributes:
        type: "number" or "string". A number is a metric.
        description: what the judge is told about it. `fraction 0-1 ...` makes it a number from 0 to
            1.
    """

    type: Literal["number", "string"]
    description: str


class CustomEvaluationConfig(MetricConfig, frozen=True, kw_only=True):
    """One call of the judge with your own instructions and outputs.

    Attributes:
        name: 1 to 64 letters, digits, _ and -; results have the keys ``<name>_error`` and
            ``<name>_cost``.
        inputs: what the judge sees.
        instructions: what the judge is told. `{question}` and the names of other inputs stand for
            the data; any other name in braces is an error.
        outputs: keys of the result, each with a description, or with a type and a description.
        steps_name: show only steps of this name; null shows all.
        steps_keys: show only these keys of each step; null shows all.
    """

    name: Name
    inputs: Annotated[tuple[Input, ...], Meta(min_length=1, description="a list that is not empty")]
    instructions: Text
    outputs: Annotated[
        dict[Name, str | OutputConfig],
        Meta(min_length=1, description="a mapping that is not empty"),
    ]
    steps_name: Text | None = None
    steps_keys: Texts | None = None


class RagasMetricConfig(MetricConfig, frozen=True, kw_only=True):
    """A metric of ragas.

    Attributes:
        metric: name of a metric of ragas, such as ``FactualCorrectness``, or the path of a class or
            an object, such as ``mypackage.mymodule:MyMetric``.
        arguments: arguments of the class. Inputs that responses lack may stand here, too, such as
            `rubrics` or `reference_topics`.
    """

    metric: Text
    arguments: dict[str, Any] = field(default_factory=dict)


def _with_sections_of_metrics(settings: type[T]) -> type[T]:
    """Return a section that has one more key for each judged metric: its section, or None."""
    config = defstruct(
        settings.__name__,
        [(metric.name, metric.section | None, None) for metric in JUDGED],
        bases=(settings,),
        namespace={"__doc__": settings.__doc__},
        module=settings.__module__,
        frozen=True,
        kw_only=True,
    )
    return cast("type[T]", config)


@_with_sections_of_metrics
class Config(Section, frozen=True, kw_only=True):
    """A configuration, with the keys of the YAML file.

    A metric is judged if its section is present and enabled. With no metric sections, no metrics of
    ragas and no custom evaluations, `llm` judges answer correctness, and with an embedding model
    also answer relevance.

    Attributes:
        llm: the models that judge. Without them, no LLM is called: steps, `match` and your own
            metrics are still scored.
        execute: where queries are run before steps are scored. Without it, no query is run.
        aliases: names of steps in the reference set, each with the other names that agents use for
            it.
        turned_on: ``metrics: all`` in a file turns on `answer_correctness`, both retrieval metrics
            and, with an embedding model, `answer_relevance`. A section with ``enabled: false``
            stays off.
        primary: the metrics for which `compare` and `report` give a verdict against a baseline.
            Default: ``error_rate``, ``steps_score``, ``answer_match``, the judged metrics of
            answers (of answer correctness, ``answer_f1``), and outputs of custom evaluations and
            your own metrics if they are from 0 to 1.
        answer_match: how all answers are matched with their reference answers: a section, or its
            `match` alone. Without it, only answers to questions with a `match` are compared.
        custom_evaluations: your own calls of the judge, as a list.
        ragas: metrics of the package ragas, by names of your choice: each is the name of a metric,
            such as ``Faithfulness``, or a section. Needs the extra `ragas`.
        custom_metrics: your own metrics, by name. Each is the path of a function of the question,
            the response and the result, such as ``mypackage.mymodule:brevity``. The module must be
            installed. On the command line, it may also be in the working directory or beside the
            configuration.
    """

    llm: LLMConfig | None = None
    steps: StepsConfig = StepsConfig()
    execute: ExecuteConfig | None = None
    aliases: dict[Text, tuple[Text, ...]] = field(default_factory=dict)
    turned_on: Literal["all"] | None = field(default=None, name="metrics")
    primary: Texts | None = None
    answer_match: Matching | AnswerMatchConfig | None = None
    custom_evaluations: tuple[CustomEvaluationConfig, ...] = ()
    ragas: dict[Name, Text | RagasMetricConfig] = field(default_factory=dict)
    custom_metrics: dict[Name, Text] = field(default_factory=dict)

    if TYPE_CHECKING:  # The keys of metrics are those of the catalogue.

        def __init__(self, **sections: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    @property
    def metrics(self) -> dict[str, BuiltInConfig]:
        """The sections of built-in metrics that are present, by name."""
        sections = {metric.name: getattr(self, metric.name) for metric in JUDGED}
        return {name: section for name, section in sections.items() if section is not None}

    @property
    def ragas_metrics(self) -> dict[str, RagasMetricConfig]:
        """The sections of the metrics of ragas, by name."""
        sections = {}
        for name, section in self.ragas.items():
            if isinstance(section, str):
                section = RagasMetricConfig(metric=section)
            sections[name] = section
        return sections

    @property
    def judged(self) -> dict[str, MetricConfig]:
        """The sections of all metrics that are present, by key."""
        sections: dict[str, MetricConfig] = dict(self.metrics)
        for index, evaluation in enumerate(self.custom_evaluations):
            sections[f"custom_evaluations[{index}]"] = evaluation
        for name, section in self.ragas_metrics.items():
            sections[f"ragas.{name}"] = section
        return sections

    @property
    def judges(self) -> list[str]:
        """The names of the judges that the metrics ask, the generation model first."""
        names = dict.fromkeys(name for section in self.judged.values() for name in section.judges)
        return sorted(names, key=lambda name: name != GENERATION)

    @property
    def embedding_metrics(self) -> list[str]:
        """The names of the built-in metrics that need an embedding model."""
        return [name for name, section in self.metrics.items() if section.needs_embedding]


def judge_of(config: Config | None) -> str | None:
    """Return the names of the judging LLMs; None if there is none, or no metric is on."""
    if config is None or config.llm is None or not config.judged:
        return None
    models = [config.llm.model(name) for name in config.judges]
    return ", ".join(model.model for model in models if model is not None) or None
