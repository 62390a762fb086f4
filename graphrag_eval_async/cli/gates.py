"""Gates: conditions that a run must meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.conditions import OPERATORS, CheckedGate, check_bound, rounded
from graphrag_eval_async.catalogue.metrics import (
    COST,
    ERROR_RATE,
    MISSING_RATE,
    RETRIEVAL_METRICS,
    is_repeat_rate,
    section_of,
)
from graphrag_eval_async.catalogue.tags import ALL_TAGS, LIMIT_IN_WORDS, counted_tags, tag_name
from graphrag_eval_async.config.metric_keys import code_metrics
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.monitor.alerts import NO_LINES, check_known
from graphrag_eval_async.records.snapshots import counts_of, mean_of_questions, means_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition
    from graphrag_eval_async.catalogue.tags import Tag
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.alerts import Alert
    from graphrag_eval_async.reference import Reference


def check_gates(
    gates: Sequence[Condition],
    by: str | None,
    reference: Reference,
    config: Config | None,
) -> None:
    """Check before a run that some result can have what gates and ``--by`` name.

    Args:
        gates: the conditions of ``--gate``.
        by: the key of tags that ``--by`` names; None without one.
        reference: the reference set, with the templates and tags of the results.
        config: the configuration, which says which metrics there are; None without one.

    Raises:
        UsageError: no result can have a template, tag or metric.
    """
    tags = {tag for question in reference for tag in question.tags}
    check_tags(gates, by, tags)
    for gate in gates:
        if _is_on_any_run(gate):
            check_names("--gate", gate.template, None, reference.templates, config)
        else:
            _check_condition("--gate", gate, reference.templates, config)


def named_tag_keys(gates: Iterable[Condition], by: str | None) -> set[str]:
    """Return the keys of the tags that gates and ``--by`` name.

    Results are grouped by these keys, even if there are more keys than can be grouped by.
    """
    keys = set()
    for gate in gates:
        if gate.tag is not None:
            key, _ = gate.tag
            keys.add(key)
    if by is not None and by != ALL_TAGS:
        keys.add(by)
    return keys


def check_tags(
    gates: Sequence[Condition], by: str | None, tags: set[Tag], *, are_cut: bool = False
) -> None:
    """Check that results have the tags that gates name, and the key that ``--by`` names.

    Args:
        gates: the conditions of ``--gate``.
        by: the key of tags that ``--by`` names; None without one.
        tags: the tags of all results.
        are_cut: whether `tags` lack some, since there were too many.

    Raises:
        UsageError: no result has a tag, or results are not grouped by it.
    """
    gate_tags = [tag_name(gate.tag) for gate in gates if gate.tag is not None]
    if not gate_tags and by is None:
        return
    grouped_tags = counted_tags(tags, first_keys=named_tag_keys(gates, by))
    are_cut = are_cut or len(grouped_tags) < len(tags)

    known_names = [tag_name(tag) for tag in grouped_tags]
    for name in gate_tags:
        if name not in known_names:
            raise _unknown_tag("--gate", name, known_names, are_cut=are_cut)

    if by is not None:
        keys = list(dict.fromkeys(key for key, _ in grouped_tags))
        if keys:
            keys.append(ALL_TAGS)
        if by not in keys:
            raise _unknown_tag("--by", by, keys, are_cut=are_cut)


def _unknown_tag(
    option: str, name: str, known_names: Sequence[str], *, are_cut: bool
) -> UsageError:
    """Return the error of an option that names an unknown tag, or an unknown key of tags.

    Args:
        option: the option, such as ``--by``.
        name: what it names.
        known_names: what it could name.
        are_cut: whether there are more names, by which results are not grouped.
    """
    hint = did_you_mean(name, known_names) if known_names else "there are no tags"
    if are_cut:
        return UsageError(
            f"{option}: the tag {name!r} is unknown or cut, since {LIMIT_IN_WORDS}; {hint}"
        )
    return UsageError(f"{option}: no result has the tag {name!r}; {hint}")


def check_alerts(
    alerts: Iterable[Alert], templates: Collection[str], config: Config | None
) -> None:
    """Raise a `UsageError` if no result can have the template or the metric of an alert."""
    for alert in alerts:
        if alert.metric != NO_LINES:
            _check_condition(f"--alert {alert.text!r}", alert, templates, config)


def _check_condition(
    option: str, condition: Condition | Alert, templates: Collection[str], config: Config | None
) -> None:
    """Check that results can have the template and the metric of a condition, and its bound.

    Args:
        option: the option with the condition, with which an error begins.
        condition: the condition.
        templates: the ids of all templates.
        config: the configuration, which says which metrics there are; None without one.

    Raises:
        UsageError: no result can have them, or the metric cannot reach the bound.
    """
    check_names(option, condition.template, condition.metric, templates, config)
    for code_metric in code_metrics(config):
        if code_metric.range is not None and code_metric.may_give(condition.metric):
            check_bound(condition.metric, condition.bound, code_metric.range)
    if config is not None and config.custom_evaluations:
        from graphrag_eval_async.metrics.custom import kinds_of_outputs

        fractions = kinds_of_outputs(config.custom_evaluations).get("fractions", ())
        if condition.metric in fractions:
            check_bound(condition.metric, condition.bound, (0, 1))


def check_names(
    option: str,
    template: str | None,
    metric: str | None,
    templates: Collection[str],
    config: Config | None,
) -> None:
    """Check that results can have a template and a metric.

    Args:
        option: the option that names them, with which an error begins.
        template: the id of the template; None for all templates.
        metric: the metric; None to check only the template.
        templates: the ids of all templates.
        config: the configuration, which says which metrics there are; None without one.

    Raises:
        UsageError: there is no such template or metric, or nothing judges the metric.
    """
    check_known(option, template, metric, templates, _configured_metrics(config, metric))
    section = None if metric is None else section_of(metric)
    if section is not None and (config is None or section not in config.metrics):
        raise UsageError(
            f"{option}: nothing judges {metric!r}; a configuration (--config) with the section "
            f"`{section}: {{}}` does"
        )


def _configured_metrics(config: Config | None, metric: str | None) -> set[str]:
    """Return the metrics that a configuration adds to those of the library.

    Args:
        config: the configuration; None without one.
        metric: a metric that is added, too, if a metric in code may give it: the names of these
            are not all known before a run.
    """
    names: set[str] = set()
    if config is not None:
        for evaluation in config.custom_evaluations:
            names.add(f"{evaluation.name}{COST}")
            names.update(evaluation.outputs)
        for name in config.ragas:
            names.add(f"{name}{COST}")
            names.add(name)
    for code_metric in code_metrics(config):
        names.update(code_metric.outputs)
        if metric is not None and code_metric.may_give(metric):
            names.add(metric)
    return names


def check_gates_after_reading(
    gates: Sequence[Condition],
    by: str | None,
    snapshot: Mapping[str, Any],
    reference: Reference | None,
) -> None:
    """Check that some result that was read has what gates and ``--by`` name.

    Args:
        gates: the conditions of ``--gate``.
        by: the key of tags that ``--by`` names; None without one.
        snapshot: the aggregates of the results.
        reference: the reference set, whose templates and tags count, too; None without one.

    Raises:
        UsageError: no result has a template, tag or metric.
    """
    metrics = metrics_read(snapshot["micro"])
    tags = {
        (key, value)
        for key, group_by_value in snapshot.get("per_tag", {}).items()
        for value in group_by_value
    }
    # Without results, it is not known which tags they would have.
    if metrics is not None or tags:
        tags.update(tag for question in reference or () for tag in question.tags)
        check_tags(gates, by, tags, are_cut="tags_are_cut" in snapshot)

    templates = () if reference is None else reference.templates
    for gate in gates:
        metric = None if _is_on_any_run(gate) else gate.metric
        check_known("--gate", gate.template, metric, templates, metrics)


def _is_on_any_run(gate: Condition) -> bool:
    """Return whether a gate is on a rate that each run can have, whatever its metrics are."""
    return gate.metric == MISSING_RATE or is_repeat_rate(gate.metric) is not None


def metrics_read(overall: Mapping[str, Any]) -> list[str] | None:
    """Return the metrics that results have, with or without values; None without results.

    Args:
        overall: the part `micro` of a snapshot of their aggregates.
    """
    results, _ = counts_of(overall)
    if results == 0:
        return None
    return [
        name
        for name, statistics in overall.items()
        if isinstance(statistics, dict) and "coverage" in statistics
    ]


def has_gate_on_missing(gates: Iterable[Condition]) -> bool:
    """Return whether a gate is on the share of questions without a response."""
    return any(gate.metric == MISSING_RATE for gate in gates)


def check_reference_for_gates(gates: Iterable[Condition], reference_path: str | None) -> None:
    """Raise a `UsageError` if a gate is on the share of questions without a response, and there is
    no reference set that lists all questions.
    """
    if reference_path is None and has_gate_on_missing(gates):
        raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")


def check_each(
    gates: Iterable[Condition],
    snapshot: Mapping[str, Any],
    reference: Reference | None = None,
    missing: Collection[str] = (),
) -> list[CheckedGate]:
    """Check gates on the aggregates of a run.

    Args:
        gates: the gates.
        snapshot: the aggregates.
        reference: the reference set, for the share of questions without a response; None if there
            is no gate on it.
        missing: the ids of the questions without a response.

    Returns:
        All gates, in their order.
    """
    # The means of all results (None), of each template (a str), and of each tag.
    groups: dict[str | Tag | None, Mapping[str, Any]] = {
        None: snapshot["micro"],
        **snapshot["per_template"],
    }
    for key, group_by_value in snapshot.get("per_tag", {}).items():
        for value, group in group_by_value.items():
            groups[key, value] = group
    means_by_group = {name: _means(group) for name, group in groups.items()}

    # The share of questions without a response, in the same groups.
    are_missing: dict[str | Tag | None, list[bool]] = {}
    for question in reference or ():
        for name in (None, question.template_id, *question.tags):
            are_missing.setdefault(name, []).append(question.id in missing)
    for name, flags in are_missing.items():
        means_by_group.setdefault(name, {})[MISSING_RATE] = sum(flags) / len(flags)

    checked = []
    for gate in gates:
        group = groups.get(gate.tag or gate.template, {})
        checked.append(_check(gate, means_by_group, group))
    return checked


def failed_and_held(checked: Sequence[CheckedGate]) -> tuple[list[str], list[str]]:
    """Return the explanations of the gates that failed, and of those that held."""
    failed = [gate.explanation for gate in checked if not gate.holds]
    held = [gate.explanation for gate in checked if gate.holds]
    return failed, held


def _check(
    gate: Condition,
    means_by_group: Mapping[str | Tag | None, Mapping[str, float]],
    group: Mapping[str, Any],
) -> CheckedGate:
    """Check a gate.

    Args:
        gate: the gate.
        means_by_group: means by metric, of all results (None), of each template and of each tag.
        group: the aggregates of the results that the gate is on; empty if there are none.
    """
    means = means_by_group.get(gate.tag or gate.template)
    if means is None or gate.metric not in means:
        reason = _why_without_mean(gate, means_by_group)
        return CheckedGate(gate.text, False, f"{gate.text}: {reason}")

    mean = means[gate.metric]
    holds = OPERATORS[gate.operator](mean, gate.bound)
    explanation = f"{gate.text}: the mean is {rounded(mean, gate.bound)}"
    statistics = group.get(gate.metric)
    coverage = statistics.get("coverage") if isinstance(statistics, dict) else None
    if coverage is not None and coverage["values"] < coverage["applied"]:
        unit = "retrieval steps" if gate.metric in RETRIEVAL_METRICS else "results"
        explanation += f" over {coverage['values']} of {coverage['applied']} {unit}"
    return CheckedGate(gate.text, holds, explanation)


def _why_without_mean(
    gate: Condition, means_by_group: Mapping[str | Tag | None, Mapping[str, float]]
) -> str:
    """Return why there is no mean for a gate; the arguments are those of `_check`."""
    means = means_by_group.get(gate.tag or gate.template)
    if means is None and gate.tag is not None:
        return "no results with this tag"
    if means is None:
        templates = [name for name in means_by_group if isinstance(name, str)]
        return f"no results of such a template; there are: {', '.join(templates) or 'none'}"
    if is_repeat_rate(gate.metric):
        # The number of repeats in a name such as `pass@3` or `pass^3`.
        k = max(2, int(gate.metric[len("pass@") :]))
        return (
            f"no question has {k} results that are right or wrong; ask each {k} times (repeats={k})"
        )
    metrics = [name for name in means if not is_repeat_rate(name)]
    return f"no values; metrics with values: {', '.join(metrics) or 'none'}"


def _means(group: Mapping[str, Any]) -> dict[str, float]:
    """Return what gates on a group of results can compare, by name.

    These are the means over questions of the metrics, the error rate of the samples, and the rates
    of repeats, such as ``pass@2``.
    """
    means = {name: rate for name, rate in group.get("repeats", {}).items() if is_repeat_rate(name)}
    for metric, statistics in means_of(group).items():
        means[metric] = mean_of_questions(statistics)
    samples, errors = counts_of(group)
    if samples:
        means[ERROR_RATE] = group.get(ERROR_RATE, errors / samples)
    return means
