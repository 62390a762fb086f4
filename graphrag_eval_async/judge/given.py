"""The judges that users give in code, in place of configured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import Config, EmbeddingConfig, GenerationConfig, LLMConfig
from graphrag_eval_async.config.load import (
    OF_THE_REQUEST,
    check_config,
    parse_model,
    read_config,
    wrong_with_url,
)
from graphrag_eval_async.config.reading import Reader, members_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.judge.clients import address_of, is_client, provider_of, share_server
from graphrag_eval_async.judge.openai_judge import OpenAIJudge
from graphrag_eval_async.judge.setting_names import OF_JUDGE, OF_JUDGE_EMBEDDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.config import RagasMetricConfig
    from graphrag_eval_async.config.llm import ModelConfig
    from graphrag_eval_async.judge.setting_names import SettingNames

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
        """Return the judge or client that the user gives for a judge of the configuration.

        The result is None if the configured model is to be called: the user gives only the name of
        a model, or an `OpenAIJudge`, which stands for the first judge alone.

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
        if isinstance(judge, str):
            return None
        return judge

    def find_all(self, names: Sequence[str], llm: LLMConfig) -> dict[str, Any]:
        """Return the judges and clients for the judges of the configuration, by name.

        Args:
            names: the names of the judges.
            llm: their models, with those of these judges.
        """
        judges = {}
        for name in names:
            judge = self.find(name)
            if judge is None:
                judge = self._find_client(llm.model(name), llm.generation)
            judges[name] = judge
        return judges

    def _find_client(
        self, model: GenerationConfig | None, generation: GenerationConfig | None
    ) -> Any:
        """Return the client of the first judge if a configured model is at its server, else None.

        A client of our own would send the key of the environment to the user's server.
        """
        if model is None or generation is None or not share_server(model, generation):
            return None
        first_judge = self.by_name.get(GENERATION)
        if isinstance(first_judge, OpenAIJudge):
            return first_judge.client
        if is_client(first_judge):
            return first_judge
        return None

    @property
    def by_name(self) -> Mapping[str, object]:
        """The judges by the names of those that they replace; one for all stands for the first."""
        if isinstance(self.judge, Mapping):
            return self.judge
        return {GENERATION: self.judge}

    @property
    def has_own(self) -> bool:
        """Whether a judge is of a class of the user's, so that its model is not known."""
        return any(
            judge is not None and not _names_a_model(judge) for judge in self.by_name.values()
        )

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
        path = None
        values: Any = config
        if isinstance(config, str | os.PathLike):
            path = os.fsdecode(config)
            values = read_config(path)
        if isinstance(values, Mapping | Config):
            values = self._add_models(values)
        return check_config(
            values, path, judge=self.has_own, ragas=ragas, alternatives=self._alternatives
        )

    @property
    def _alternatives(self) -> dict[str, str]:
        """What the user can give in code in place of a model of the configuration.

        The keys are those of the models, such as "llm.embedding".
        """
        alternatives = {}
        if isinstance(self.judge, Mapping):
            alternatives["llm.generation"] = 'judge={"generation": ...}'
        if isinstance(self.by_name.get(GENERATION), OpenAIJudge):
            alternatives["llm.embedding"] = "OpenAIJudge.embedding_model"
        return alternatives

    def _add_models(self, values: Mapping[str, Any] | Config) -> Mapping[str, Any] | Config:
        """Return a configuration with the models of these judges in its section `llm`.

        Args:
            values: the configuration, not checked yet. If its `llm` is no section, nothing is
                added: checking it says so.
        """
        judges = {name: judge for name, judge in self.by_name.items() if _names_a_model(judge)}
        if isinstance(values, Config):
            llm: Any = values.llm
        else:
            llm = values.get("llm")
        if not judges or not isinstance(llm, Mapping | LLMConfig | None):
            return values

        models = Models(llm or {})
        for name, judge in judges.items():
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


def _names_a_model(judge: object) -> bool:
    """Return whether a judge stands for a model of `llm`, and is not of a class of the user's."""
    return isinstance(judge, OpenAIJudge | str) or is_client(judge)


class Models:
    """The models of the section `llm` of a configuration, not checked yet.

    Attributes:
        sections: the members of `llm`, by key.
    """

    def __init__(self, llm: Mapping[str, Any] | LLMConfig) -> None:
        """Read the section; it is not changed."""
        self.sections = members_of(llm)

    def _other_judges(self) -> dict[str, Any]:
        """Return the sections of `llm.judges`, by the names of the judges."""
        return members_of(self.sections.get("judges") or {})

    def put(self, name: str, section: dict[str, Any]) -> None:
        """Replace the section of a judge's model."""
        if name == GENERATION:
            self.sections[GENERATION] = section
        else:
            self.sections["judges"] = {**self._other_judges(), name: section}

    def put_judge(self, name: str, judge: OpenAIJudge) -> None:
        """Replace the section of a judge's model by the settings of an `OpenAIJudge`.

        If it is the first judge and has an embedding model, that is replaced, too.

        Raises:
            UsageError: a setting is not valid.
        """
        connection = _connection_settings(judge.client)
        if "parameters" in judge.settings["parameters"]:
            raise UsageError(
                "OpenAIJudge.parameters: each parameter is an argument of its own: write "
                "OpenAIJudge(client, model, **parameters)"
            )
        generation = {**connection, "model": judge.model, **judge.settings}
        check_settings(GenerationConfig, generation, OF_JUDGE)
        self.put(name, generation)
        if name == GENERATION and judge.embedding_model is not None:
            if not hasattr(judge.client, "embeddings"):
                client_name = type(judge.client).__name__
                raise UsageError(
                    f"OpenAIJudge.embedding_model: the client has no embeddings, got {client_name}"
                )
            embedding = {
                **connection,
                "model": judge.embedding_model,
                **judge.embedding_settings,
            }
            check_settings(EmbeddingConfig, embedding, OF_JUDGE_EMBEDDINGS)
            self.sections[EMBEDDING] = embedding

    def put_client(self, name: str, client: Any) -> None:
        """Set the provider and address of a judge's model to those of a client.

        Raises:
            UsageError: no model is configured for the judge.
        """
        if name == GENERATION:
            key = f"llm.{GENERATION}"
            section = self.sections.get(GENERATION)
        else:
            key = f"llm.judges.{name}"
            section = self._other_judges().get(name)
        if not section and name == EMBEDDING:
            raise UsageError(
                "judge: the embedding model is no judge: give "
                "OpenAIJudge(client, model=..., embedding_model=...), or llm.embedding in the "
                "configuration"
            )
        if not section:
            raise UsageError(
                "judge: a client needs the name of a model: give OpenAIJudge(client, model=...), "
                f"or {key}.model in the configuration"
            )
        self.put(name, {**members_of(section), **_connection_settings(client)})

    def put_client_everywhere(self, client: Any) -> None:
        """Set the provider and address of all further judges and of embeddings to a client's."""
        for name in self._other_judges():
            self.put_client(name, client)
        embedding = self.sections.get(EMBEDDING)
        if embedding:
            settings = members_of(embedding)
            self.sections[EMBEDDING] = {**settings, **_connection_settings(client)}


def check_settings(
    kind: type[ModelConfig], section: Mapping[str, Any], names: SettingNames
) -> None:
    """Check the settings of an `OpenAIJudge` as those of the configuration are checked.

    Args:
        kind: the class of the section that has the same settings.
        section: the settings, as that section has them.
        names: what to call the settings in the error.

    Raises:
        UsageError: a setting is not valid.
    """
    reader = Reader()
    # At this key, texts may be secrets, which errors do not quote.
    reader.section(kind, section, key="llm.generation")
    for parameter in OF_THE_REQUEST:
        if parameter in section["parameters"]:
            problem = "may not be given: each request has its own"
            reader.problem(f"llm.generation.parameters.{parameter}", problem)

    for key, problem in reader.problems.items():
        # The first problem is enough.
        setting = key.removeprefix("llm.generation.")
        if setting == "model":
            raise UsageError(f"{names.model}: {problem}")
        # The parameters are arguments beside the other settings.
        argument = names.parameter(setting.removeprefix("parameters."))
        raise UsageError(f"{argument}: {problem}")


def _connection_settings(client: Any) -> dict[str, Any]:
    """Return the provider and the address of a client, as a section of the configuration has them.

    An address that a section may not have, such as one with a query, is left out.
    """
    settings: dict[str, Any] = {"provider": provider_of(client)}
    address = address_of(client)
    is_valid = wrong_with_url(address) is None
    if is_valid:
        settings["base_url"] = address
    return settings
