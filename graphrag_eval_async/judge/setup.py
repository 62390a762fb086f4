"""The judges of a configuration, checked as far as possible without a call."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.config.llm import GENERATION
from graphrag_eval_async.errors import ConfigError, UsageError, in_utf8
from graphrag_eval_async.judge.cache import check_cache
from graphrag_eval_async.judge.endpoint import INSTALL, endpoint_of
from graphrag_eval_async.judge.pricing import check_budget
from graphrag_eval_async.judge.server import MAX_TOKENS
from graphrag_eval_async.judge.shared_limits import check_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphrag_eval_async.config import EmbeddingConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Judge

CONNECTION = ("base_url", "api_key", "api_version", "extra_headers", "pricing")
"""Settings that do not affect a model's replies."""


class JudgeSetup(NamedTuple):
    """How to open a judge, and the limits on its calls.

    Attributes:
        llm: limits, prices and the cache.
        name: the judge's name in the configuration.
        model: the judge's name in results.
        identities: JSON that identifies the judge in cache keys, for "complete" and "embed".
        own: the caller's own judge, if there is one.
        prepare: imports what the metrics need; called in a thread, before the first call.
    """

    llm: LLMConfig
    name: str
    model: str
    identities: Mapping[str, Any]
    own: Judge | None = None
    prepare: Callable[[], None] = lambda: None


def judge_setup(
    llm: LLMConfig, name: str, judge: Judge | None, prepare: Callable[[], None], *, embeds: bool
) -> JudgeSetup:
    """Return the setup of one judge of a configuration, checked as far as possible without a call.

    Args:
        llm: models, limits and prices.
        name: the judge's name in the configuration.
        judge: the caller's own judge, used instead of the model; it is not closed.
        prepare: called in a thread before the first call.
        embeds: whether a metric needs embeddings.

    Raises:
        UsageError: the judge lacks a method.
        ConfigError: a package, a key, or the price that a budget needs is missing; or the cache file is not
            usable.
    """
    check_budget(llm, name, embeds=embeds)
    check_shared(llm)
    if llm.cache is not None:
        check_cache(llm.cache)
    if judge is None:
        check(llm, name)
        generation = llm.model(name)
        model = "" if generation is None else str(generation.model)
        # Judges of a panel may differ in nothing but their server, or be asked twice for a second opinion.
        own = _identity(generation) if name == "generation" else [name, _identity(generation)]
        identities = {"complete": own, "embed": _identity(llm.embedding)}
    else:
        for method in ("complete", "embed") if embeds else ("complete",):
            if not callable(getattr(judge, method, None)):
                raise UsageError(f"judge: expected an object with a method {method}, got {judge!r}")
        model = in_utf8(str(getattr(judge, "model", type(judge).__name__)))
        own = [type(judge).__module__, type(judge).__qualname__, model]
        own += [] if name == "generation" else [name]
        identities = {"complete": own, "embed": own}
    return JudgeSetup(llm, name, model, identities, judge, prepare)


def check(llm: LLMConfig, name: str = GENERATION) -> None:
    """Check that the judge `name` can be called, as far as possible without a request."""
    if find_spec("openai") is None:
        raise ConfigError([f"llm: needs the package openai: {INSTALL}"])
    models = [(llm.key(name), llm.model(name)), ("llm.embedding", llm.embedding)]
    problems = [endpoint_of(llm, model).problems(key) for key, model in models if model is not None]
    if found := [problem for each in problems for problem in each]:
        raise ConfigError(found)


def _identity(model: GenerationConfig | EmbeddingConfig | None) -> Any:
    fields = {} if model is None else msgspec.to_builtins(model, enc_hook=str)
    if isinstance(model, GenerationConfig):
        fields.setdefault("max_tokens", MAX_TOKENS)
    return {name: value for name, value in fields.items() if name not in CONNECTION}
