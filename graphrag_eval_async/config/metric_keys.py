"""Checks of what users define: their keys of results, which no two metrics may share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.judged import JUDGED_BY_NAME
from graphrag_eval_async.catalogue.metrics import BY, COST, DISAGREEMENT, RESULT_KEYS
from graphrag_eval_async.config.in_code import CodeMetric, find_metric
from graphrag_eval_async.config.reading import join

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphrag_eval_async.config.model import Config, CustomEvaluationConfig

    Problem = Callable[[str, str], Any]
    """Reports what is wrong with the value at a key."""

GATES = ("error_rate", "missing_rate")
"""Rates that the command line knows, besides metrics."""

KEYS_OF_JUDGED = ("_error", COST, BY, DISAGREEMENT)
"""Suffixes of the keys that a judged metric may add to a result, besides its values."""

_PLACEHOLDER = re.compile(r"(?<![{$])\{([A-Za-z_]\w{0,63})\}(?!\})", re.ASCII)


class KeyOwners:
    """The keys of results that are taken, with what has taken them."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = dict.fromkeys(RESULT_KEYS, "a key of results")
        self._owners |= dict.fromkeys(GATES, "the name of a gate")

    def reserve_built_in_names(self) -> None:
        """Take the names of built-in metrics, which are no keys of results."""
        self._owners |= dict.fromkeys(JUDGED_BY_NAME, "the name of a built-in metric")

    def take(self, key: str, owner: str) -> str | None:
        """Take a key; return what is wrong if another owner has it already."""
        taken_by = self._owners.get(key)
        self._owners[key] = owner
        if taken_by is None:
            return None
        return f"{key!r} is already {taken_by}"


def check_user_metrics(config: Config, problem: Problem) -> KeyOwners:
    """Report what is wrong with custom evaluations and metrics of ragas; return the keys taken."""
    owners = KeyOwners()
    for index, evaluation in enumerate(config.custom_evaluations):
        _check_evaluation(f"custom_evaluations[{index}]", evaluation, owners, problem)
    owners.reserve_built_in_names()
    for name in config.ragas:
        _check_ragas_name(name, owners, problem)
    return owners


def _check_evaluation(
    section: str, evaluation: CustomEvaluationConfig, owners: KeyOwners, problem: Problem
) -> None:
    """Report placeholders that name nothing, steps that are not shown, and keys that are taken."""
    check_placeholders(
        f"{section}.instructions", evaluation.instructions, evaluation.inputs, problem
    )
    shows_steps = not {"reference_steps", "actual_steps"}.isdisjoint(evaluation.inputs)
    for selection in ("steps_name", "steps_keys"):
        if getattr(evaluation, selection) is not None and not shows_steps:
            problem(
                f"{section}.{selection}",
                "selects steps: inputs needs actual_steps or reference_steps",
            )
    if evaluation.name in JUDGED_BY_NAME:
        problem(f"{section}.name", f"{evaluation.name!r} is the name of a built-in metric")

    # Which key of the configuration asks for which key of results.
    places = {f"{evaluation.name}{suffix}": f"{section}.name" for suffix in KEYS_OF_JUDGED}
    for output in evaluation.outputs:
        place = join(f"{section}.outputs", output)
        if output.endswith(COST):
            problem(place, f"ends in {COST}, as only costs do")
        elif output in places:
            problem(place, f"{output!r} is already a key of {section}")
        places.setdefault(output, place)
    for key, place in places.items():
        taken = owners.take(key, f"a key of {section}")
        if taken is not None:
            problem(place, taken)


def _check_ragas_name(name: str, owners: KeyOwners, problem: Problem) -> None:
    """Report the name of a metric of ragas if results cannot have its keys."""
    place = join("ragas", name)
    if name.endswith(COST):
        problem(place, f"ends in {COST}, as only costs do")
    for suffix in ("", "_reason", *KEYS_OF_JUDGED):
        taken = owners.take(f"{name}{suffix}", f"a key of {place}")
        if taken is not None:
            problem(place, f"{taken}: choose another name")
            return


def check_placeholders(key: str, prompt: str, inputs: Sequence[str], problem: Problem) -> None:
    """Report each name in braces in a prompt that is none of its inputs."""
    for name in dict.fromkeys(_PLACEHOLDER.findall(prompt)):
        if name not in inputs:
            problem(key, f"{{{name}}} is none of its inputs, which are {', '.join(inputs)}")


def check_metrics(
    config: Config, functions: Mapping[Any, Any], problem: Problem
) -> list[CodeMetric]:
    """Return metrics in code, which are functions or paths by name; report invalid ones."""
    owners = check_user_metrics(config, _ignore_problem)
    metrics = []
    for name, function in functions.items():
        try:
            metric = find_metric(name, function)
        except ValueError as error:
            problem(name, str(error))
            continue
        metrics.append(metric)
        _take_keys_of_code(metric, owners, problem)
    return metrics


def _ignore_problem(_key: str, _what: str) -> None:
    """Report nothing, as it was reported before."""


def _take_keys_of_code(metric: CodeMetric, owners: KeyOwners, problem: Problem) -> None:
    """Take the keys of a metric in code; report the first that is taken already."""
    for key in dict.fromkeys((metric.name, *metric.outputs, f"{metric.name}_error")):
        taken = owners.take(key, f"a key of the metric {metric.name}")
        if taken is not None:
            problem(metric.name, taken)
            return


def code_metrics(config: Config | None) -> list[CodeMetric]:
    """Return the metrics in code of a checked configuration."""
    if config is None:
        return []
    return [find_metric(name, path) for name, path in config.custom_metrics.items()]


def outputs_of_users(config: Config, in_code: Iterable[CodeMetric]) -> list[str]:
    """Return the keys of values that users define, as far as they are known beforehand."""
    outputs = [output for evaluation in config.custom_evaluations for output in evaluation.outputs]
    outputs += config.ragas
    outputs += [output for metric in in_code for output in metric.outputs]
    return outputs
