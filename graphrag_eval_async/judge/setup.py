"""The judges of a stream as they are configured, checked as far as possible without a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.config.secrecy import as_written
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.judge.cache import check_cache
from graphrag_eval_async.judge.clients import (
    check_client,
    check_connections,
    is_client,
    warn_of_retries,
)
from graphrag_eval_async.judge.dialect import DEFAULT_MAX_TOKENS, DEFAULT_TEMPERATURE
from graphrag_eval_async.judge.openai_judge import OpenAIJudge
from graphrag_eval_async.judge.prices import check_budget
from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.config import EmbeddingConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Judge

REPLY_SETTINGS = ("provider", "model", "temperature", "max_tokens", "parameters")
"""Settings that affect a model's replies. Their order is part of the hash `judge.prompts`."""


class JudgeSetup(NamedTuple):
    """A judge of a configuration, and the limits on its calls."""

    llm: LLMConfig
    name: str
    """Its name in the configuration."""
    model: str
    """Its name in results."""
    identities: Mapping[str, Any]
    """JSON that identifies its models in cache keys, for the methods "complete" and "embed"."""
    fingerprint: Mapping[str, Any]
    """The same for results and journals, without values of the environment."""
    judge: Judge | None = None
    """The user's judge, used instead of the model; it is not closed."""
    client: Any = None
    """The user's client, which sends the requests; it is not closed."""
    prepare: Callable[[], None] = lambda: None
    """Imports what metrics need, in a thread."""

    @property
    def user_client(self) -> Any:
        """The client that the user gives, alone or in an `OpenAIJudge`; None if there is none."""
        if isinstance(self.judge, OpenAIJudge):
            return self.judge.client
        return self.client


def set_up_judges(
    llm: LLMConfig, judges: Mapping[str, object], prepare: Callable[[], None], *, embeds: bool
) -> list[JudgeSetup]:
    """Return the judges of a configuration, and warn of clients that repeat requests themselves.

    There is one warning for each client, however many judges share the client.

    Args:
        llm: the models and the limits.
        judges: what the user gives for each judge, by its name: a judge, a client, the name of a
            model, or None for the configured model.
        prepare: imports what metrics need.
        embeds: whether a metric needs embeddings, which come from the first judge.

    Raises:
        ConfigError: a judge cannot be called.
        UsageError: a value of `judges` is nothing that can judge.
    """
    setups: list[JudgeSetup] = []
    for name, judge in judges.items():
        is_first = not setups
        setups.append(set_up_judge(llm, name, judge, prepare, embeds=embeds and is_first))

    # Several judges may share a client. The keys are ids, since a client may not be hashable.
    clients_by_id = {}
    for setup in setups:
        client = setup.user_client
        if client is not None:
            clients_by_id[id(client)] = client
    for client in clients_by_id.values():
        warn_of_retries(client)
    return setups


def set_up_judge(
    llm: LLMConfig, name: str, judge: object, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return one judge of a configuration.

    Args:
        llm: the models and the limits.
        name: the name of the judge in the configuration.
        judge: what the user gives: a judge, a client, the name of a model that `llm` then has, or
            None for the configured model.
        prepare: imports what metrics need.
        embeds: whether a metric needs embeddings.

    Raises:
        ConfigError: the judge cannot be called.
        UsageError: `judge` is nothing that can judge.
    """
    check_budget(llm, name, embeds=embeds)
    if llm.cache is not None:
        check_cache(llm.cache)

    openai_judge = None
    client = None
    if judge is None or isinstance(judge, str):
        check_connections(llm, name, is_given_by_name=judge is not None)
    elif isinstance(judge, OpenAIJudge):
        openai_judge = judge
    elif is_client(judge):
        check_client(judge)
        client = judge
    else:
        check_methods(judge, embeds=embeds)
        return _set_up_own_judge(llm, name, judge, prepare)

    # The judge is on a model whose settings stand in `llm`.
    model = ""
    generation = llm.model(name)
    if generation is not None:
        model = str(generation.model)
    return JudgeSetup(
        llm=llm,
        name=name,
        model=model,
        identities=_identities(llm, name, show=str),
        fingerprint=_identities(llm, name, show=as_written),
        judge=openai_judge,
        client=client,
        prepare=prepare,
    )


def check_methods(judge: object, *, embeds: bool) -> None:
    """Check that an object has the method `complete` and, if `embeds`, the method `embed`.

    Raises:
        UsageError: one of these methods is missing.
    """
    methods = ["complete"]
    if embeds:
        methods.append("embed")
    for method in methods:
        if not callable(getattr(judge, method, None)):
            raise UsageError(
                f"judge: expected an object with a method {method}, a client such as "
                f'AsyncOpenAI(), or a model such as "openai/gpt-4o-mini", got {judge!r}'
            )


def _set_up_own_judge(
    llm: LLMConfig, name: str, judge: Any, prepare: Callable[[], None]
) -> JudgeSetup:
    """Return the setup of a judge whose class is the user's own.

    The cache distinguishes such judges by their class, by their attribute `model`, and by their
    name in the configuration.
    """
    kind = type(judge)
    model = in_utf8(str(getattr(judge, "model", kind.__name__)))
    identity = [kind.__module__, kind.__qualname__, model]
    if name != GENERATION:
        # Two judges of one class may give different replies, or be meant for a second opinion.
        identity.append(name)
    identity_by_method = {"complete": identity, "embed": identity}
    return JudgeSetup(
        llm=llm,
        name=name,
        model=model,
        identities=identity_by_method,
        # No part of the identity is from the environment, so none is secret.
        fingerprint=identity_by_method,
        judge=judge,
        prepare=prepare,
    )


def _identities(llm: LLMConfig, name: str, show: Callable[[str], str]) -> dict[str, Any]:
    """Return JSON that identifies the models of a judge, for the methods "complete" and "embed".

    Args:
        llm: the models.
        name: the name of the judge.
        show: converts a text that may be from the environment: `str` gives its value, and
            `as_written` the reference to the variable.
    """
    completing = _identity(llm.model(name), show)
    if name != GENERATION:
        # Two judges of a metric may have equal models on different servers, or be the same model
        # asked for a second opinion. Their replies must not be shared by the cache.
        completing = [name, completing]
    return {"complete": completing, "embed": _identity(llm.embedding, show)}


def _identity(model: GenerationConfig | EmbeddingConfig | None, show: Callable[[str], str]) -> Any:
    """Return the settings that affect a model's replies, which excludes the server's address.

    Args:
        model: the section of the configuration; None gives no settings.
        show: converts a text that may be from the environment.
    """
    if model is None:
        return {}
    settings = msgspec.to_builtins(model, enc_hook=show)
    identity = {name: settings[name] for name in REPLY_SETTINGS if name in settings}
    identity["parameters"] = _normalize_numbers(identity["parameters"])
    # Results show the name of the model, too, so that it is no secret.
    identity["model"] = str(model.model)
    if isinstance(model, GenerationConfig):
        # A default has the same effect whether or not the user writes it. So the default
        # temperature is always left out, and the default limit of tokens always included.
        if identity.get("temperature") == DEFAULT_TEMPERATURE:
            del identity["temperature"]
        max_tokens = identity.get("max_tokens", DEFAULT_MAX_TOKENS)
        if max_tokens == DEFAULT_MAX_TOKENS:
            # The hash `judge.prompts` depends on the order, in which a default comes last.
            identity.pop("max_tokens", None)
            identity["max_tokens"] = DEFAULT_MAX_TOKENS
    return identity


def _normalize_numbers(value: Any) -> Any:
    """Return JSON in which whole numbers are integers, since servers take 1.0 for 1."""
    if isinstance(value, dict):
        return {name: _normalize_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
