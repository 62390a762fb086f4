"""From a file, a mapping or a `Config` to a `Config` that is right."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import inspect
from msgspec.structs import replace

from graphrag_eval_async.config.checks import check_needs, check_values
from graphrag_eval_async.config.model import (
    METRICS,
    AnswerCorrectnessConfig,
    AnswerRelevanceConfig,
    Config,
    LLMConfig,
)
from graphrag_eval_async.config.reading import Reader
from graphrag_eval_async.errors import ConfigError


def load_config(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config, *, judge: bool = False
) -> Config:
    """A configuration that has been checked, and that says what runs: metrics that are off are None in it.

    Where all are off, so is the judge: `llm` is None, too. Loading what was loaded changes nothing, unless a
    judge of the user's then takes part.

    Args:
        config: a path to YAML, or to JSON where the suffix is ``.json``; a mapping laid out so; a `Config`.
            ``${NAME}`` in a string under `llm` stands for what the environment variable holds.
        judge: whether the user brings a judge, which takes the place of the models in `llm`.

    Raises:
        ConfigError: it cannot be read, or cannot be right; every problem is listed with its key.
    """
    source = os.fsdecode(config) if isinstance(config, str | os.PathLike) else None
    given = config if source is None else _read(source)
    reader = Reader()
    if isinstance(given, Mapping):
        for name in METRICS:
            if name in given and given[name] is None:
                reader.problem(name, "expected a mapping, got nothing; {} turns it on")
    checked = reader.read(_layout(), given, "")
    check_values(checked, reader.problem)
    effective = _effective(checked, judge=judge)
    if not judge and not reader.problems.keys() & {"llm", "llm.generation", "llm.embedding"}:
        check_needs(effective, reader.problem)
    if reader.problems:
        problems = [f"{key}: {what}" if key else what for key, what in reader.problems.items()]
        raise ConfigError(problems, source)
    return effective


def config_for(llm: str, embedding: str | None = None) -> Config:
    """The configuration of the models of a command line, such as ``openai/gpt-4o-mini``.

    Args:
        llm: the provider and, after the first slash, the model that judges.
        embedding: the same of the model of embeddings.

    Raises:
        ConfigError: one of them is not laid out like that, or lacks what its provider needs.
    """
    problems = []
    models = {}
    for option, section, text in [("--llm", "generation", llm), ("--embedding", "embedding", embedding)]:
        if text is None:
            continue
        provider, _, model = text.partition("/")
        if provider in {"openai", "azure"} and model:
            models[section] = {"provider": provider, "model": model}
        else:
            problems.append(f'{option}: expected "openai/" or "azure/" and a model, got {text!r}')
    if problems:
        raise ConfigError(problems)
    return load_config({"llm": models})


def _read(source: str) -> Any:
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file  # YAML takes long to import

    try:
        return read_file(source)
    except UnreadableFile as error:
        raise ConfigError([str(error)], source) from None


@cache
def _layout() -> inspect.Type:
    return inspect.type_info(Config)


def _effective(config: Config, *, judge: bool) -> Config:
    """The configuration with the metrics that are on by default, and without those that are off."""
    metrics = {name: section for name in METRICS if (section := getattr(config, name)) is not None}
    if not metrics and not config.custom_evaluations:
        return _with_defaults(config, judge=judge)
    off = [name for name, section in metrics.items() if not section.enabled]
    if len(off) == len(metrics) and not config.custom_evaluations:
        return replace(config, llm=None, **dict.fromkeys(off))
    return replace(config, **dict.fromkeys(off))


def _with_defaults(config: Config, *, judge: bool) -> Config:
    llm = config.llm or LLMConfig()
    if not judge and llm.generation is None:
        return config
    relevance = AnswerRelevanceConfig() if llm.embedding and not judge else None
    return replace(config, answer_correctness=AnswerCorrectnessConfig(), answer_relevance=relevance)
