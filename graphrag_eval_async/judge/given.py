"""The judges that users give in code, in place of configured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import Config, LLMConfig
from graphrag_eval_async.config.load import check_config, parse_model, read_config, wrong_with_url
from graphrag_eval_async.config.reading import members_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.judge.clients import address_of, is_client, provider_of
from graphrag_eval_async.judge.openai_judge import OpenAIJudge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.config import RagasMetricConfig

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
        if isinstance(self.judge, Mapping):
            if name not in self.judge:
                raise UsageError(f"judge: none is named {name!r}, which the configuration uses")
            judge = self.judge[name]
        elif isinstance(self.judge, OpenAIJudge) and name != GENERATION:
            return None
        else:
            judge = self.judge
        if isinstance(judge, str):
            return None
        return judge

    def find_all(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the judges and clients for the judges of the configuration."""
        return {name: self.find(name) for name in names}

    @property
    def by_name(self) -> Mapping[str, object]:
        """The judges by the names of those that they replace; one for all stands for the first."""
        if isinstance(self.judge, Mapping):
            return self.judge
        return {GENERATION: self.judge}

    @property
    def has_own(self) -> bool:
        """Whether a judge is of a class of the user's, so that its model is not known."""
        return any(judge is not None and not _configures(judge) for judge in self.by_name.values())

    def load_config(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any] | Config,
        ragas: Mapping[str, RagasMetricConfig],
    ) -> Config:
        """Return a checked configuration with the models of these judges.

        Args:
            config: a path, a mapping or a `Config`.
            ragas: metrics of ragas that the caller gives, by name.

        Raises:
            ConfigError: it cannot be read, or is invalid.
        """
        source = None
        values: Any = config
        if isinstance(config, str | os.PathLike):
            source = os.fsdecode(config)
            values = read_config(source)
        if isinstance(values, Mapping | Config):
            values = self._configure(values)
        return check_config(values, source, judge=self.has_own, ragas=ragas)

    def _configure(self, values: Mapping[str, Any] | Config) -> Mapping[str, Any] | Config:
        """Return a configuration, not checked, with the models of these judges."""
        on_sdk = {name: judge for name, judge in self.by_name.items() if _configures(judge)}
        if isinstance(values, Config):
            llm: Any = values.llm
        else:
            llm = values.get("llm")
        if not on_sdk or not isinstance(llm, Mapping | LLMConfig | None):
            return values  # If `llm` is something else, checking it says so.

        models = Models(llm or {})
        for name, judge in on_sdk.items():
            if isinstance(judge, str):
                models.put(name, parse_model(judge, "judge"))
            elif isinstance(judge, OpenAIJudge):
                models.put_judge(name, judge)
            else:
                models.put_client(name, judge)
        if is_client(self.judge):
            models.put_client_everywhere(self.judge)

        if isinstance(values, Config):
            return structs.replace(values, llm=models.sections)
        return {**values, "llm": models.sections}


def _configures(judge: object) -> bool:
    """Whether a judge stands for models of the configuration."""
    return isinstance(judge, OpenAIJudge | str) or is_client(judge)


class Models:
    """The models of the section `llm` of a configuration, not checked yet.

    Attributes:
        sections: the members of `llm`, by key.
    """

    def __init__(self, llm: Mapping[str, Any] | LLMConfig) -> None:
        """Read the section; it is not changed."""
        self.sections = members_of(llm)

    def put(self, name: str, section: dict[str, Any]) -> None:
        """Configure the model of a judge."""
        if name == GENERATION:
            self.sections[GENERATION] = section
        else:
            judges = members_of(self.sections.get("judges") or {})
            self.sections["judges"] = {**judges, name: section}

    def put_judge(self, name: str, judge: OpenAIJudge) -> None:
        """Configure the models of a judge in code."""
        connection = _connection_settings(judge.client)
        self.put(name, {**connection, "model": judge.model, **judge.settings})
        if name == GENERATION and judge.embedding_model is not None:
            embedding = {**connection, "model": judge.embedding_model}
            self.sections[EMBEDDING] = {**embedding, **judge.embedding_settings}

    def put_client(self, name: str, client: Any) -> None:
        """Have a client send the requests of the model of a judge.

        Raises:
            UsageError: no model is configured for the judge.
        """
        if name == GENERATION:
            key = f"llm.{GENERATION}"
            section = self.sections.get(GENERATION)
        else:
            key = f"llm.judges.{name}"
            section = members_of(self.sections.get("judges") or {}).get(name)
        if not section:
            raise UsageError(
                "judge: a client needs the name of a model: give OpenAIJudge(client, model=...), "
                f"or {key}.model in the configuration"
            )
        self.put(name, {**members_of(section), **_connection_settings(client)})

    def put_client_everywhere(self, client: Any) -> None:
        """Have a client send the requests of the other judges, and of the embedding model, too."""
        for name in members_of(self.sections.get("judges") or {}):
            self.put_client(name, client)
        embedding = self.sections.get(EMBEDDING)
        if embedding:
            connection = _connection_settings(client)
            self.sections[EMBEDDING] = {**members_of(embedding), **connection}


def _connection_settings(client: Any) -> dict[str, Any]:
    """Return the settings of a model that say where a client sends its requests."""
    settings: dict[str, Any] = {"provider": provider_of(client)}
    address = address_of(client)
    if wrong_with_url(address) is None:
        settings["base_url"] = address
    return settings
