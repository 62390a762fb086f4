"""Checks that no two metrics have the same key of results: users choose keys of their metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import BY, COST, DISAGREEMENT, RESULT_KEYS
from graphrag_eval_async.config.in_code import CodeMetric, find_metric
from graphrag_eval_async.config.reading import Report, join_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config.model import Config, CustomEvaluationConfig

GATES = ("error_rate", "missing_rate")
"""Rates on which the command line has gates, besides those on metrics."""

SUFFIXES_OF_JUDGED = ("_error", COST, BY, DISAGREEMENT)
"""Suffixes of the keys that a judged metric may add to a result, besides its values."""

_PLACEHOLDER = re.compile(r"(?<![{$])\{([A-Za-z_]\w{0,63})\}(?!\})", re.ASCII)


class KeyOwners:
    """The keys of results that are taken, each with its owner in words."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = dict.fromkeys(RESULT_KEYS, "a key of results")
        self._owners |= dict.fromkeys(GATES, "the name of a gate")

    def reserve_built_in_names(self) -> None:
        """Take the names of built-in metrics, which are no keys of results."""
        self._owners |= dict.fromkeys(JUDGED_BY_NAME, "the name of a built-in metric")

    def take(self, key: str, owner: str) -> str | None:
        """Make `owner` the owner of a key; return a problem if the key has one already."""
        earlier_owner = self._owners.get(key)
        self._owners[key] = owner
        if earlier_owner is None:
            return None
        return f"{key!r} is already {earlier_owner}"


def check_user_metrics(config: Config, report: Report) -> KeyOwners:
    """Check custom evaluations and metrics of ragas; return the owners of all keys so far.

    Args:
        config: the configuration.
        report: called with each problem.
    """
    owners = KeyOwners()
    for index, evaluation in enumerate(config.custom_evaluations):
        _check_evaluation(f"custom_evaluations[{index}]", evaluation, owners, report)
    owners.reserve_built_in_names()
    for name in config.ragas:
        _check_ragas_name(name, owners, report)
    return owners


def _check_evaluation(
    section: str, evaluation: CustomEvaluationConfig, owners: KeyOwners, report: Report
) -> None:
    """Report the problems of a custom evaluation, and add its keys of results to `owners`.

    Problems are unknown placeholders, a selection of steps that the judge does not see, and keys
    that have an owner already.

    Args:
        section: the key of the evaluation in the configuration.
        evaluation: the evaluation.
        owners: the owners of keys of results.
        report: called with each problem.
    """
    check_placeholders(
        f"{section}.instructions", evaluation.instructions, evaluation.inputs, report
    )
    shows_steps = not {"reference_steps", "actual_steps"}.isdisjoint(evaluation.inputs)
    for selection in ("steps_name", "steps_keys"):
        if getattr(evaluation, selection) is not None and not shows_steps:
            report(
                f"{section}.{selection}",
                "selects steps: inputs needs actual_steps or reference_steps",
            )
    if evaluation.name in JUDGED_BY_NAME:
        report(f"{section}.name", f"{evaluation.name!r} is the name of a built-in metric")

    # By key of results, the key of the configuration that asks for it.
    places = {f"{evaluation.name}{suffix}": f"{section}.name" for suffix in SUFFIXES_OF_JUDGED}
    for output in evaluation.outputs:
        place = join_key(f"{section}.outputs", output)
        if output.endswith(COST):
            report(place, f"ends in {COST}, as only costs do")
        elif output in places:
            report(place, f"{output!r} is already a key of {section}")
        places.setdefault(output, place)
    for key, place in places.items():
        problem = owners.take(key, f"a key of {section}")
        if problem is not None:
            report(place, problem)


def _check_ragas_name(name: str, owners: KeyOwners, report: Report) -> None:
    """Add the keys of a metric of ragas to `owners`; report if one has an owner already."""
    place = join_key("ragas", name)
    if name.endswith(COST):
        report(place, f"ends in {COST}, as only costs do")
    for suffix in ("", "_reason", *SUFFIXES_OF_JUDGED):
        problem = owners.take(f"{name}{suffix}", f"a key of {place}")
        if problem is not None:
            report(place, f"{problem}: choose another name")
            return


def check_placeholders(key: str, prompt: str, inputs: Sequence[str], report: Report) -> None:
    """Report placeholders of a prompt, names in braces, that are none of its inputs."""
    for name in dict.fromkeys(_PLACEHOLDER.findall(prompt)):
        if name not in inputs:
            report(key, f"{{{name}}} is none of its inputs, which are {', '.join(inputs)}")


def check_metrics(config: Config, functions: Mapping[Any, Any], report: Report) -> list[CodeMetric]:
    """Check metrics in code; return those that can be called.

    Args:
        config: the configuration, whose other metrics have keys of results, too.
        functions: functions, or their paths, by name of the metric.
        report: called with the name of a metric, and a problem of it.
    """
    # The problems of other metrics were reported before.
    owners = check_user_metrics(config, _ignore_problem)
    metrics = []
    for name, function in functions.items():
        try:
            metric = find_metric(name, function)
        except ValueError as error:
            report(name, str(error))
            continue
        metrics.append(metric)
        _take_keys_of_code(metric, owners, report)
    return metrics


def _ignore_problem(_key: str, _problem: str) -> None:
    """Do nothing with a problem."""


def _take_keys_of_code(metric: CodeMetric, owners: KeyOwners, report: Report) -> None:
    """Add the keys of a metric in code to `owners`; report the first that has an owner already."""
    for key in dict.fromkeys((metric.name, *metric.outputs, f"{metric.name}_error")):
        problem = owners.take(key, f"a key of the metric {metric.name}")
        if problem is not None:
            report(metric.name, problem)
            return


def code_metrics(config: Config | None) -> list[CodeMetric]:
    """Return the metrics in code of a checked configuration."""
    if config is None:
        return []
    return [find_metric(name, path) for name, path in config.custom_metrics.items()]


def outputs_of_users(config: Config, metrics_in_code: Iterable[CodeMetric]) -> list[str]:
    """Return the keys of results at which metrics of users have their values.

    Keys that a metric in code does not declare are not among them.
    """
    outputs: list[str] = []
    for evaluation in config.custom_evaluations:
        outputs += evaluation.outputs
    outputs += config.ragas
    for metric in metrics_in_code:
        outputs += metric.outputs
    return outputs
