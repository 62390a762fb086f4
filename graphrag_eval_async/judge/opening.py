"""From a configuration, or a judge of the caller's own, to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.judge import openai_client
from graphrag_eval_async.judge.cache import check_cache
from graphrag_eval_async.judge.pricing import check_budget, prices_of
from graphrag_eval_async.judge.session import JudgeSession

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphrag_eval_async.config import EmbeddingConfig, GenerationConfig, LLMConfig
    from graphrag_eval_async.judge.protocol import Judge

CONNECTION = ("base_url", "api_key", "api_version")
"""What does not change how a model replies."""


class Opening:
    """How the judge of a configuration is opened.

    Attributes:
        model: the name that results give the judge.
        identities: JSON that tells replies of this judge from those of others, for each kind of call.
    """

    def __init__(
        self, llm: LLMConfig, judge: Judge | None, prepare: Callable[[], None], *, embeds: bool
    ) -> None:
        """Check what can be checked without a call.

        Args:
            llm: the models, limits and prices.
            judge: the caller's own, in place of the models.
            prepare: called in a thread before the first call.
            embeds: whether a metric has texts embedded.

        Raises:
            UsageError: the judge lacks a method.
            ConfigError: a package is missing, a key, or the price that a budget needs; or the file of the
                cache cannot be one.
        """
        check_budget(llm, embeds=embeds)
        if llm.cache is not None:
            check_cache(llm.cache)
        if judge is None:
            openai_client.check(llm)
        for method in ("complete", "embed") if embeds else ("complete",):
            if judge is not None and not callable(getattr(judge, method, None)):
                raise UsageError(f"judge: expected an object with a method {method}, got {judge!r}")
        self._llm = llm
        self._judge = judge
        self._prepare = prepare
        self.model: str = _model(llm, judge)
        self.identities = _identities(llm, judge)

    def session(self) -> JudgeSession:
        """A judge that is opened with the first call and, unless it is the caller's, closed at the end."""
        return JudgeSession(
            self._open,
            close=openai_client.OpenAIJudge.aclose if self._judge is None else None,
            identities=self.identities,
            limits=self._llm.limits,
            prices=prices_of(self._llm),
            cache=self._llm.cache,
        )

    def _open(self) -> Judge:
        self._prepare()
        return openai_client.open_judge(self._llm) if self._judge is None else self._judge


def _model(llm: LLMConfig, judge: Judge | None) -> str:
    if judge is not None:
        return str(getattr(judge, "model", type(judge).__name__))
    return "" if llm.generation is None else str(llm.generation.model)


def _identities(llm: LLMConfig, judge: Judge | None) -> dict[str, Any]:
    """What tells replies of this judge from those of others, for each kind of call."""
    if judge is not None:
        own = [type(judge).__module__, type(judge).__qualname__, _model(llm, judge)]
        return {"complete": own, "embed": own}
    return {"complete": _identity(llm.generation), "embed": _identity(llm.embedding)}


def _identity(model: GenerationConfig | EmbeddingConfig | None) -> Any:
    fields = {} if model is None else msgspec.to_builtins(model, enc_hook=str)
    return {name: value for name, value in fields.items() if name not in CONNECTION}
