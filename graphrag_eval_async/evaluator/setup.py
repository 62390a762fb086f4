"""Reads the configuration and the arguments of an evaluator, and creates the parts they need."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.catalogue.judged import JUDGED
from graphrag_eval_async.errors import UsageError, warn_caller
from graphrag_eval_async.evaluator.scoring import Rules, StepsGroups

if TYPE_CHECKING:
    import os

    from graphrag_eval_async.config import Config
    from graphrag_eval_async.execution import Executing
    from graphrag_eval_async.judge.protocol import GivenJudge
    from graphrag_eval_async.metrics import Judging, OnFatal
    from graphrag_eval_async.metrics.in_code import CodeMetrics


class Configured(NamedTuple):
    """The parts of an evaluator that its configuration and arguments ask for.

    Attributes:
        config: the checked configuration; None if there is none.
        rules: how steps and answers are scored.
        step_aliases: other names of steps by their reference name; not checked yet.
        judging: plans and runs the judge's calls; None if nothing is judged.
        executing: runs or parses queries; None if none are.
        in_code: the metrics in code; None if there are none.
    """

    config: Config | None
    rules: Rules
    step_aliases: Any
    judging: Judging | None = None
    executing: Executing | None = None
    in_code: CodeMetrics | None = None


def configure(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config | None,
    judge: GivenJudge | Mapping[str, GivenJudge] | None,
    metrics: Mapping[str, Any],
    *,
    on_fatal: OnFatal,
    steps_groups: StepsGroups | None,
    step_aliases: Any,
    has_reference: bool,
) -> Configured:
    """Load the configuration, and create the parts that it and the arguments ask for.

    The arguments are those of `Evaluator`.

    Args:
        has_reference: whether there is a reference set. Otherwise, a warning names what is
            configured and needs one.

    Raises:
        ConfigError: the configuration is invalid, or needs a package that is not installed.
        UsageError: an argument has an invalid value.
    """
    aliases = {} if step_aliases is None else step_aliases
    if config is None and judge is None and not metrics:
        return Configured(
            config=None, rules=Rules(mode=steps_groups or "last"), step_aliases=aliases
        )
    # Most streams do not need these modules.
    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.judge.given import GivenJudges
    from graphrag_eval_async.metrics import Judging
    from graphrag_eval_async.metrics.ragas_lookup import split_metrics

    metrics_given = split_metrics(metrics)
    checked = GivenJudges(judge).load_config(
        {} if config is None else config, metrics_given.ragas_sections
    )
    if not has_reference:
        useless = _names_that_need_a_reference(checked)
        if useless:
            warn_caller(f"without a reference set, these do nothing: {', '.join(useless)}")

    # What judges, computes metrics in code and runs queries.
    judging = None
    if checked.judged:
        judging = Judging(checked, judge=judge, on_fatal=on_fatal, ragas=metrics_given.ragas)

    in_code = None
    functions = metrics_given.functions
    if functions or checked.custom_metrics:
        from graphrag_eval_async.metrics.in_code import CodeMetrics

        limits = checked.llm.limits if checked.llm is not None else LimitsConfig()
        in_code = CodeMetrics(checked, functions, limits)

    executing = None
    steps = checked.steps
    if checked.execute is not None or steps.check_queries:
        from graphrag_eval_async.execution import Executing

        executing = Executing(checked.execute, checks=steps.check_queries)

    # How steps and answers are scored. Aliases of another type are refused later.
    if isinstance(aliases, Mapping):
        aliases = {**checked.aliases, **aliases}
    # `answer_match` is the name of a way to match, or a section with more options.
    match = checked.answer_match
    tolerance = None
    if match is not None and not isinstance(match, str):
        tolerance = match.tolerance
        match = match.match
    rules = Rules(
        mode=steps_groups or steps.groups,
        strict_types=steps.strict_types,
        match_columns=steps.match_columns,
        tool_calls=steps.tool_calls,
        match=match,
        tolerance=tolerance,
    )
    return Configured(
        config=checked,
        rules=rules,
        step_aliases=aliases,
        judging=judging,
        executing=executing,
        in_code=in_code,
    )


def check_arguments(comparators: Any, steps_groups: Any, metrics: Any, on_fatal: Any) -> None:
    """Check the types and values of arguments of `Evaluator`.

    Raises:
        UsageError: an argument has an invalid value.
    """
    is_dict = isinstance(metrics, Mapping | None)
    if not is_dict or not all(isinstance(name, str) for name in metrics or ()):
        raise UsageError(f"metrics: expected a dict of functions by name, got {metrics!r}")
    if steps_groups not in (None, "last", "all"):
        raise UsageError(f'steps_groups: expected "last" or "all", got {steps_groups!r}')
    if on_fatal not in ("raise", "continue"):
        raise UsageError(f'on_fatal: expected "raise" or "continue", got {on_fatal!r}')
    if not isinstance(comparators, Mapping | None):
        raise UsageError(f"comparators: expected a dict of functions, got {comparators!r}")
    for name, comparator in (comparators or {}).items():
        if not isinstance(name, str) or not callable(comparator):
            raise UsageError(f"comparators[{name!r}]: expected a function, got {comparator!r}")
        if iscoroutinefunction(comparator):
            raise UsageError(f"comparators[{name!r}]: must be a plain function")


def _names_that_need_a_reference(config: Config) -> list[str]:
    """Return the names of configured metrics and sections that need a reference set."""
    reference_inputs = {"reference_answer", "reference_steps"}
    judged = [
        metric.name for metric in JUDGED if metric.needs_reference and metric.name in config.metrics
    ]
    custom = [
        evaluation.name
        for evaluation in config.custom_evaluations
        if not reference_inputs.isdisjoint(evaluation.inputs)
    ]
    sections = [name for name in ("answer_match", "execute") if getattr(config, name) is not None]
    of_steps = [
        f"steps.{name}" for name in ("check_queries", "tool_calls") if getattr(config.steps, name)
    ]
    return [*judged, *custom, *sections, *of_steps]
