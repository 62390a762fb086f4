"""Loading a configuration from a file, a mapping or a `Config`, and checking it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from graphrag_eval_async.catalogue.metrics import (
    BY,
    COST,
    DISAGREEMENT,
    ERROR_RATE,
    RESULT_KEYS,
    RESULT_METRICS,
    RETRIEVAL_METRICS,
    is_metric,
)
from graphrag_eval_async.config.in_code import CodeMetric, find_metric
from graphrag_eval_async.config.llm import GENERATION, OTHER_SERVERS, LLMConfig, ModelConfig
from graphrag_eval_async.config.model import (
    CORRECTNESS_INPUTS,
    METRICS,
    AnswerCorrectnessConfig,
    AnswerMatchConfig,
    AnswerRelevanceConfig,
    Config,
    CustomEvaluationConfig,
    ExecuteConfig,
)
from graphrag_eval_async.config.reading import Reader, join
from graphrag_eval_async.errors import ConfigError, warn_caller
from graphrag_eval_async.text import did_you_mean

GATES = ("error_rate", "missing_rate")  # Rates that the command line knows, besides metrics.

IN_ALL = ("answer_correctness", "answer_relevance", "retrieval_answer", "retrieval_context")
"""Metrics that ``metrics: all`` turns on, if their models are configured."""

GRAPH_SUFFIXES = (".ttl", ".nt", ".nq", ".trig", ".rdf", ".jsonld", ".n3")
"""Suffixes of the files that `execute.graph` may name."""

Problem = Callable[[str, str], Any]

_PREFIX = re.compile(r"(?:[^\W\d_][\w.\-]{0,63})?")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^<>\"{}|^`\\\x00-\x20]*")

_PLACEHOLDER = re.compile(r"(?<![{$])\{([A-Za-z_]\w{0,63})\}(?!\})", re.ASCII)

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
    source = os.fsdecode(config) if isinstance(config, str | os.PathLike) else None
    return check_config(config if source is None else read_config(source), source, judge=judge)


def check_config(given: Any, source: str | None, *, judge: bool = False) -> Config:
    """Do what `load_config` does, with what was read from the file `source`."""
    reader = Reader()
    if isinstance(given, Mapping):
        for name in METRICS:
            if name in given and given[name] is None:
                reader.problem(name, "expected a mapping, got nothing; {} turns it on")
        if given.get("answer_match", "") is None:
            reader.problem("answer_match", "expected a way to match, such as exact, got nothing")
    try:
        checked = reader.section(Config, given)
    except RecursionError:
        reader.problem("", "nests too deeply, or contains itself")
    if reader.problems and isinstance(given, Mapping):
        _check_others(given, reader, judge=judge)
    _stop_at(reader.problems, source)
    effective = _effective(checked, judge=judge)
    _check_values(checked, reader.problem)
    if not judge:
        _check_needs(effective, reader.problem)
    _stop_at(reader.problems, source)
    if checked.metrics and not effective.metrics and not effective.custom_evaluations:
        what = "every metric that it names is off, and others are on only if it names them"
        warn_caller(f"configuration: {what}; `metrics: all` turns the others on")
    return effective


def _check_others(given: Mapping[Any, Any], reader: Reader, *, judge: bool) -> None:
    """Report invalid values of the sections that could be read."""
    unread = {
        name for name in given if any(key.startswith(join("", name)) for key in reader.problems)
    }
    unread |= {"primary"} if "custom_evaluations" in unread else set()  # which it may name
    others = {name: value for name, value in given.items() if name not in unread}
    if "" not in reader.problems and (read := Reader().section(Config, others)) is not None:
        _check_values(read, reader.problem)
        if not judge and "llm" not in unread:
            _check_needs(_effective(read, judge=judge), reader.problem)


def _stop_at(problems: Mapping[str, str], source: str | None) -> None:
    if problems:
        raise ConfigError(
            [f"{key}: {what}" if key else what for key, what in problems.items()], source
        )


def load_part(path: str, key: str) -> Config:
    """One key of a configuration file, so that no variable with a judge's key is needed, and no
    metric.
    """
    given, reader = read_config(path), Reader()
    if isinstance(given, Mapping):
        given = {key: given[key]} if key in given else {}
    part: Config = reader.section(Config, given)
    _stop_at(reader.problems, path)
    return part


def read_config(source: str) -> Any:
    """Read a configuration file; raises `ConfigError` if it cannot be read."""
    # YAML takes long to import
    from graphrag_eval_async.records.yaml_file import (
        UnreadableFile,
        read_file,
    )

    try:
        return read_file(source)
    except UnreadableFile as error:
        raise ConfigError([str(error)], source) from None


def _effective(config: Config, *, judge: bool) -> Config:
    """The configuration with the metrics that are on by default, and without those that are off."""
    embeds = config.llm is not None and config.llm.embedding is not None
    if config.turned_on == "all":
        added = {name: METRICS[name]() for name in IN_ALL if embeds or name != "answer_relevance"}
        config = replace(config, turned_on=None, **(added | config.metrics))
    metrics = config.metrics
    if metrics or config.custom_evaluations:
        off = dict.fromkeys(name for name, section in metrics.items() if not section.enabled)
        llm = config.llm
        if llm is not None and not config.custom_evaluations and len(off) == len(metrics):
            llm = LLMConfig(limits=llm.limits) if config.custom_metrics else None
        return replace(config, llm=llm, **off)
    if not judge and (config.llm is None or config.llm.generation is None):
        return config
    relevance = AnswerRelevanceConfig() if embeds and not judge else None
    return replace(config, answer_correctness=AnswerCorrectnessConfig(), answer_relevance=relevance)


def _check_values(config: Config, problem: Problem) -> None:
    """Report values that are invalid whatever metrics are on."""
    if config.llm is not None:
        _check_llm(config.llm, problem)
    if config.execute is not None:
        _check_execute(config.execute, problem)
    metric = config.ragas_answer_correctness
    if metric is not None and not sum(metric.weights):
        problem("ragas_answer_correctness.weights", "expected a sum above 0")
    for key, section in config.judged.items():
        if len({*section.judges}) < len(section.judges):
            problem(f"{key}.judges", "names a judge twice")
    if config.answer_correctness is not None:
        prompt = config.answer_correctness.prompt or ""
        _check_placeholders("answer_correctness.prompt", prompt, CORRECTNESS_INPUTS, problem)
    how = config.answer_match
    if (
        isinstance(how, AnswerMatchConfig)
        and how.tolerance
        and not (how.match == "number" and how.tolerance < 1)
    ):
        problem(
            "answer_match.tolerance", "is for `match: number`, relative, and below 1; 0.05 is 5%"
        )
    _check_custom(config.custom_evaluations, problem)
    own = check_metrics(
        config, config.custom_metrics, lambda name, what: problem(f"custom_metrics.{name}", what)
    )
    outputs = [output for evaluation in config.custom_evaluations for output in evaluation.outputs]
    outputs += [output for each in own for output in each.outputs]
    known = [ERROR_RATE, *RESULT_METRICS, *RETRIEVAL_METRICS, *outputs]
    for index, name in enumerate(config.primary or ()):
        if (
            name not in known
            and not is_metric(name)
            and not any(metric.may_give(name) for metric in own)
        ):
            problem(f"primary[{index}]", f"{name!r} is no metric; {did_you_mean(name, known)}")


def _check_llm(llm: LLMConfig, problem: Problem) -> None:
    models: dict[str, ModelConfig | None] = {
        "llm.generation": llm.generation,
        "llm.embedding": llm.embedding,
    }
    models |= {join("llm.judges", name): judge for name, judge in llm.judges.items()}
    for key, model in models.items():
        if (
            model is not None
            and model.base_url is not None
            and (wrong := wrong_with_url(model.base_url))
        ):
            problem(f"{key}.base_url", wrong)
        for parameter in OF_THE_REQUEST:
            if model is not None and parameter in model.parameters:
                problem(
                    f"{key}.parameters.{parameter}", "may not be given: each request has its own"
                )
    if GENERATION in llm.judges:
        problem(
            f"llm.judges.{GENERATION}", "expected another name: this one stands for llm.generation"
        )


def _check_execute(execute: ExecuteConfig, problem: Problem) -> None:
    if (execute.endpoint is None) == (execute.graph is None):
        problem("execute", "expected either endpoint or graph")
    if execute.endpoint is not None and (wrong := wrong_with_url(execute.endpoint)):
        problem(
            "execute.endpoint",
            wrong.replace("a key belongs in api_key", "a key belongs in headers"),
        )
    if execute.graph is not None:
        _check_graph(execute, execute.graph, problem)
    if (execute.username is None) != (execute.password is None):
        problem("execute", "expected username and password, or neither")
    for prefix, iri in execute.prefixes.items():
        if not _PREFIX.fullmatch(prefix) or not _IRI.fullmatch(iri):
            key = join("execute.prefixes", prefix)
            problem(key, "expected a prefix without its colon, and an absolute IRI")


def _check_graph(execute: ExecuteConfig, path: str, problem: Problem) -> None:
    if os.path.splitext(path)[1].lower() not in GRAPH_SUFFIXES:
        problem("execute.graph", f"expected a file that ends in {', '.join(GRAPH_SUFFIXES)}")
    elif not os.path.isfile(path):
        problem("execute.graph", "there is no such file")
    for name in ("headers", "username", "password", "allow_from", "allow_service"):
        if getattr(execute, name):
            problem(f"execute.{name}", "is for an endpoint, not for a graph")


def _check_placeholders(key: str, prompt: str, inputs: Sequence[str], problem: Problem) -> None:
    for name in dict.fromkeys(_PLACEHOLDER.findall(prompt)):
        if name not in inputs:
            problem(key, f"{{{name}}} is none of its inputs, which are {', '.join(inputs)}")


def _check_custom(
    evaluations: Sequence[CustomEvaluationConfig], problem: Problem
) -> dict[str, str]:
    """Report placeholders that name nothing, and keys that a result would have twice; return all
    keys.
    """
    owners = dict.fromkeys(RESULT_KEYS, "a key of results") | dict.fromkeys(
        GATES, "the name of a gate"
    )
    for index, evaluation in enumerate(evaluations):
        section, name = f"custom_evaluations[{index}]", evaluation.name
        _check_placeholders(
            f"{section}.instructions", evaluation.instructions, evaluation.inputs, problem
        )
        for selection in ("steps_name", "steps_keys"):
            has_steps = {"reference_steps", "actual_steps"} & {*evaluation.inputs}
            if getattr(evaluation, selection) is not None and not has_steps:
                what = "selects steps: inputs needs actual_steps or reference_steps"
                problem(f"{section}.{selection}", what)
        if name in METRICS:
            problem(f"{section}.name", f"{name!r} is the name of a built-in metric")
        places = {
            f"{name}{suffix}": f"{section}.name" for suffix in ("_error", COST, BY, DISAGREEMENT)
        }
        for output in evaluation.outputs:
            place = join(f"{section}.outputs", output)
            if output.endswith(COST):
                problem(place, f"ends in {COST}, as only costs do")
            elif output in places:
                problem(place, f"{output!r} is already a key of {section}")
            places.setdefault(output, place)
        for key, place in places.items():
            if key in owners:
                problem(place, f"{key!r} is already {owners[key]}")
            owners[key] = f"a key of {section}"
    return owners | dict.fromkeys(METRICS, "the name of a built-in metric")


def check_metrics(config: Config, given: Mapping[Any, Any], problem: Problem) -> list[CodeMetric]:
    """The metrics in code that are `given` as functions or paths by name; reports those that are
    invalid.
    """
    owners, found = _check_custom(config.custom_evaluations, lambda *_: None), []
    for name, function in given.items():
        try:
            found.append(own := find_metric(name, function))
            for key in dict.fromkeys((name, *own.outputs, f"{name}_error")):
                if key in owners:
                    raise ValueError(f"{key!r} is already {owners[key]}")
                owners[key] = f"a key of the metric {name}"
        except ValueError as error:
            problem(name, str(error))
    return found


def code_metrics(config: Config | None) -> list[CodeMetric]:
    """The metrics in code of a checked configuration."""
    return [
        find_metric(name, path) for name, path in (config.custom_metrics if config else {}).items()
    ]


def _check_needs(config: Config, problem: Problem) -> None:
    """Report the models that are missing for the metrics that are on."""
    known = {} if config.llm is None else config.llm.judges
    for key, section in config.judged.items():
        models = [GENERATION] if GENERATION in section.judges else []
        models += ["embedding"] if key in config.embedding_metrics else []
        if lacking := [
            f"llm.{model}" for model in models if getattr(config.llm, model, None) is None
        ]:
            problem(key, f"needs {' and '.join(lacking)}")
        for index, name in enumerate(section.judges):
            if name != GENERATION and name not in known:
                hint = did_you_mean(name, [*known, GENERATION])
                problem(f"{key}.judges[{index}]", f"{name!r} is none of llm.judges; {hint}")


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
    """Why a text cannot be a base URL, without quoting it; None if it can."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none
        has_place = False
    if not (
        has_place and parts.scheme in {"http", "https"} and text.isprintable() and " " not in text
    ):
        return "expected a URL that begins with http:// or https://"
    # Transports log them, and paths are appended.
    if "@" in parts.netloc or "?" in text or "#" in text:
        return "may hold no user, password, query or fragment; a key belongs in api_key"
    return None
