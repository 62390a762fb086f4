"""Reads the judge options of a command line, and describes what judging took or would take."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from msgspec import structs

from graphrag_eval_async.catalogue.judged import JUDGED, JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import COST, is_counted_cost
from graphrag_eval_async.config import LimitsConfig
from graphrag_eval_async.config.load import check_config, parse_model, read_config
from graphrag_eval_async.config.model import judge_of
from graphrag_eval_async.errors import GraphragEvalError, JudgeUnavailable, UsageError
from graphrag_eval_async.records.snapshots import counts_of
from graphrag_eval_async.text import counts, dollars, one_line, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.stream import EvaluationStream


def judge_config(
    path: str | None, llm: str | None, *, prepare: Callable[[Any], object] = lambda _: None
) -> Config | None:
    """Return the configuration from `--config` or `--llm`; None if neither is given.

    `prepare` changes what was read from the file before it is checked.
    """
    if path is not None and llm is not None:
        raise UsageError("--llm cannot be combined with --config, which names the models")
    if path is not None:
        given = read_config(path)
        prepare(given)
        return check_config(given, path)
    if llm is None:
        return None
    return check_config({"llm": {"generation": parse_model(llm, "--llm")}}, None)


def without_keys(given: Any) -> None:
    """Remove API keys and the address of shared limits, so that the variables in them need not
    be set.
    """
    llm = given.get("llm") if isinstance(given, dict) else None
    if not isinstance(llm, dict):
        return
    if isinstance(limits := llm.get("limits"), dict):
        limits.pop("shared", None)
    judges = llm.get("judges")
    for model in [*llm.values(), *(judges.values() if isinstance(judges, dict) else ())]:
        if isinstance(model, dict) and isinstance(model.get("api_key"), str):
            del model["api_key"]


def unlimited(config: Config | None) -> Config | None:
    """Return the configuration without limits and cache, which would hold up calls, and metrics
    in code.
    """
    if config is None:
        return config
    llm = config.llm and structs.replace(config.llm, limits=LimitsConfig(), cache=None)
    return structs.replace(config, llm=llm, custom_metrics={}, primary=None)


def keep_answer_correctness(given: Any) -> None:
    """Turn answer correctness on, and every other metric off."""
    if not isinstance(given, dict):
        return
    for name in (*JUDGED_BY_NAME, "custom_evaluations", "ragas", "custom_metrics"):
        if name != "answer_correctness":
            given.pop(name, None)
    if isinstance(llm := given.get("llm"), dict):
        llm.pop("embedding", None)
    section = given.setdefault("answer_correctness", {})
    if isinstance(section, dict) and section.get("enabled") is False:
        section["enabled"] = True


def load_for(config: Config | None) -> None:
    """Import what the judge of a run needs, and keep these hundreds of thousands of objects from
    the garbage
    collector: each full collection would stop the run for a quarter of a second.
    """
    if judge_of(config) is not None and config is not None:
        from graphrag_eval_async.judge.clients import import_openai
        from graphrag_eval_async.metrics.judging import loader

        loader(config)()
        import_openai()
        gc.collect()
        gc.freeze()


def never_judged(
    config: Config, metrics: Collection[str], failed: Collection[str]
) -> dict[str, str]:
    """Return the judged metrics that have no value, and why.

    Args:
        config: the configuration.
        metrics: the metrics that have values.
        failed: the metrics that lack some.
    """
    with_values = _with_values(config, metrics)
    tried = _with_values(config, failed)
    reasons = {}
    for name, need in _needs(config).items():
        if name in with_values:
            continue
        if name in tried:
            reasons[name] = "failed for each result"
        else:
            reasons[name] = f"needs {need}, which no result has"
    return reasons


def _needs(config: Config) -> dict[str, str]:
    """Return what results must have for each judged metric, in words."""
    needs = {metric.name: metric.needs for metric in JUDGED if metric.name in config.metrics}
    for evaluation in config.custom_evaluations:
        needs[evaluation.name] = ", ".join(evaluation.inputs).replace("_", " ")
    if config.ragas:
        # The evaluation has imported ragas already.
        from graphrag_eval_async.metrics.ragas_lookup import make_ragas_metric

        for name, section in config.ragas_metrics.items():
            needs[name] = ", ".join(make_ragas_metric(name, section).needs)
    return needs


def _with_values(config: Config, metrics: Collection[str]) -> list[str]:
    """Return the judged metrics that have values."""
    keys = {name: JUDGED_BY_NAME[name].values for name in config.metrics}
    for evaluation in config.custom_evaluations:
        keys[evaluation.name] = tuple(evaluation.outputs)
    for name in config.ragas:
        keys[name] = (name,)
    return [name for name, values in keys.items() if not set(values).isdisjoint(metrics)]


def nothing_judged(
    config: Config, usage: JudgeUsage, metrics: Collection[str] = (), failed: Collection[str] = ()
) -> GraphragEvalError | None:
    """Return the error if no judged metric has a value, also restored; for the names, see
    `never_judged`.
    """
    if usage.outcomes["ok"] or _with_values(config, metrics):
        return None
    number = sum(usage.errors.values())
    if not number:
        text = "; ".join(
            f"{name} {why}" for name, why in never_judged(config, metrics, failed).items()
        )
        is_none = text and usage.outcomes["skipped"]
        return GraphragEvalError(f"nothing was judged: {text}") if is_none else None
    from graphrag_eval_async.judge.sender import ADVICE, advice

    kind, message = next(iter(usage.examples.items()))
    count = "the only metric" if number == 1 else f"all {number} metrics"
    first = "" if number == 1 else ", the first"
    check = (
        f"; {advice(kind, 'llm.generation')}"
        if kind in ADVICE and "; check " not in message
        else ""
    )
    return JudgeUnavailable(f"{count} to judge failed{first}: {kind}: {message}{check}")


def judging(model: str, usage: JudgeUsage) -> list[str]:
    """Return a few lines about what the judge did."""
    about = "about " if usage.unmetered and usage.spent is not None else ""
    shared = f", {usage.shared_calls} shared" if usage.shared_calls else ""
    failed = sum(usage.errors.values())
    why = f" ({counts(usage.errors)})" if failed else ""
    metrics = (
        f"{usage.outcomes['ok']} ok, {usage.outcomes['skipped']} skipped, "
        f"{plural(failed, 'error')}{why}"
    )
    repaired = f", {usage.repaired} replies repaired" if usage.repaired else ""
    calls = (
        f"{usage.calls} calls, {usage.attempts} attempts, {usage.cache_hits} "
        f"cached{shared}{repaired}"
    )
    before = f", {dollars(usage.restored_dollars)} of it before" if usage.restored_dollars else ""
    estimated = ""
    if usage.timed_out_dollars and usage.spent is not None:
        estimated = (
            f", {dollars(usage.timed_out_dollars)} of it estimated for requests without a reply"
        )
    return [
        f"judge {one_line(model)}: {calls}, {about}{dollars(usage.spent)}{before}{estimated}",
        (
            f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, "
            f"{usage.embedding_tokens} embedded"
        ),
        f"metrics: {metrics}" + (f"; retries: {counts(usage.retries)}" if usage.retries else ""),
        *(one_line(f"first {kind}: {message}") for kind, message in usage.examples.items()),
    ]


def estimates(stream: EvaluationStream, config: Config | None) -> Iterator[str]:
    """Yield lines about the calls, tokens and dollars of a stream that `DryJudge` judged."""
    micro, usage, model = stream.aggregates.snapshot()["micro"], stream.usage, judge_of(config)
    responses, _ = counts_of(micro)
    evaluating = (
        f"evaluating {'this response' if responses == 1 else f'these {responses} responses'}"
    )
    if config is None or config.llm is None or model is None:
        yield f"{evaluating} would take no calls: no metric is judged"
        return
    from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS

    most = (
        " at most (what the cache has costs nothing), and" if config.llm.cache is not None else ""
    )
    completions = usage.output_tokens // ASSUMED_OUTPUT_TOKENS
    yield f"{evaluating} would take,{most} if no call has to be repeated:"
    yield f"  {completions} completions of {model}"
    yield f"    input: about {usage.input_tokens} tokens"
    yield f"    output: {usage.output_tokens} tokens, if each has {ASSUMED_OUTPUT_TOKENS}"
    if config.llm.embedding is not None:
        yield (
            f"  {usage.attempts - completions} embeddings of {one_line(config.llm.embedding.model)}"
        )
        yield f"    input: about {usage.embedding_tokens} tokens"
    yield f"  cost: {'' if usage.dollars is None else 'about '}{dollars(usage.dollars)}"
    for key in filter(is_counted_cost, micro):
        yield f"    {key.removesuffix(COST)}: {dollars(micro[key]['sum'])}"
    budget = config.llm.limits.budget_usd
    if budget is not None and usage.dollars is not None and budget < usage.dollars:
        number = int(responses * budget / usage.dollars)
        yield f"  budget_usd {budget:g} is enough for about {number} of these {responses} responses"
