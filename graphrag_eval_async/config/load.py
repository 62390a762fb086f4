"""Loading a configuration from a file, a mapping or a `Config`, and checking it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
from graphrag_eval_async.config.reading import Reader, join
from graphrag_eval_async.errors import ConfigError, warn_caller
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from graphrag_eval_async.config.in_code import CodeMetric

GRAPH_SUFFIXES = (".ttl", ".nt", ".nq", ".trig", ".rdf", ".jsonld", ".n3")
"""Suffixes of the RDF files that `execute.graph` may name."""

BOLT_SCHEMES = ("bolt", "neo4j", "bolt+s", "neo4j+s", "bolt+ssc", "neo4j+ssc")
"""How addresses of databases begin: with TLS after +s, and without checking the certificate after
+ssc.
"""

Problem = Callable[[str, str], Any]

_PREFIX = re.compile(r"(?:[^\W\d_][\w.\-]{0,63})?")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^<>\"{}|^`\\\x00-\x20]*")

OF_THE_REQUEST = ("model", "messages", "response_format", "stream", "input", "n")
"""What `parameters` may not hold: each request has its own."""


def load_config(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config, *, judge: bool = False
) -> Config:
    """A checked configuration in which metrics that are off are None.

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
        config = reader.section(Config, raw)
    except RecursionError:
        reader.problem("", "nests too deeply, or contains itself")
    if reader.problems and isinstance(raw, Mapping):
        _check_other_sections(raw, reader, judge=judge, alternatives=alternatives)
    _stop_at(reader.problems, source)

    for name in ragas:
        if name in config.ragas:
            reader.problem(f"ragas.{name}", "is given twice")
    config = replace(config, ragas={**config.ragas, **ragas})
    effective = _effective(config, judge=judge)
    _check_values(config, reader.problem)
    if not judge:
        _check_needs(effective, alternatives, reader.problem)
    _stop_at(reader.problems, source)

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
            reader.problem(name, "expected a mapping, got nothing; {} turns it on")
    if "answer_match" in raw and raw["answer_match"] is None:
        reader.problem("answer_match", "expected a way to match, such as exact, got nothing")


def _check_other_sections(
    raw: Mapping[Any, Any], reader: Reader, *, judge: bool, alternatives: Mapping[str, str]
) -> None:
    """Report invalid values of the sections that could be read, besides those that could not."""
    unread = {
        name for name in raw if any(key.startswith(join("", name)) for key in reader.problems)
    }
    if "custom_evaluations" in unread:
        # It may name one of their outputs.
        unread.add("primary")
    others = {name: value for name, value in raw.items() if name not in unread}
    if "" in reader.problems:
        return
    config = Reader().section(Config, others)
    if config is None:
        return
    _check_values(config, reader.problem)
    if not judge and "llm" not in unread:
        _check_needs(_effective(config, judge=judge), alternatives, reader.problem)


def _stop_at(problems: Mapping[str, str], source: str | None) -> None:
    """Raise a `ConfigError` if there are problems, which are by key; that of the whole is ""."""
    if not problems:
        return
    lines = []
    for key, what in problems.items():
        lines.append(f"{key}: {what}" if key else what)
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
    part: Config = reader.section(Config, raw)
    _stop_at(reader.problems, path)
    check_user_metrics(part, reader.problem)
    _stop_at(reader.problems, path)
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


def _effective(config: Config, *, judge: bool) -> Config:
    """Return the configuration with the metrics that are on by default, without those that are
    off.
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
    """Return the configuration with the metrics that ``metrics: all`` turns on."""
    sections = {metric.name: metric.section() for metric in JUDGED if metric.in_all}
    possible = {
        name: section
        for name, section in sections.items()
        if has_embedding or not section.needs_embedding
    }
    return replace(config, turned_on=None, **(possible | config.metrics))


def _without_disabled_metrics(config: Config) -> Config:
    """Return the configuration without metrics that are off, and without models if none is on."""
    disabled = [name for name, section in config.metrics.items() if not section.enabled]
    config = replace(config, **dict.fromkeys(disabled))
    if config.llm is None or config.judged:
        return config
    # Metrics in code have limits, too.
    llm = LLMConfig(limits=config.llm.limits) if config.custom_metrics else None
    return replace(config, llm=llm)


def _check_values(config: Config, problem: Problem) -> None:
    """Report values that are invalid whatever metrics are on."""
    if config.llm is not None:
        _check_llm(config.llm, problem)
    if config.execute is not None:
        _check_execute(config.execute, problem)
    _check_built_in_metrics(config, problem)
    for key, section in config.judged.items():
        if len({*section.judges}) < len(section.judges):
            problem(f"{key}.judges", "names a judge twice")
    check_user_metrics(config, problem)

    def problem_in_code(name: str, what: str) -> None:
        problem(f"custom_metrics.{name}", what)

    in_code = check_metrics(config, config.custom_metrics, problem_in_code)
    _check_primary(config, in_code, problem)


def _check_built_in_metrics(config: Config, problem: Problem) -> None:
    """Report values of single metrics that the types of their sections allow."""
    ragas_correctness = config.ragas_answer_correctness
    if ragas_correctness is not None and not sum(ragas_correctness.weights):
        problem("ragas_answer_correctness.weights", "expected a sum above 0")

    correctness = config.answer_correctness
    if correctness is not None and correctness.prompt is not None:
        check_placeholders(
            "answer_correctness.prompt", correctness.prompt, CORRECTNESS_INPUTS, problem
        )

    answer_match = config.answer_match
    if isinstance(answer_match, AnswerMatchConfig) and answer_match.tolerance:
        is_valid = answer_match.match == "number" and answer_match.tolerance < 1
        if not is_valid:
            problem(
                "answer_match.tolerance",
                "is for `match: number`, relative, and below 1; 0.05 is 5%",
            )


def _check_primary(config: Config, in_code: Sequence[CodeMetric], problem: Problem) -> None:
    """Report primary metrics that no result can have."""
    known = [ERROR_RATE, *RESULT_METRICS, *RETRIEVAL_METRICS, *outputs_of_users(config, in_code)]
    for index, name in enumerate(config.primary or ()):
        if name in known or is_metric(name):
            continue
        if not any(metric.may_give(name) for metric in in_code):
            problem(f"primary[{index}]", f"{name!r} is no metric; {did_you_mean(name, known)}")


def _check_llm(llm: LLMConfig, problem: Problem) -> None:
    """Report addresses and parameters of models that cannot be used."""
    models: dict[str, ModelConfig | None] = {
        "llm.generation": llm.generation,
        "llm.embedding": llm.embedding,
    }
    for name, judge in llm.judges.items():
        models[join("llm.judges", name)] = judge
    for key, model in models.items():
        if model is not None:
            _check_model(key, model, problem)
    if GENERATION in llm.judges:
        problem(
            f"llm.judges.{GENERATION}", "expected another name: this one stands for llm.generation"
        )


def _check_model(key: str, model: ModelConfig, problem: Problem) -> None:
    """Report an address that is none, and parameters that each request has itself."""
    if model.base_url is not None:
        wrong = wrong_with_url(model.base_url)
        if wrong is not None:
            problem(f"{key}.base_url", wrong)
    for parameter in OF_THE_REQUEST:
        if parameter in model.parameters:
            problem(f"{key}.parameters.{parameter}", "may not be given: each request has its own")


def _check_execute(execute: ExecuteConfig, problem: Problem) -> None:
    """Report what is wrong with where queries are run."""
    sources = [execute.endpoint, execute.graph, execute.database]
    if sum(source is not None for source in sources) != 1:
        problem("execute", "expected one of endpoint, graph and database")
    if execute.endpoint is not None:
        wrong = wrong_with_url(execute.endpoint)
        if wrong is not None:
            problem("execute.endpoint", wrong.replace("belongs in api_key", "belongs in headers"))
    if execute.graph is not None:
        _check_graph(execute, execute.graph, problem)
    if execute.database is not None:
        _check_database(execute, execute.database, problem)
    elif execute.database_name is not None:
        problem("execute.database_name", "is only for a database")
    if (execute.username is None) != (execute.password is None):
        problem("execute", "expected username and password, or neither")
    _check_prefixes(execute, problem)


def _check_prefixes(execute: ExecuteConfig, problem: Problem) -> None:
    """Report prefixes that are none, and prefixes for Cypher."""
    if execute.runs_cypher and execute.prefixes:
        problem("execute.prefixes", "is for SPARQL, and Cypher has no prefixes")
    for prefix, iri in execute.prefixes.items():
        if not _PREFIX.fullmatch(prefix) or not _IRI.fullmatch(iri):
            key = join("execute.prefixes", prefix)
            problem(key, "expected a prefix without its colon, and an absolute IRI")


def _check_database(execute: ExecuteConfig, address: str, problem: Problem) -> None:
    """Report an address that is none, and what only an endpoint has."""
    wrong = _wrong_with_bolt_address(address)
    if wrong is not None:
        problem("execute.database", wrong)
    for name in ("headers", "allow_from", "allow_service"):
        if getattr(execute, name):
            problem(f"execute.{name}", "is for an endpoint, not for a database")


def _check_graph(execute: ExecuteConfig, path: str, problem: Problem) -> None:
    """Report a file that is none, and what only an endpoint has."""
    suffixes = [*GRAPH_SUFFIXES, LADYBUG_SUFFIX]
    if os.path.splitext(path)[1].lower() not in suffixes:
        problem("execute.graph", f"expected a file that ends in {', '.join(suffixes)}")
    elif not os.path.isfile(path):
        problem("execute.graph", "there is no such file")
    for name in ("headers", "username", "password", "allow_from", "allow_service"):
        if getattr(execute, name):
            problem(f"execute.{name}", "is for an endpoint, not for a graph")


def _wrong_with_bolt_address(text: str) -> str | None:
    """Return why a text cannot be the address of a database, without quoting it; None if it can."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The port is no number.
        has_place = False
    if not has_place or parts.scheme not in BOLT_SCHEMES or not text.isprintable() or " " in text:
        return f"expected an address that begins with {', '.join(BOLT_SCHEMES)} and ://"
    if "@" in parts.netloc:
        return "may hold no user and no password; they belong in username and password"
    if parts.path.strip("/") or "?" in text or "#" in text:
        return "may hold no path and no query; the database belongs in database_name"
    return None


def _check_needs(config: Config, alternatives: Mapping[str, str], problem: Problem) -> None:
    """Report the models that are missing for the metrics that are on.

    Which models a metric of ragas needs is known when it is made.

    Args:
        config: the configuration.
        alternatives: what the caller can give in code in place of a model, by the key of the model.
        problem: reports a problem at a key.
    """
    judges = {} if config.llm is None else config.llm.judges
    for key, section in config.judged.items():
        missing = []
        is_of_ragas = isinstance(section, RagasMetricConfig)
        if GENERATION in section.judges and not is_of_ragas and not has_model(config, GENERATION):
            missing.append(f"llm.{GENERATION}")
        if key in config.embedding_metrics and not has_model(config, "embedding"):
            missing.append("llm.embedding")
        if missing:
            ways = [
                f"{model} or {alternatives[model]}" if model in alternatives else model
                for model in missing
            ]
            problem(key, f"needs {' and '.join(ways)}")

        for index, name in enumerate(section.judges):
            if name != GENERATION and name not in judges:
                hint = did_you_mean(name, [*judges, GENERATION])
                problem(f"{key}.judges[{index}]", f"{name!r} is none of llm.judges; {hint}")


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
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:
        # The port is no number.
        has_place = False
    is_url = has_place and parts.scheme in {"http", "https"}
    if not is_url or not text.isprintable() or " " in text:
        return "expected a URL that begins with http:// or https://"
    # Transports log them, and paths are appended.
    if "@" in parts.netloc or "?" in text or "#" in text:
        return "may hold no user, password, query or fragment; a key belongs in api_key"
    return None
