"""Loads a configuration from a file, a mapping or a `Config`, and checks it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from msgspec.structs import replace

from graphrag_eval_async.catalogue.judged import (
    CORRECTNESS_INPUTS,
    JUDGED,
    JUDGED_BY_NAME,
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
)
from graphrag_eval_async.catalogue.metrics import (
    ERROR_RATE,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    is_metric,
)
from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config.llm import OTHER_SERVERS, LLMConfig, ModelConfig
from graphrag_eval_async.config.metric_keys import (
    check_metrics,
    check_placeholders,
    check_user_metrics,
    outputs_of_users,
)
from graphrag_eval_async.config.model import (
    LADYBUG_SUFFIX,
    AnswerMatchConfig,
    Config,
    ExecuteConfig,
    RagasMetricConfig,
)
from graphrag_eval_async.config.reading import Reader, Report, join_key
from graphrag_eval_async.errors import ConfigError, warn_caller
from graphrag_eval_async.helpers.text import did_you_mean

if TYPE_CHECKING:
    from graphrag_eval_async.config.in_code import CodeMetric

GRAPH_SUFFIXES = (".ttl", ".nt", ".nq", ".trig", ".rdf", ".jsonld", ".n3")
"""Suffixes of the RDF files that `execute.graph` may name."""

BOLT_SCHEMES = ("bolt", "neo4j", "bolt+s", "neo4j+s", "bolt+ssc", "neo4j+ssc")
"""How addresses of databases begin: with TLS after +s, and without checking the certificate after
+ssc.
"""

_PREFIX = re.compile(r"(?:[^\W\d_][\w.\-]{0,63})?")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^<>\"{}|^`\\\x00-\x20]*")

KEYS_OF_REQUESTS = ("model", "messages", "response_format", "stream", "input", "n")
"""Keys that `parameters` of a model may not have: each request has its own values for them."""


def load_config(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config, *, judge: bool = False
) -> Config:
    """Return a checked configuration in which metrics that are off are None.

    If nothing is judged, `llm` is None, or has only the limits of metrics in code. Loading a loaded
    configuration changes nothing, unless `judge` differs.

    Args:
        config: a path to YAML, or to JSON if the suffix is ``.json``; a mapping of that layout; a
            `Config`. In strings under `llm` and `execute`, ``${NAME}`` is replaced by the
            environment variable.
        judge: whether the caller brings a judge, which replaces the models in `llm`.

    Raises:
        ConfigError: it cannot be read, or is invalid; lists the problems, each with its key.
    """
    if not isinstance(config, str | os.PathLike):
        return check_config(config, None, judge=judge)
    source = os.fsdecode(config)
    return check_config(read_config(source), source, judge=judge)


def check_config(
    raw: Any,
    source: str | None,
    *,
    judge: bool = False,
    ragas: Mapping[str, RagasMetricConfig] = MappingProxyType({}),
    alternatives: Mapping[str, str] = MappingProxyType({}),
) -> Config:
    """Return the configuration that `raw` holds.

    Args:
        raw: a mapping with the layout of the YAML file, or a `Config`.
        source: the file that it was read from.
        judge: whether the caller brings a judge.
        ragas: metrics of ragas that the caller brings, by name.
        alternatives: what the caller can give in code in place of a model of the configuration, by
            the key of the model.

    Raises:
        ConfigError: it is invalid; lists the problems, each with its key.
    """
    reader = Reader()
    if isinstance(raw, Mapping):
        _check_sections_without_value(raw, reader)
    try:
        config = reader.read_section(Config, raw)
    except RecursionError:
        reader.report("", "nests too deeply, or contains itself")
    if reader.problems and isinstance(raw, Mapping):
        _check_readable_sections(raw, reader, judge=judge, alternatives=alternatives)
    _raise_problems(reader.problems, source)

    # Metrics of ragas may come from the file and from the caller.
    for name in ragas:
        if name in config.ragas:
            reader.report(f"ragas.{name}", "is given twice")
    config = replace(config, ragas={**config.ragas, **ragas})

    # Check what the types of the sections allow.
    effective = _with_metrics_that_are_on(config, judge=judge)
    _check_values(config, reader.report)
    if not judge:
        _check_needed_models(effective, alternatives, reader.report)
    _raise_problems(reader.problems, source)

    if config.metrics and not effective.judged:
        warn_caller(
            "configuration: every metric that it names is off, and others are on only if it names "
            "them; `metrics: all` turns the others on"
        )
    return effective


def _check_sections_without_value(raw: Mapping[Any, Any], reader: Reader) -> None:
    """Report metrics that the file names without a value, as ``faithfulness:`` alone does."""
    for name in JUDGED_BY_NAME:
        if name in raw and raw[name] is None:
            reader.report(name, "expected a mapping, got nothing; {} turns it on")
    if "answer_match" in raw and raw["answer_match"] is None:
        reader.report("answer_match", "expected a way to match, such as exact, got nothing")


def _check_readable_sections(
    raw: Mapping[Any, Any], reader: Reader, *, judge: bool, alternatives: Mapping[str, str]
) -> None:
    """Check the values in those sections of a configuration that could be read.

    So a user sees all problems at once, although some sections have problems already.

    Args:
        raw: the configuration, some of whose sections could not be read.
        reader: has the problems of these sections; more are reported to it.
        judge: as in `check_config`, like `alternatives`.
    """
    if "" in reader.problems:
        # The configuration as a whole could not be read.
        return
    unreadable = {
        name for name in raw if any(key.startswith(join_key("", name)) for key in reader.problems)
    }
    if "custom_evaluations" in unreadable:
        # Primary metrics may be outputs of custom evaluations.
        unreadable.add("primary")
    readable_sections = {name: value for name, value in raw.items() if name not in unreadable}
    config = Reader().read_section(Config, readable_sections)
    if config is None:
        return
    _check_values(config, reader.report)
    if not judge and "llm" not in unreadable:
        effective = _with_metrics_that_are_on(config, judge=judge)
        _check_needed_models(effective, alternatives, reader.report)


def _raise_problems(problems: Mapping[str, str], source: str | None) -> None:
    """Raise an error if a configuration has problems.

    Args:
        problems: the problems by key. A problem of the whole configuration has the key "".
        source: the file of the configuration; None if it is from no file.

    Raises:
        ConfigError: there are problems.
    """
    if not problems:
        return
    lines = []
    for key, problem in problems.items():
        lines.append(f"{key}: {problem}" if key else problem)
    raise ConfigError(lines, source)


def load_part(path: str, key: str) -> Config:
    """Return a configuration with one key of a file.

    So no variable with a judge's key needs to be set, and no metric is on.

    Raises:
        ConfigError: the file cannot be read, or the value is invalid.
    """
    raw = read_config(path)
    if isinstance(raw, Mapping):
        raw = {name: value for name, value in raw.items() if name == key}
    reader = Reader()
    part: Config = reader.read_section(Config, raw)
    _raise_problems(reader.problems, path)
    check_user_metrics(part, reader.report)
    _raise_problems(reader.problems, path)
    return part


def read_config(source: str) -> Any:
    """Return what a configuration file holds.

    Raises:
        ConfigError: it cannot be read.
    """
    # YAML takes long to import.
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file

    try:
        return read_file(source)
    except UnreadableFile as error:
        raise ConfigError([str(error)], source) from None


def _with_metrics_that_are_on(config: Config, *, judge: bool) -> Config:
    """Return a configuration that has the sections of exactly those metrics that are on.

    If the configuration names no metric, some are on by default, as far as there are models or a
    judge of the caller.

    Args:
        config: the configuration as its author wrote it.
        judge: whether the caller brings a judge, which answers requests for no embeddings.
    """
    has_embedding = config.llm is not None and config.llm.embedding is not None
    if config.turned_on == "all":
        config = _with_all_metrics(config, has_embedding=has_embedding)

    if config.judged:
        return _without_disabled_metrics(config)

    has_generation = config.llm is not None and config.llm.generation is not None
    if not judge and not has_generation:
        return config
    on_by_default: dict[str, Any] = {"answer_correctness": AnswerCorrectnessConfig()}
    if has_embedding and not judge:
        on_by_default["answer_relevance"] = AnswerRelevanceConfig()
    return replace(config, **on_by_default)


def _with_all_metrics(config: Config, *, has_embedding: bool) -> Config:
    """Return the configuration with the metrics that ``metrics: all`` turns on.

    A section of the configuration replaces the default one of its metric.

    Args:
        config: the configuration.
        has_embedding: whether there is an embedding model, which some metrics need.
    """
    sections: dict[str, Any] = {}
    for metric in JUDGED:
        section = metric.section()
        if metric.in_all and (has_embedding or not section.needs_embedding):
            sections[metric.name] = section
    sections |= config.metrics
    return replace(config, turned_on=None, **sections)


def _without_disabled_metrics(config: Config) -> Config:
    """Return the configuration without metrics that are off, and without models if none is on."""
    disabled = [name for name, section in config.metrics.items() if not section.enabled]
    config = replace(config, **dict.fromkeys(disabled))
    if config.llm is None or config.judged:
        return config
    if not config.custom_metrics:
        return replace(config, llm=None)
    # Metrics in code have limits, too.
    return replace(config, llm=LLMConfig(limits=config.llm.limits))


def _check_values(config: Config, report: Report) -> None:
    """Report values that are invalid whatever metrics are on."""
    if config.llm is not None:
        _check_llm(config.llm, report)
    if config.execute is not None:
        _check_execute(config.execute, report)
    _check_built_in_metrics(config, report)
    for key, section in config.judged.items():
        has_duplicates = len(set(section.judges)) < len(section.judges)
        if has_duplicates:
            report(f"{key}.judges", "names a judge twice")
    check_user_metrics(config, report)

    def report_metric_in_code(name: str, problem: str) -> None:
        report(f"custom_metrics.{name}", problem)

    metrics_in_code = check_metrics(config, config.custom_metrics, report_metric_in_code)
    _check_primary(config, metrics_in_code, report)


def _check_built_in_metrics(config: Config, report: Report) -> None:
    """Report invalid values of built-in metrics that the types of their sections cannot exclude."""
    ragas_correctness = config.ragas_answer_correctness
    if ragas_correctness is not None and not sum(ragas_correctness.weights):
        report("ragas_answer_correctness.weights", "expected a sum above 0")

    correctness = config.answer_correctness
    if correctness is not None and correctness.prompt is not None:
        check_placeholders(
            "answer_correctness.prompt", correctness.prompt, CORRECTNESS_INPUTS, report
        )

    answer_match = config.answer_match
    if isinstance(answer_match, AnswerMatchConfig) and answer_match.tolerance:
        is_valid = answer_match.match == "number" and answer_match.tolerance < 1
        if not is_valid:
            report(
                "answer_match.tolerance",
                "is for `match: number`, relative, and below 1; 0.05 is 5%",
            )


def _check_primary(config: Config, metrics_in_code: Sequence[CodeMetric], report: Report) -> None:
    """Report primary metrics that no result can have."""
    user_metrics = outputs_of_users(config, metrics_in_code)
    known = [ERROR_RATE, *RESULT_METRICS, *RETRIEVAL_METRICS, *user_metrics]
    for index, name in enumerate(config.primary or ()):
        if name in known or is_metric(name):
            continue
        # Some metrics in code do not declare the keys of their values.
        if not any(metric.may_give(name) for metric in metrics_in_code):
            report(f"primary[{index}]", f"{name!r} is no metric; {did_you_mean(name, known)}")


def _check_llm(llm: LLMConfig, report: Report) -> None:
    """Report addresses and parameters of models that cannot be used."""
    models: dict[str, ModelConfig | None] = {
        "llm.generation": llm.generation,
        "llm.embedding": llm.embedding,
    }
    for name, judge in llm.judges.items():
        models[join_key("llm.judges", name)] = judge
    for key, model in models.items():
        if model is not None:
            _check_model(key, model, report)
    if GENERATION in llm.judges:
        report(
            f"llm.judges.{GENERATION}", "expected another name: this one stands for llm.generation"
        )


def _check_model(key: str, model: ModelConfig, report: Report) -> None:
    """Report an invalid address of a model, and parameters that each request sets itself."""
    if model.base_url is not None:
        problem = wrong_with_url(model.base_url)
        if problem is not None:
            report(f"{key}.base_url", problem)
    for parameter in KEYS_OF_REQUESTS:
        if parameter in model.parameters:
            report(f"{key}.parameters.{parameter}", "may not be given: each request has its own")


def _check_execute(execute: ExecuteConfig, report: Report) -> None:
    """Report problems of the section that says where queries are run."""
    sources = [execute.endpoint, execute.graph, execute.database]
    if sum(source is not None for source in sources) != 1:
        report("execute", "expected one of endpoint, graph and database")
    if execute.endpoint is not None:
        problem = wrong_with_url(execute.endpoint)
        if problem is not None:
            # Unlike a model, an endpoint has no `api_key`.
            problem = problem.replace("belongs in api_key", "belongs in headers")
            report("execute.endpoint", problem)
    if execute.graph is not None:
        _check_graph(execute, execute.graph, report)
    if execute.database is not None:
        _check_database(execute, execute.database, report)
    elif execute.database_name is not None:
        report("execute.database_name", "is only for a database")
    if (execute.username is None) != (execute.password is None):
        report("execute", "expected username and password, or neither")
    _check_prefixes(execute, report)


def _check_prefixes(execute: ExecuteConfig, report: Report) -> None:
    """Report invalid prefixes of SPARQL, and prefixes although queries are in Cypher."""
    if execute.runs_cypher and execute.prefixes:
        report("execute.prefixes", "is for SPARQL, and Cypher has no prefixes")
    for prefix, iri in execute.prefixes.items():
        if not _PREFIX.fullmatch(prefix) or not _IRI.fullmatch(iri):
            key = join_key("execute.prefixes", prefix)
            report(key, "expected a prefix without its colon, and an absolute IRI")


def _check_database(execute: ExecuteConfig, address: str, report: Report) -> None:
    """Report an invalid address of a database, and values that are only for an endpoint."""
    problem = _wrong_with_bolt_address(address)
    if problem is not None:
        report("execute.database", problem)
    for name in ("headers", "allow_from", "allow_service"):
        if getattr(execute, name):
            report(f"execute.{name}", "is for an endpoint, not for a database")


def _check_graph(execute: ExecuteConfig, path: str, report: Report) -> None:
    """Report a graph that is not a file of RDF, and values that are only for an endpoint."""
    suffixes = [*GRAPH_SUFFIXES, LADYBUG_SUFFIX]
    if os.path.splitext(path)[1].lower() not in suffixes:
        report("execute.graph", f"expected a file that ends in {', '.join(suffixes)}")
    elif not os.path.isfile(path):
        report("execute.graph", "there is no such file")
    for name in ("headers", "username", "password", "allow_from", "allow_service"):
        if getattr(execute, name):
            report(f"execute.{name}", "is for an endpoint, not for a graph")


def _wrong_with_bolt_address(text: str) -> str | None:
    """Return why a text cannot be the address of a database, without quoting it; None if it can."""
    parts = _split_address(text, BOLT_SCHEMES)
    if parts is None:
        return f"expected an address that begins with {', '.join(BOLT_SCHEMES)} and ://"
    if "@" in parts.netloc:
        return "may hold no user and no password; they belong in username and password"
    if parts.path.strip("/") or "?" in text or "#" in text:
        return "may hold no path and no query; the database belongs in database_name"
    return None


def _split_address(text: str, schemes: Sequence[str]) -> SplitResult | None:
    """Return the parts of the address of a server; None if it is invalid or has another scheme."""
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The port is no number.
        return None
    has_blanks = " " in text or not text.isprintable()
    if not has_host or has_blanks or parts.scheme not in schemes:
        return None
    return parts


def _check_needed_models(config: Config, alternatives: Mapping[str, str], report: Report) -> None:
    """Report the models that are missing for the metrics that are on.

    Which models a metric of ragas needs is known when it is made.

    Args:
        config: the configuration.
        alternatives: what the caller can give in code in place of a model, by the key of the model.
        report: reports a problem at a key.
    """
    judges: Collection[str] = ()
    if config.llm is not None:
        judges = config.llm.judges
    for key, section in config.judged.items():
        missing_models = []
        asks_generation = GENERATION in section.judges
        is_of_ragas = isinstance(section, RagasMetricConfig)
        if asks_generation and not is_of_ragas and not has_model(config, GENERATION):
            missing_models.append(f"llm.{GENERATION}")
        if key in config.embedding_metrics and not has_model(config, "embedding"):
            missing_models.append("llm.embedding")
        if missing_models:
            remedies = []
            for model in missing_models:
                alternative = alternatives.get(model)
                remedies.append(model if alternative is None else f"{model} or {alternative}")
            report(key, f"needs {' and '.join(remedies)}")

        for index, name in enumerate(section.judges):
            if name != GENERATION and name not in judges:
                hint = did_you_mean(name, [*judges, GENERATION])
                report(f"{key}.judges[{index}]", f"{name!r} is none of llm.judges; {hint}")


def has_model(config: Config, name: str) -> bool:
    """Return whether `llm` has the model "generation" or "embedding"."""
    return config.llm is not None and getattr(config.llm, name) is not None


def parse_model(text: str, option: str) -> dict[str, str]:
    """Return the section of a model from its provider and its name, such as "openai/gpt-4o-mini".

    Raises:
        ConfigError: there is no such provider, or no name.
    """
    provider, _, model = text.partition("/")
    if provider not in {"openai", "azure"} or not model:
        problem = (
            f'{option}: expected "openai/" or "azure/" and a model, got {text!r}; for '
            f"{OTHER_SERVERS}, configure llm.generation.base_url"
        )
        raise ConfigError([problem])
    return {"provider": provider, "model": model}


def wrong_with_url(text: str) -> str | None:
    """Return why a text cannot be a base URL, without quoting it; None if it can."""
    parts = _split_address(text, ("http", "https"))
    if parts is None:
        return "expected a URL that begins with http:// or https://"
    # HTTP clients log addresses, and paths are appended to this one.
    if "@" in parts.netloc or "?" in text or "#" in text:
        return "may hold no user, password, query or fragment; a key belongs in api_key"
    return None
