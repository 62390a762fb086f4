"""What a dry run says that a run would take."""

from collections.abc import Iterator

from graphrag_eval_async.config import Config
from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.records.metrics import COST, counts_of, is_counted_cost
from graphrag_eval_async.stream import EvaluationStream
from graphrag_eval_async.text import dollars, one_line


def estimates(stream: EvaluationStream, config: Config | None) -> Iterator[str]:
    """Yield lines about the calls, tokens and dollars of a stream that `DryJudge` judged."""
    micro, usage, model = stream.aggregates.snapshot()["micro"], stream.usage, judge_of(config)
    responses, _ = counts_of(micro)
    evaluating = f"evaluating {'this response' if responses == 1 else f'these {responses} responses'}"
    if config is None or config.llm is None or model is None:
        yield f"{evaluating} would take no calls: no metric is judged"
        return
    cache = config.llm.cache
    # The repr has a path as the configuration has it, not what ${NAME} held.
    most = (
        "" if cache is None else f" at most (what is in the cache {one_line(repr(cache))} costs nothing), and"
    )
    completions = usage.output_tokens // ASSUMED_OUTPUT_TOKENS
    yield f"{evaluating} would take,{most} if no call has to be repeated:"
    yield f"  {completions} completions of {model}"
    yield f"    input: about {usage.input_tokens} tokens"
    yield f"    output: {usage.output_tokens} tokens, if each has {ASSUMED_OUTPUT_TOKENS}"
    if config.llm.embedding is not None:
        yield f"  {usage.attempts - completions} embeddings of {one_line(config.llm.embedding.model)}"
        yield f"    input: about {usage.embedding_tokens} tokens"
    yield f"  cost: {'' if usage.dollars is None else 'about '}{dollars(usage.dollars)}"
    for key in filter(is_counted_cost, micro):
        yield f"    {key.removesuffix(COST)}: {dollars(micro[key]['sum'])}"
