"""Which judge a command line asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.config import config_for, load_config
from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import Config


class Models(NamedTuple):
    """What the options say, each None where it is not given."""

    path: str | None = None
    llm: str | None = None
    embedding: str | None = None

    def config(self, prepare: Callable[[Any], None] | None = None) -> Config | None:
        """The configuration; None where none is asked for.

        Args:
            prepare: changes what was read from the file before it is checked.

        Raises:
            UsageError: the options do not go together.
            ConfigError: it cannot be right.
        """
        if self.path is not None and self.llm is not None:
            raise UsageError("--llm does not go with --config, which names the models")
        if self.embedding is not None and self.llm is None:
            raise UsageError("--embedding needs --llm; a model of --config stands in its llm.embedding")
        if self.llm is not None:
            return config_for(self.llm, self.embedding)
        if self.path is None:
            return None
        given = _read(self.path)
        if prepare is not None:
            prepare(given)
        try:
            return load_config(given)
        except ConfigError as error:
            raise ConfigError(error.problems, self.path) from None

    def config_without_keys(self) -> Config | None:
        """The same, whatever API keys it gives, and whether or not the variables that hold them are set.

        Raises:
            UsageError: as for `config`.
            ConfigError: as for `config`.
        """
        return self.config(_forget_keys)

    def config_of_answer_correctness(self) -> Config:
        """The same, but answer correctness is on, by default where it is not configured, and nothing else.

        Raises:
            UsageError: as for `config`, or there is none.
            ConfigError: as for `config`.
        """
        config = self.config(_keep_answer_correctness)
        if config is None:
            raise UsageError("which LLM is to judge? Give --config FILE or --llm PROVIDER/MODEL")
        return config


def _read(path: str) -> Any:
    from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file

    try:
        given = read_file(path)
    except UnreadableFile as error:
        raise ConfigError([str(error)], path) from None
    if isinstance(given, str):  # `load_config` would take it for a path.
        raise ConfigError(["expected a mapping, got a string"], path)
    return given


def _forget_keys(given: Any) -> None:
    llm = given.get("llm") if isinstance(given, dict) else None
    for model in llm.values() if isinstance(llm, dict) else ():
        if isinstance(model, dict) and isinstance(model.get("api_key"), str):
            del model["api_key"]


def _keep_answer_correctness(given: Any) -> None:
    if not isinstance(given, dict):
        return
    for name in (*METRICS, "custom_evaluations"):
        if name != "answer_correctness":
            given.pop(name, None)
    if isinstance(llm := given.get("llm"), dict):
        llm.pop("embedding", None)
    section = given.setdefault("answer_correctness", {})
    if isinstance(section, dict) and section.get("enabled") is False:
        section["enabled"] = True
