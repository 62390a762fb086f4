"""``evaluate --dry-run``: what a run would take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from graphrag_eval_async.cli.exits import run_to_end
from graphrag_eval_async.cli.judges import forget_keys, is_counted_cost, judge_config, judge_of
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.text import dollars, one_line, tell
from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS, DryJudge
from graphrag_eval_async.records.metrics import COST
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sources import read_jsonl
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphrag_eval_async.cli.exits import Exit, Interrupts
    from graphrag_eval_async.cli.run import RunOptions
    from graphrag_eval_async.config import Config


def estimate(options: RunOptions, responses: str, interrupts: Interrupts) -> Exit:
    """Print what a run would take."""
    config = judge_config(options.config, options.llm, options.embedding, prepare=forget_keys)
    unlimited = config
    if config is not None and config.llm is not None:  # Neither limits nor a cache hold up calls.
        unlimited = replace(config, llm=replace(config.llm, limits=LimitsConfig(), cache=None))
    source = read_jsonl(responses)
    stream = evaluate_stream(
        load_reference(options.reference),
        source,
        config=unlimited,
        judge=DryJudge() if judge_of(config) is not None else None,
        steps_groups=options.steps_groups,
        max_in_flight=options.max_in_flight,
        max_line_bytes=options.max_line_bytes,
    )
    with progress(source) as advance:
        ending = run_to_end(_read(stream, advance), interrupts)
    list_rejects(stream.rejects)
    tell(sys.stdout, "\n".join(_lines(stream, config)))
    return end(ending, stream.rejects)


async def _read(stream: EvaluationStream, advance: Callable[[], None]) -> None:
    async with stream:
        async for _ in stream:
            advance()


def _lines(stream: EvaluationStream, config: Config | None) -> Iterator[str]:
    micro, usage, model = stream.aggregates.snapshot()["micro"], stream.usage, judge_of(config)
    responses = micro["number_of_error_samples"] + micro["number_of_success_samples"]
    if config is None or config.llm is None or model is None:
        yield f"evaluating these {responses} responses would take no calls: no metric is judged"
        return
    cache = config.llm.cache
    most = "" if cache is None else f" at most (what is in the cache {one_line(cache)} costs nothing), and"
    completions = usage.output_tokens // ASSUMED_OUTPUT_TOKENS
    yield f"evaluating these {responses} responses would take,{most} if no call has to be repeated:"
    yield f"  {completions} completions of {model}"
    yield f"    input: about {usage.input_tokens} tokens"
    yield f"    output: {usage.output_tokens} tokens, if each has {ASSUMED_OUTPUT_TOKENS}"
    if config.llm.embedding is not None:
        yield f"  {usage.attempts - completions} embeddings of {one_line(config.llm.embedding.model)}"
        yield f"    input: about {usage.embedding_tokens} tokens"
    yield f"  cost: {'' if usage.dollars is None else 'about '}{dollars(usage.dollars)}"
    for key in filter(is_counted_cost, micro):
        yield f"    {key.removesuffix(COST)}: {dollars(micro[key]['sum'])}"
