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
from graphrag_eval_async.helpers.text import counts, dollars, one_line, plural
from graphrag_eval_async.records.snapshots import counts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.judge import JudgeUsage
    from graphrag_eval_async.metrics.ragas_metric import RagasMetric
    from graphrag_eval_async.stream import EvaluationStream


def judge_config(
    path: str | None, llm: str | None, *, prepare: Callable[[Any], object] = lambda _: None
) -> Config | None:
    """Return the configuration from `--config` or `--llm`; None if neither is given.

    Args:
        path: the value of `--config`.
        llm: the value of `--llm`.
        prepare: changes what was read from the file before it is checked.
    """
    if path is not None and llm is not None:
        raise UsageError("--llm cannot be combined with --config, which names the models")
    if path is not None:
        values = read_config(path)
        prepare(values)
        return check_config(values, path)
    if llm is not None:
        return check_config({"llm": {"generation": parse_model(llm, "--llm")}}, None)
    return None


def remove_keys(values: Any) -> None:
    """Remove what a run without calls does not need from a configuration file that was read.

    These are API keys and the address of shared limits, which may name environment variables that
    are not set.

    Args:
        values: the content of the file, which is not checked yet. It is changed in place.
    """
    llm = values.get("llm") if isinstance(values, dict) else None
    if not isinstance(llm, dict):
        return
    limits = llm.get("limits")
    if isinstance(limits, dict):
        limits.pop("shared", None)
    judges = llm.get("judges")
    sections = [*llm.values()]
    if isinstance(judges, dict):
        sections += judges.values()
    for section in sections:
        if isinstance(section, dict) and isinstance(section.get("api_key"), str):
            del section["api_key"]


def config_for_estimate(config: Config | None) -> Config | None:
    """Return a configuration for a run that only estimates costs; None without one.

    It lacks limits and the cache, which would hold up or save calls, and metrics in code, which
    cost nothing.
    """
    if config is None:
        return None
    llm = config.llm
    if llm is not None:
        llm = structs.replace(llm, limits=LimitsConfig(), cache=None)
    return structs.replace(config, llm=llm, custom_metrics={}, primary=None)


def keep_answer_correctness(values: Any) -> None:
    """Turn answer correctness on, and every other metric off, in a configuration file.

    Args:
        values: the content of the file, which is not checked yet. It is changed in place.
    """
    if not isinstance(values, dict):
        return
    for name in (*JUDGED_BY_NAME, "custom_evaluations", "ragas", "custom_metrics"):
        if name != "answer_correctness":
            values.pop(name, None)
    llm = values.get("llm")
    if isinstance(llm, dict):
        llm.pop("embedding", None)
    section = values.setdefault("answer_correctness", {})
    if isinstance(section, dict) and section.get("enabled") is False:
        section["enabled"] = True


def import_judge_packages(config: Config | None) -> None:
    """Import the packages that the judge of a run needs; without a judge, do nothing.

    Their hundreds of thousands of objects are kept from the garbage collector, since each full
    collection would stop the run for a quarter of a second.
    """
    if config is None or judge_of(config) is None:
        return
    from graphrag_eval_async.judge.clients import import_openai
    from graphrag_eval_async.metrics.judging import loader

    import_packages = loader(config)
    import_packages()
    import_openai()
    gc.collect()
    gc.freeze()


def never_judged(
    config: Config, usage: JudgeUsage, metrics: Collection[str], failed: Collection[str]
) -> dict[str, str]:
    """Return the judged metrics that have no value, and why.

    Metrics whose values are all texts are left out: aggregates do not say whether there are some.

    Args:
        config: the configuration.
        usage: the usage of the judge.
        metrics: the metrics that have values.
        failed: the metrics that lack some values.
    """
    reasons = _why_without_values(config, usage, metrics, failed)
    texts = _metrics_of_texts(config)
    return {name: reason for name, reason in reasons.items() if name not in texts}


def _why_without_values(
    config: Config, usage: JudgeUsage, metrics: Collection[str], failed: Collection[str]
) -> dict[str, str]:
    """Return the judged metrics without a value, each with the reason.

    The arguments are those of `never_judged`.
    """
    metrics_with_values = _metrics_with_values(config, metrics)
    tried_metrics = _metrics_with_values(config, failed)
    reasons = {}
    for name, need in _needs(config).items():
        if name in metrics_with_values:
            continue
        if name in tried_metrics:
            reasons[name] = "failed for each result"
        elif name in usage.reasons_without_value:
            reason = usage.reasons_without_value[name]
            reasons[name] = one_line(f"gave no value, for the first result: {reason}")
        else:
            reasons[name] = f"needs {need}, which no result has"
    return reasons


def _needs(config: Config) -> dict[str, str]:
    """Return what results must have for each judged metric, in words."""
    needs = {metric.name: metric.needs for metric in JUDGED if metric.name in config.metrics}
    for evaluation in config.custom_evaluations:
        needs[evaluation.name] = ", ".join(evaluation.inputs).replace("_", " ")
    for name, metric in _ragas_metrics(config).items():
        needs[name] = ", ".join(metric.needs)
    return needs


def _metrics_of_texts(config: Config) -> set[str]:
    """Return the judged metrics whose values are all declared to be texts."""
    from graphrag_eval_async.metrics.custom import kinds_of_outputs

    names = {name for name, metric in _ragas_metrics(config).items() if metric.gives_text}
    for evaluation in config.custom_evaluations:
        texts = kinds_of_outputs([evaluation]).get("texts", [])
        if len(texts) == len(evaluation.outputs):
            names.add(evaluation.name)
    return names


def _ragas_metrics(config: Config) -> dict[str, RagasMetric]:
    """Return the metrics of ragas in a configuration, by name."""
    if not config.ragas:
        return {}
    # The evaluation has imported ragas already.
    from graphrag_eval_async.metrics.ragas_lookup import make_ragas_metrics

    return {metric.name: metric for metric in make_ragas_metrics(config.ragas_metrics)}


def _metrics_with_values(config: Config, metrics: Collection[str]) -> list[str]:
    """Return the judged metrics of a configuration that have values.

    Args:
        config: the configuration.
        metrics: the keys of results that have values. A judged metric may give several.
    """
    keys_by_metric = {name: JUDGED_BY_NAME[name].values for name in config.metrics}
    for evaluation in config.custom_evaluations:
        keys_by_metric[evaluation.name] = tuple(evaluation.outputs)
    for name in config.ragas:
        keys_by_metric[name] = (name,)
    return [name for name, keys in keys_by_metric.items() if not set(keys).isdisjoint(metrics)]


def nothing_judged(
    config: Config, usage: JudgeUsage, metrics: Collection[str] = (), failed: Collection[str] = ()
) -> GraphragEvalError | None:
    """Return the error of a run in which no judged metric has a value; None if one has a value.

    Args:
        config: the configuration.
        usage: the usage of the judge.
        metrics: the metrics that have values, with those of results from before.
        failed: the metrics that lack some values.
    """
    has_outcomes = usage.outcomes["ok"] or usage.outcomes["no_value"]
    if has_outcomes or _metrics_with_values(config, metrics):
        return None
    if usage.errors:
        return _error_of_failed_metrics(usage)
    reasons = _why_without_values(config, usage, metrics, failed)
    if not reasons or not usage.outcomes["skipped"]:
        return None
    text = "; ".join(f"{name} {reason}" for name, reason in reasons.items())
    return GraphragEvalError(f"nothing was judged: {text}")


def _error_of_failed_metrics(usage: JudgeUsage) -> JudgeUnavailable:
    """Return the error of a run in which all judged metrics failed."""
    from graphrag_eval_async.judge.sender import ADVICE, advice
    from graphrag_eval_async.judge.setting_names import SettingNames

    number = sum(usage.errors.values())
    kind, message = next(iter(usage.examples.items()))
    if number == 1:
        text = f"the only metric to judge failed: {kind}: {message}"
    else:
        text = f"all {number} metrics to judge failed, the first: {kind}: {message}"
    if kind in ADVICE and "; check " not in message:
        text += f"; {advice(kind, SettingNames.of_section('llm.generation'))}"
    return JudgeUnavailable(text)


def describe_judge(model: str, usage: JudgeUsage) -> list[str]:
    """Return a few lines about what the judge did."""
    lines = [
        f"judge {one_line(model)}: {_describe_calls(usage)}, {_describe_cost(usage)}",
        (
            f"tokens: {usage.input_tokens} in, {usage.output_tokens} out, "
            f"{usage.embedding_tokens} embedded"
        ),
        f"metrics: {_describe_metrics(usage)}",
    ]
    return lines + [one_line(f"first {kind}: {text}") for kind, text in usage.examples.items()]


def _describe_calls(usage: JudgeUsage) -> str:
    """Return how many calls there were, and where their replies came from."""
    text = f"{usage.calls} calls, {usage.attempts} attempts, {usage.cache_hits} cached"
    if usage.shared_calls:
        text += f", {usage.shared_calls} shared"
    if usage.repaired:
        text += f", {usage.repaired} replies repaired"
    return text


def _describe_cost(usage: JudgeUsage) -> str:
    """Return what the calls cost, and how that is known."""
    text = dollars(usage.spent)
    if usage.unmetered and usage.spent is not None:
        text = f"about {text}"
    if usage.restored_dollars:
        text += f", {dollars(usage.restored_dollars)} of it before"
    if usage.timed_out_dollars and usage.spent is not None:
        estimated = dollars(usage.timed_out_dollars)
        text += f", {estimated} of it estimated for requests without a reply"
    return text


def _describe_metrics(usage: JudgeUsage) -> str:
    """Return how many metrics succeeded, gave no value, were skipped, and failed."""
    failed = sum(usage.errors.values())
    text = f"{usage.outcomes['ok']} ok"
    if usage.outcomes["no_value"]:
        text += f", {usage.outcomes['no_value']} without a value"
    text += f", {usage.outcomes['skipped']} skipped, {plural(failed, 'error')}"
    if failed:
        text += f" ({counts(usage.errors)})"
    if usage.retries:
        text += f"; retries: {counts(usage.retries)}"
    return text


def describe_estimate(stream: EvaluationStream, config: Config | None) -> Iterator[str]:
    """Yield lines about the calls, tokens and dollars of a stream that `DryJudge` judged."""
    micro = stream.aggregates.snapshot()["micro"]
    usage = stream.usage
    model = judge_of(config)
    responses, _ = counts_of(micro)
    these_responses = "this response" if responses == 1 else f"these {responses} responses"
    if config is None or config.llm is None or model is None:
        yield f"evaluating {these_responses} would take no calls: no metric is judged"
        return
    from graphrag_eval_async.judge.dry import ASSUMED_OUTPUT_TOKENS

    at_most = ""
    if config.llm.cache is not None:
        at_most = " at most (what the cache has costs nothing), and"
    completions = usage.output_tokens // ASSUMED_OUTPUT_TOKENS
    yield f"evaluating {these_responses} would take,{at_most} if no call has to be repeated:"
    yield f"  {completions} completions of {model}"
    yield f"    input: about {usage.input_tokens} tokens"
    yield f"    output: {usage.output_tokens} tokens, if each has {ASSUMED_OUTPUT_TOKENS}"

    if config.llm.embedding is not None:
        embeddings = usage.attempts - completions
        yield f"  {embeddings} embeddings of {one_line(config.llm.embedding.model)}"
        yield f"    input: about {usage.embedding_tokens} tokens"

    about = "" if usage.dollars is None else "about "
    yield f"  cost: {about}{dollars(usage.dollars)}"
    for key in micro:
        if is_counted_cost(key):
            yield f"    {key.removesuffix(COST)}: {dollars(micro[key]['sum'])}"

    budget = config.llm.limits.budget_usd
    if budget is not None and usage.dollars is not None and budget < usage.dollars:
        affordable = int(responses * budget / usage.dollars)
        yield (
            f"  budget_usd {budget:g} is enough for about {affordable} of these {responses} "
            "responses"
        )
