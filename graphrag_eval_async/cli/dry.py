"""``evaluate --dry-run``: what a run would take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.judges import forget_keys, judge_config, judge_of
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import LISTED_REJECTS, list_rejects, tell_error
from graphrag_eval_async.cli.text import dollars, one_line, tell
from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS, DryJudge
from graphrag_eval_async.records.metrics import COST, RESULT_KEYS
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import RunOptions
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import Message, TokenUsage


def estimate(options: RunOptions, responses: str, interrupts: Interrupts) -> Exit:
    """Print what a run would take.

    Raises:
        UsageError: the options do not go together.
        ConfigError: the configuration is wrong, or needs a package that is not installed.
        ReferenceDataError: the reference set is wrong.
    """
    config = judge_config(options.config, options.llm, options.embedding, prepare=forget_keys)
    judge = _CountingJudge() if judge_of(config) is not None else None
    source = read_jsonl(responses)
    stream = evaluate_stream(
        load_reference(options.reference),
        source,
        config=config if judge is None else _unlimited(config),
        judge=judge,
        steps_groups=options.steps_groups,
        max_in_flight=options.max_in_flight,
        max_line_bytes=options.max_line_bytes,
    )
    with progress(source) as advance:
        ending = run_to_end(_read(stream, advance), interrupts)
    rejected = stream.rejects.counts
    list_rejects(rejected, [f"{responses}: {reject}" for reject in stream.rejects[:LISTED_REJECTS]])
    tell(sys.stdout, "\n".join(_lines(stream, config, judge)))
    tell_error(ending)
    return ending.code(rejects=bool(rejected))


class _CountingJudge(DryJudge):
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.completions = 0
        self.embeddings = 0

    async def complete(
        self, messages: Sequence[Message], schema: Mapping[str, Any]
    ) -> tuple[Any, TokenUsage]:
        """As `DryJudge` does."""
        self.completions += 1
        return await super().complete(messages, schema)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], TokenUsage]:
        """As `DryJudge` does."""
        self.embeddings += 1
        return await super().embed(texts)


def _unlimited(config: Config | None) -> Config:
    """The configuration without what keeps calls from being made."""
    assert config is not None and config.llm is not None  # noqa: PT018, S101  (there is a metric)
    return replace(config, llm=replace(config.llm, limits=LimitsConfig(), cache=None))


async def _read(stream: EvaluationStream, advance: Callable[[], None]) -> None:
    async with stream:
        async for _ in stream:
            advance()


def _lines(stream: EvaluationStream, config: Config | None, judge: _CountingJudge | None) -> Iterator[str]:
    micro, usage = stream.aggregates.snapshot()["micro"], stream.usage
    responses = micro["number_of_error_samples"] + micro["number_of_success_samples"]
    if config is None or config.llm is None or judge is None:
        yield f"evaluating these {responses} responses would take no calls: no metric is judged"
        return
    cache = config.llm.cache
    most = "" if cache is None else f" at most (what is in the cache {one_line(cache)} costs nothing), and"
    yield f"evaluating these {responses} responses would take,{most} if no call has to be repeated:"
    yield f"  {judge.completions} completions of {judge_of(config)}"
    yield f"    input: about {usage.input_tokens} tokens"
    yield f"    output: {usage.output_tokens} tokens, if each has {ASSUMED_OUTPUT_TOKENS}"
    if config.llm.embedding is not None:
        yield f"  {judge.embeddings} embeddings of {one_line(config.llm.embedding.model)}"
        yield f"    input: about {usage.embedding_tokens} tokens"
    yield f"  cost: {'' if usage.dollars is None else 'about '}{dollars(usage.dollars)}"
    for key in _cost_keys(config):
        if key in micro:
            yield f"    {key.removesuffix(COST)}: {dollars(micro[key]['sum'])}"


def _cost_keys(config: Config) -> list[str]:
    """The keys of the costs of metrics, but for those of F1 scores, which are sums of others."""
    keys = sorted(key for key in RESULT_KEYS if key.endswith(COST) and not key.endswith(f"_f1{COST}"))
    return [*keys, *(f"{evaluation.name}{COST}" for evaluation in config.custom_evaluations)]
