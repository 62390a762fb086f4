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
    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.config import Config
    from graphrag_eval_async.monitor.alerts import Alert
    from graphrag_eval_async.reference import Reference


def check_gates(given: Given, reference: Reference, config: Config | None) -> None:
    """Raise a `UsageError` if no result can have the template, tag or metric of a gate, or that
    of --by.
    """
    templates = reference.templates
    check_tags(given, {tag for question in reference for tag in question.tags})
    for gate in given.gate:
        if _needs_no_metric(gate):
            check_names("--gate", gate.template, None, templates, config)
        else:
            _check_condition("--gate", gate, templates, config)


def named_tag_keys(given: Given) -> set[str]:
    """Return the keys of tags that gates and --by name, whose results are always grouped."""
    keys = {gate.tag[0] for gate in given.gate if gate.tag is not None}
    by = getattr(given, "by", None)
    if by is not None and by != ALL_TAGS:
        keys.add(by)
    return keys


def check_tags(given: Given, tags: set[Tag], *, are_cut: bool = False) -> None:
    """Raise a `UsageError` if a gate or --by names a tag that is not in `tags`, or not counted."""
    wanted = [("--gate", tag_name(gate.tag)) for gate in given.gate if gate.tag is not None]
    wanted += [("--by", by)] if (by := getattr(given, "by", None)) is not None else []
    known = counted_tags(tags, first_keys=named_tag_keys(given)) if wanted else []
    for option, name in wanted:
        names = (
            [*map(tag_name, known)]
            if option == "--gate"
            else [*dict(known), *([ALL_TAGS] if known else [])]
        )
        if name not in names:
            hint = did_you_mean(name, names) if names else "there are no tags"
            if are_cut or len(known) < len(tags):
                raise UsageError(
                    f"{option}: the tag {name!r} is unknown or cut, since {LIMIT_IN_WORDS}; {hint}"
                )
            raise UsageError(f"{option}: no result has the tag {name!r}; {hint}")


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
    check_names(option, condition.template, condition.metric, templates, config)
    for own in code_metrics(config):
        if own.range is not None and own.may_give(condition.metric):
            check_bound(condition.metric, condition.bound, own.range)
    if config is not None and config.custom_evaluations:
        from graphrag_eval_async.metrics.custom import kinds_of_outputs

        if condition.metric in kinds_of_outputs(config.custom_evaluations).get("fractions", ()):
            check_bound(condition.metric, condition.bound, (0, 1))


def check_names(
    option: str,
    template: str | None,
    metric: str | None,
    templates: Collection[str],
    config: Config | None,
) -> None:
    """Raise a `UsageError`, which begins with `option`, if no result can have a template and a
    metric.
    """
    evaluations = config.custom_evaluations if config is not None else ()
    outputs = {f"{evaluation.name}{COST}" for evaluation in evaluations}
    outputs.update(*(evaluation.outputs for evaluation in evaluations))
    if config is not None:
        outputs.update(config.ragas, (f"{name}{COST}" for name in config.ragas))
    for own in code_metrics(config):
        outputs.update(own.outputs, [metric] if metric is not None and own.may_give(metric) else [])
    check_known(option, template, metric, templates, outputs)
    section = None if metric is None else section_of(metric)
    if section is not None and (config is None or section not in config.metrics):
        raise UsageError(
            f"{option}: nothing judges {metric!r}; a configuration (--config) with the section "
            f"`{section}: {{}}` does"
        )


def check_read(given: Given, snapshot: Mapping[str, Any], reference: Reference | None) -> None:
    """Do the same as `check_gates`, given the results that were read."""
    templates, known = (
        () if reference is None else reference.templates,
        metrics_read(snapshot["micro"]),
    )
    found = {
        (key, value) for key, values in snapshot.get("per_tag", {}).items() for value in values
    }
    if known is not None or found:
        found.update(tag for question in reference or () for tag in question.tags)
        check_tags(given, found, are_cut="tags_are_cut" in snapshot)
    for gate in given.gate:
        metric = None if _needs_no_metric(gate) else gate.metric
        check_known("--gate", gate.template, metric, templates, known)


def _needs_no_metric(gate: Condition) -> bool:
    return gate.metric == MISSING_RATE or is_repeat_rate(gate.metric) is not None


def metrics_read(overall: Mapping[str, Any]) -> list[str] | None:
    """The metrics that results have, with or without values; None if there are no results."""
    known = [
        name for name, stats in overall.items() if isinstance(stats, dict) and "coverage" in stats
    ]
    return known if counts_of(overall)[0] else None


def on_missing(gates: Iterable[Condition]) -> bool:
    """Whether a gate is on the share of questions without a response."""
    return any(gate.metric == MISSING_RATE for gate in gates)


def needs_reference(given: Given) -> None:
    """Raise a `UsageError` if a gate is on questions without a response, and none are known."""
    if given.reference is None and on_missing(given.gate):
        raise UsageError(f"a gate on {MISSING_RATE} needs --reference REFERENCE")


def check_each(
    gates: Iterable[Condition],
    snapshot: Mapping[str, Any],
    reference: Reference | None = None,
    missing: Collection[str] = (),
) -> list[CheckedGate]:
    """Check gates; return all in their order. `missing` has the ids of the questions without a
    response.
    """
    groups: dict[str | Tag | None, Mapping[str, Any]] = {
        None: snapshot["micro"],
        **snapshot["per_template"],
    }
    for key, tagged in snapshot.get("per_tag", {}).items():
        groups |= {(key, value): group for value, group in tagged.items()}
    values = {key: _means(group) for key, group in groups.items()}
    questions: dict[str | Tag | None, list[bool]] = {}
    for question in reference or ():
        for key in (None, question.template_id, *question.tags):
            questions.setdefault(key, []).append(question.id in missing)
    for key, absent in questions.items():
        values.setdefault(key, {})[MISSING_RATE] = sum(absent) / len(absent)
    return [_check(gate, values, groups.get(gate.tag or gate.template, {})) for gate in gates]


def failed_and_held(checked: Sequence[CheckedGate]) -> tuple[list[str], list[str]]:
    """Separate the lines of gates that failed from those of gates that held."""
    return [gate.explanation for gate in checked if not gate.holds], [
        gate.explanation for gate in checked if gate.holds
    ]


def _check(
    gate: Condition,
    values: Mapping[str | Tag | None, Mapping[str, float]],
    group: Mapping[str, Any],
) -> CheckedGate:
    known, holds = values.get(gate.tag or gate.template), False
    if known is None and gate.tag is not None:
        told = "no results with this tag"
    elif known is None:
        templates = (
            ", ".join(template for template in values if isinstance(template, str)) or "none"
        )
        told = f"no results of such a template; there are: {templates}"
    elif gate.metric not in known and is_repeat_rate(gate.metric):
        k = max(2, int(gate.metric[5:]))
        told = (
            f"no question has {k} results that are right or wrong; ask each {k} times (repeats={k})"
        )
    elif gate.metric not in known:
        others = ", ".join(name for name in known if not is_repeat_rate(name))
        told = f"no values; metrics with values: {others or 'none'}"
    else:
        value = known[gate.metric]
        holds, told = (
            OPERATORS[gate.operator](value, gate.bound),
            f"the mean is {rounded(value, gate.bound)}",
        )
        stats = group.get(gate.metric)
        covered = stats.get("coverage") if isinstance(stats, dict) else None
        if covered is not None and covered["values"] < covered["applied"]:
            of = "retrieval steps" if gate.metric in RETRIEVAL_METRICS else "results"
            told += f" over {covered['values']} of {covered['applied']} {of}"
    return CheckedGate(gate.text, holds, f"{gate.text}: {told}")


def _means(group: Mapping[str, Any]) -> dict[str, float]:
    """The means over questions of the metrics, of the share of errors among the samples, and of
    repeats.
    """
    means = {name: rate for name, rate in group.get("repeats", {}).items() if is_repeat_rate(name)}
    means |= {metric: mean_of_questions(stats) for metric, stats in means_of(group).items()}
    samples, errors = counts_of(group)
    if samples:
        means[ERROR_RATE] = group.get(ERROR_RATE, errors / samples)
    return means
