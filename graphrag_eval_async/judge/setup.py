"""The judges of a stream as they are configured, checked as far as possible without a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.catalogue.sections import GENERATION
from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.config.secrecy import as_written
from graphrag_eval_async.errors import UsageError, in_utf8
from graphrag_eval_async.judge.cache import check_cache
from graphrag_eval_async.judge.clients import (
    check_client,
    check_connections,
    is_client,
    warn_of_retries,
)
from graphrag_eval_async.judge.dialect import DEFAULT_MAX_TOKENS
from graphrag_eval_async.judge.openai_judge import OpenAIJudge
from graphrag_eval_async.judge.prices import check_budget

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
    """JSON that identifies it in cache keys, for "complete" and "embed"."""
    fingerprint: Mapping[str, Any]
    """The same for results and journals: without values of the environment."""
    judge: Judge | None = None
    """The user's judge, used instead of the model; it is not closed."""
    client: Any = None
    """The user's client, which sends the requests; it is not closed."""
    prepare: Callable[[], None] = lambda: None
    """Imports what metrics need, in a thread."""

    @property
    def given_client(self) -> Any:
        """The client that the user gives, alone or in a judge; None without one."""
        return self.judge.client if isinstance(self.judge, OpenAIJudge) else self.client


def set_up_judges(
    llm: LLMConfig, judges: Mapping[str, object], prepare: Callable[[], None], *, embeds: bool
) -> list[JudgeSetup]:
    """Return the judges of a configuration; warn once of each client that retries requests itself.

    Args:
        llm: the models and the limits.
        judges: what the user gives for each name of a judge: a judge, a client, or None.
        prepare: imports what metrics need.
        embeds: whether a metric needs embeddings, which come from the first judge.

    Raises:
        ConfigError: a judge cannot be called.
        UsageError: one that the user gives is no judge.
    """
    setups: list[JudgeSetup] = []
    for name, judge in judges.items():
        is_first = not setups
        setups.append(set_up_judge(llm, name, judge, prepare, embeds=embeds and is_first))
    clients = {id(setup.given_client): setup.given_client for setup in setups}
    for client in clients.values():
        warn_of_retries(client)
    return setups


def set_up_judge(
    llm: LLMConfig, name: str, judge: object, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return one judge of a configuration.

    Args:
        llm: the models and the limits.
        name: the name of the judge in the configuration.
        judge: a judge or a client of the user, in place of the model or of our client; or None.
        prepare: imports what metrics need.
        embeds: whether a metric needs embeddings.

    Raises:
        ConfigError: the judge cannot be called.
        UsageError: `judge` is no judge.
    """
    check_budget(llm, name, embeds=embeds)
    if llm.cache is not None:
        check_cache(llm.cache)
    is_on_sdk = isinstance(judge, OpenAIJudge) or is_client(judge)
    if judge is not None and not is_on_sdk:
        return _set_up_own_judge(llm, name, judge, prepare, embeds=embeds)

    own_judge = client = None
    if isinstance(judge, OpenAIJudge):
        own_judge = judge
    elif judge is not None:
        check_client(judge)
        client = judge
    else:
        check_connections(llm, name)
    generation = llm.model(name)
    return JudgeSetup(
        llm=llm,
        name=name,
        model="" if generation is None else str(generation.model),
        identities=_identities(llm, name, show=str),
        fingerprint=_identities(llm, name, show=as_written),
        judge=own_judge,
        client=client,
        prepare=prepare,
    )


def _set_up_own_judge(
    llm: LLMConfig, name: str, judge: Any, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return a judge of a class of the user's."""
    for method in ("complete", "embed") if embeds else ("complete",):
        if not callable(getattr(judge, method, None)):
            raise UsageError(
                f"judge: expected an object with a method {method}, a client such as "
                f'AsyncOpenAI(), or a model such as "openai/gpt-4o-mini", got {judge!r}'
            )
    kind = type(judge)
    model = in_utf8(str(getattr(judge, "model", kind.__name__)))
    identity = [kind.__module__, kind.__qualname__, model]
    if name != GENERATION:
        identity.append(name)
    identities = {"complete": identity, "embed": identity}
    return JudgeSetup(
        llm=llm,
        name=name,
        model=model,
        identities=identities,
        fingerprint=identities,
        judge=judge,
        prepare=prepare,
    )


def _identities(llm: LLMConfig, name: str, show: Callable[[str], str]) -> dict[str, Any]:
    """Return what replies depend on, for "complete" and "embed"; `show` writes text from the
    environment.
    """
    complete = _identity(llm.model(name), show)
    if name != GENERATION:
        # Judges of a panel may differ in nothing but their server, or be asked twice for a second
        # opinion.
        complete = [name, complete]
    return {"complete": complete, "embed": _identity(llm.embedding, show)}


def _identity(model: GenerationConfig | EmbeddingConfig | None, show: Callable[[str], str]) -> Any:
    """Return what the replies of a model depend on, but for its server."""
    if model is None:
        return {}
    settings = msgspec.to_builtins(model, enc_hook=show)
    identity = {name: settings[name] for name in REPLY_SETTINGS if name in settings}
    identity["model"] = str(model.model)  # Results show it, too.
    if isinstance(model, GenerationConfig):
        identity.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    return identity
