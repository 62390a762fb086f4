"""The judges that users give in code, in place of configured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.config import Config
from graphrag_eval_async.config.llm import GENERATION
from graphrag_eval_async.config.load import check_config, parse_model, read_config, wrong_with_url
from graphrag_eval_async.config.reading import members_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.judge.clients import address_of, is_client, provider_of
from graphrag_eval_async.judge.openai_judge import OpenAIJudge

if TYPE_CHECKING:
    from collections.abc import Sequence

EMBEDDING = "embedding"


class GivenJudges(NamedTuple):
    """The judges of the argument `judge`.

    A judge on the package openai configures the same as the sections of `llm` with its settings, so
    that keys in the cache, prices, names and hashes are the same however it is given.
    """

    judge: object
    """A judge, a client, or the name of a model; for all judges of the configuration, or a mapping
    with one for each name.
    """

    def find(self, name: str) -> object:
        """Return the judge or the client for a judge of the configuration; None for its own model.

        Raises:
            UsageError: judges were given by name, and none has this one.
        """
        judge = self.judge
        if isinstance(judge, Mapping):
            if name not in judge:
                raise UsageError(f"judge: none is named {name!r}, which the configuration uses")
            judge = judge[name]
        elif isinstance(judge, OpenAIJudge) and name != GENERATION:
            return None
        return None if isinstance(judge, str) else judge

    def find_all(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the judges and clients for the judges of the configuration."""
        return {name: self.find(name) for name in names}

    @property
    def has_own(self) -> bool:
        """Whether a judge is of a class of the user's, so that its model is not known."""
        judges = self.judge.values() if isinstance(self.judge, Mapping) else [self.judge]
        return any(not _is_on_sdk(judge) for judge in judges)

    def load_config(self, config: str | os.PathLike[str] | Mapping[str, Any] | Config) -> Config:
        """Return a checked configuration with the models of these judges.

        Raises:
            ConfigError: it cannot be read, or is invalid.
        """
        source = os.fsdecode(config) if isinstance(config, str | os.PathLike) else None
        values: Any = config if source is None else read_config(source)
        if isinstance(values, Mapping | Config):
            values = self._configure(values)
        return check_config(values, source, judge=self.has_own)

    def _configure(self, values: Mapping[str, Any] | Config) -> Mapping[str, Any] | Config:
        """Return a configuration, not checked, with the models of these judges."""
        members = members_of(values)
        llm = members.get("llm")
        if not isinstance(llm, Mapping | type(None)) and not hasattr(llm, "__struct_fields__"):
            return values  # Checking it says what is wrong.
        models = members_of(llm or {})
        judges = {GENERATION: self.judge} if not isinstance(self.judge, Mapping) else self.judge
        for name, judge in judges.items():
            if isinstance(judge, OpenAIJudge):
                _put_models(models, name, judge)
            elif isinstance(judge, str):
                _put_generation(models, name, parse_model(judge, "judge"))
        if is_client(self.judge):
            _put_client(models, self.judge)
        elif isinstance(self.judge, Mapping):
            for name, judge in self.judge.items():
                if is_client(judge):
                    _put_client_of(models, name, judge)
        if not models:
            return values
        return {**members, "llm": models}


def _is_on_sdk(judge: object) -> bool:
    """Whether a judge is on the package openai, or is none."""
    return judge is None or isinstance(judge, OpenAIJudge | str) or is_client(judge)


def _put_models(models: dict[str, Any], name: str, judge: OpenAIJudge) -> None:
    """Put the models of a judge into the section `llm`."""
    connection = _connection_settings(judge.client)
    _put_generation(models, name, {**connection, "model": judge.model, **judge.settings})
    if name == GENERATION and judge.embedding_model is not None:
        model = {"model": judge.embedding_model}
        models[EMBEDDING] = {**connection, **model, **judge.embedding_settings}


def _put_generation(models: dict[str, Any], name: str, section: dict[str, Any]) -> None:
    """Put the section of a judge's model into the section `llm`."""
    if name == GENERATION:
        models[GENERATION] = section
    else:
        models["judges"] = {**members_of(models.get("judges") or {}), name: section}


def _put_client(models: dict[str, Any], client: Any) -> None:
    """Have a client send the requests of all models of the section `llm`."""
    if not models.get(GENERATION):
        raise UsageError(
            "judge: a client needs the name of a model: give OpenAIJudge(client, model=...), or "
            "llm.generation.model in the configuration"
        )
    for name in (GENERATION, EMBEDDING):
        if models.get(name):
            models[name] = {**members_of(models[name]), **_connection_settings(client)}
    for name in models.get("judges") or ():
        _put_client_of(models, name, client)


def _put_client_of(models: dict[str, Any], name: str, client: Any) -> None:
    """Have a client send the requests of one model of the section `llm`."""
    judges = members_of(models.get("judges") or {})
    section = models.get(GENERATION) if name == GENERATION else judges.get(name)
    if not section:
        where = f"llm.{GENERATION}" if name == GENERATION else f"llm.judges.{name}"
        raise UsageError(
            f"judge: the client {name!r} needs the name of a model: give OpenAIJudge(client, "
            f"model=...), or {where}.model in the configuration"
        )
    _put_generation(models, name, {**members_of(section), **_connection_settings(client)})


def _connection_settings(client: Any) -> dict[str, Any]:
    """Return the settings of a model that say where a client sends its requests."""
    settings: dict[str, Any] = {"provider": provider_of(client)}
    address = address_of(client)
    if wrong_with_url(address) is None:
        settings["base_url"] = address
    return settings
