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
    aliases = step_aliases
    if aliases is None:
        aliases = {}
    if config is None and judge is None and not metrics:
        rules = Rules(mode=steps_groups or "last")
        return Configured(config=None, rules=rules, step_aliases=aliases)

    # Load the configuration. Most streams do not need these modules.
    from graphrag_eval_async.judge.given import GivenJudges
    from graphrag_eval_async.metrics import Judging
    from graphrag_eval_async.metrics.ragas_lookup import split_metrics

    if config is None:
        config = {}
    split = split_metrics(metrics)
    checked = GivenJudges(judge).load_config(config, split.ragas_sections)
    if not has_reference:
        useless = _names_that_need_a_reference(checked)
        if useless:
            warn_caller(f"without a reference set, these do nothing: {', '.join(useless)}")

    # Create the parts that judge, compute metrics in code and run queries.
    judging = None
    if checked.judged:
        judging = Judging(checked, judge=judge, on_fatal=on_fatal, ragas=split.ragas)

    # Aliases of another type are refused later.
    if isinstance(aliases, Mapping):
        aliases = {**checked.aliases, **aliases}
    return Configured(
        config=checked,
        rules=_read_rules(checked, steps_groups),
        step_aliases=aliases,
        judging=judging,
        in_code=_make_code_metrics(checked, split.functions),
        executing=_make_executing(checked),
    )


def _make_code_metrics(config: Config, functions: Mapping[str, Any]) -> CodeMetrics | None:
    """Return the metrics in code of a configuration, and those given as functions.

    None if there are none.
    """
    if not functions and not config.custom_metrics:
        return None
    from graphrag_eval_async.config import LimitsConfig
    from graphrag_eval_async.metrics.in_code import CodeMetrics

    limits = LimitsConfig()
    if config.llm is not None:
        limits = config.llm.limits
    return CodeMetrics(config, functions, limits)


def _make_executing(config: Config) -> Executing | None:
    """Return what runs or parses queries, as a configuration says; None if it does not say so."""
    checks = config.steps.check_queries
    if config.execute is None and not checks:
        return None
    from graphrag_eval_async.execution import Executing

    return Executing(config.execute, checks=checks)


def _read_rules(config: Config, steps_groups: StepsGroups | None) -> Rules:
    """Return how steps and answers are scored.

    Args:
        config: the configuration.
        steps_groups: which groups of reference steps count; None: as the configuration says.
    """
    steps = config.steps
    # `answer_match` is the name of a way to match, or a section with more options.
    match = config.answer_match
    tolerance = None
    if match is not None and not isinstance(match, str):
        tolerance = match.tolerance
        match = match.match
    return Rules(
        mode=steps_groups or steps.groups,
        strict_types=steps.strict_types,
        match_columns=steps.match_columns,
        tool_calls=steps.tool_calls,
        match=match,
        tolerance=tolerance,
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
