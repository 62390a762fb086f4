"""The judges that users give in code, in place of configured ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import Config, EmbeddingConfig, GenerationConfig, LLMConfig
from graphrag_eval_async.config.load import (
    KEYS_OF_REQUESTS,
    check_config,
    parse_model,
    read_config,
    wrong_with_url,
)
from graphrag_eval_async.config.reading import Reader, values_by_key
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
    """The judges that the user gives by the argument `judge`.

    Their settings are written into the section `llm` of the configuration. So cache keys, prices,
    names and hashes are the same whether a model is configured or given in code.
    """

    judge: object
    """A judge, a client, or the name of a model, for all judges of the configuration; or a mapping
    with such a value for each judge, by its name.
    """

    def find(self, name: str) -> object:
        """Return what the user gives for the judge `name` of the configuration.

        The result is a judge, a client or the name of a model; None if the configured model is to
        be called.

        Raises:
            UsageError: the user gives judges by name, but none with this name.
        """
        if isinstance(self.judge, Mapping):
            if name not in self.judge:
                raise UsageError(f"judge: none is named {name!r}, which the configuration uses")
            return self.judge[name]
        # Without a mapping, an `OpenAIJudge` or the name of a model replaces the first judge alone.
        is_model = isinstance(self.judge, OpenAIJudge | str)
        if is_model and name != GENERATION:
            return None
        return self.judge

    def find_all(self, names: Sequence[str], llm: LLMConfig) -> dict[str, Any]:
        """Return the judges and clients for the judges of the configuration, by name.

        Args:
            names: the names of the judges.
            llm: their models, with those of these judges.
        """
        judges = {}
        for name in names:
            judge = self.find(name)
            if judge is None or isinstance(judge, str):
                # The model is called by the client of the first judge, or by one of our own.
                client = self._find_client(llm.model(name), llm.generation)
                if client is not None:
                    judge = client
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
        """What the user gives for each judge, by name; a single value is for the first judge."""
        if isinstance(self.judge, Mapping):
            return self.judge
        return {GENERATION: self.judge}

    @property
    def has_own(self) -> bool:
        """Whether any judge is an object of the user's own class, so that its model is unknown."""
        for judge in self.by_name.values():
            if judge is not None and not _names_a_model(judge):
                return True
        return False

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
            ConfigError: the configuration cannot be read, or is invalid.
        """
        path = None
        values: Any = config
        if isinstance(config, str | os.PathLike):
            path = os.fsdecode(config)
            values = read_config(path)
        if isinstance(values, Mapping | Config):
            values = self._add_models(values)
        return check_config(
            values, path, judge=self.has_own, ragas=ragas, alternatives=self.alternatives
        )

    @property
    def alternatives(self) -> dict[str, str]:
        """What the user can write in code instead of configuring a model, by the model's section.

        For example, "OpenAIJudge.embedding_model" can stand for the section "llm.embedding".
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
            values: the configuration, not checked yet. If `llm` has a wrong type, nothing is
                added; the later check of the configuration reports this.
        """
        judges = {name: judge for name, judge in self.by_name.items() if _names_a_model(judge)}
        if isinstance(values, Config):
            llm: Any = values.llm
        else:
            llm = values.get("llm")
        is_section = isinstance(llm, Mapping | LLMConfig | None)
        if not judges or not is_section:
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
            # A single client sends the requests of all models.
            models.put_client_everywhere(self.judge)

        if isinstance(values, Config):
            return structs.replace(values, llm=models.sections)
        return {**values, "llm": models.sections}


def _names_a_model(judge: object) -> bool:
    """Return whether a value is an `OpenAIJudge`, a client, or the name of a model.

    Otherwise, it is an object of the user's own class, or None.
    """
    return isinstance(judge, OpenAIJudge | str) or is_client(judge)


class Models:
    """The models of the section `llm` of a configuration, not checked yet.

    Attributes:
        sections: the members of `llm`, by key.
    """

    def __init__(self, llm: Mapping[str, Any] | LLMConfig) -> None:
        """Copy the members of the section, which is not changed."""
        self.sections = values_by_key(llm)

    def _other_judges(self) -> dict[str, Any]:
        """Return the sections of `llm.judges`: those of all judges but the first, by name."""
        return values_by_key(self.sections.get("judges") or {})

    def put(self, name: str, section: dict[str, Any]) -> None:
        """Replace the section of a judge's model, or add the section if there is none.

        Args:
            name: the name of the judge.
            section: the settings of the model.
        """
        # The section of the first judge is `llm.generation`, and that of another one is
        # `llm.judges.<name>`.
        if name == GENERATION:
            self.sections[GENERATION] = section
        else:
            self.sections["judges"] = {**self._other_judges(), name: section}

    def put_judge(self, name: str, judge: OpenAIJudge) -> None:
        """Replace the section of a judge's model by the settings of an `OpenAIJudge`.

        If the judge is the first, its embedding model also replaces that of the configuration.

        Args:
            name: the name of the judge in the configuration.
            judge: the judge that the user gives.

        Raises:
            UsageError: a setting of `judge` is not valid.
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
        """Set the provider and address of a judge's configured model to those of the user's client.

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
        self.put(name, {**values_by_key(section), **_connection_settings(client)})

    def put_client_everywhere(self, client: Any) -> None:
        """Set the provider and address of all models but the first judge's to those of a client.

        These are the models of the other judges, and the embedding model.
        """
        for name in self._other_judges():
            self.put_client(name, client)
        embedding = self.sections.get(EMBEDDING)
        if embedding:
            settings = values_by_key(embedding)
            self.sections[EMBEDDING] = {**settings, **_connection_settings(client)}


def check_settings(
    kind: type[ModelConfig], section: Mapping[str, Any], names: SettingNames
) -> None:
    """Check the settings of an `OpenAIJudge` in the same way as those of a configuration.

    Args:
        kind: the class of the configuration's section that has the same settings.
        section: the settings, by their names in this section.
        names: what the error calls the settings.

    Raises:
        UsageError: a setting is not valid. The error is about the first such setting.
    """
    reader = Reader()
    # The reader does not quote texts at this key in errors, since they may be secrets.
    reader.read_section(kind, section, key="llm.generation")
    for parameter in KEYS_OF_REQUESTS:
        if parameter in section["parameters"]:
            problem = "may not be given: each request has its own"
            reader.report(f"llm.generation.parameters.{parameter}", problem)

    for key, problem in reader.problems.items():
        # The first problem is raised, in the words of the user's call.
        setting = key.removeprefix("llm.generation.")
        if setting == "model":
            raise UsageError(f"{names.model}: {problem}")
        # `OpenAIJudge` takes parameters as arguments, beside the other settings.
        argument = names.parameter(setting.removeprefix("parameters."))
        raise UsageError(f"{argument}: {problem}")


def _connection_settings(client: Any) -> dict[str, Any]:
    """Return the settings `provider` and `base_url` that a configuration would have for a client.

    The address is left out if a configuration may not have it, such as one with a query.
    """
    settings: dict[str, Any] = {"provider": provider_of(client)}
    address = address_of(client)
    is_valid = wrong_with_url(address) is None
    if is_valid:
        settings["base_url"] = address
    return settings
