"""Metrics of the package ragas, as the configuration names them or a caller gives them in Python.

A section `ragas` names them. In Python, they may be classes, partials of classes, or objects.
"""

from __future__ import annotations

import copy
import warnings
from enum import Enum
from functools import cache, partial
from importlib import import_module
from inspect import Parameter, isclass, signature
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.config.model import RagasMetricConfig
from graphrag_eval_async.errors import ConfigError, describe_exception
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from graphrag_eval_async.metrics.ragas_inputs import INPUTS
from graphrag_eval_async.metrics.ragas_metric import RagasMetric, takes_conversation
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

COLLECTIONS = "ragas.metrics.collections"
"""The module where metrics are looked up first."""

OLDER = "ragas.metrics"
"""The module with metrics that the newer one lacks, such as `AspectCritic`."""

LOWER_IS_BETTER = {"NoiseSensitivity"}
"""Metrics whose lower values are better; ragas only says so in its documentation."""

NOT_METRICS = {"BaseMetric", "DistanceMeasure"}
"""Names that ragas exports beside its metrics."""

METHODS = ("ascore", "single_turn_ascore", "multi_turn_ascore")
"""The methods of a metric of ragas, of which it has at least one."""


def is_ragas_metric(candidate: Any) -> bool:
    """Return whether a metric given in Python is one of ragas, without importing ragas.

    It may be a class, a `partial` of one, or an object.
    """
    if isinstance(candidate, partial):
        candidate = candidate.func
    kind = candidate if isclass(candidate) else type(candidate)
    is_of_ragas = any(base.__module__.partition(".")[0] == "ragas" for base in kind.__mro__)
    return is_of_ragas and any(hasattr(kind, method) for method in METHODS)


def section_of(candidate: Any) -> RagasMetricConfig:
    """Return the section that stands for a metric of ragas given in Python."""
    arguments: dict[str, Any] = {}
    if isinstance(candidate, partial):
        arguments = dict(candidate.keywords)
        # Positions stand for the parameters of the class in their order.
        arguments |= dict(zip(_parameters(candidate.func), candidate.args, strict=False))
        candidate = candidate.func
    kind = candidate if isclass(candidate) else type(candidate)
    return RagasMetricConfig(metric=f"{kind.__module__}:{kind.__qualname__}", arguments=arguments)


class MetricsGiven(NamedTuple):
    """The metrics that a caller gives in Python, by kind and name.

    Attributes:
        functions: functions and paths of functions.
        ragas_sections: sections that stand for metrics of ragas.
        ragas: the classes or objects of these metrics.
    """

    functions: dict[str, Any]
    ragas_sections: dict[str, RagasMetricConfig]
    ragas: dict[str, Any]


def split_metrics(metrics: Mapping[str, Any]) -> MetricsGiven:
    """Return the metrics that a caller gives, by kind."""
    split = MetricsGiven({}, {}, {})
    for name, metric in metrics.items():
        if not is_ragas_metric(metric):
            split.functions[name] = metric
            continue
        split.ragas_sections[name] = section_of(metric)
        split.ragas[name] = metric.func if isinstance(metric, partial) else metric
    return split


def can_be_imported(metric: Any) -> bool:
    """Return whether another process can import the class of a metric by its path."""
    if not isclass(metric):
        return False
    try:
        return resolve_name(f"{metric.__module__}:{metric.__qualname__}") is metric
    except (ImportError, AttributeError, ValueError):
        return False


def make_ragas_metric(name: str, section: RagasMetricConfig, candidate: Any = None) -> RagasMetric:
    """Return the metric of a section; imports ragas.

    Args:
        name: the metric's name in the configuration.
        section: names the class and its arguments.
        candidate: the class or the object, if a caller gave it. It is not changed.

    Raises:
        ConfigError: there is no such metric, a package that it needs is not installed, or it
            does not take these arguments.
    """
    key = f"ragas.{name}"
    load_ragas()
    if candidate is None:
        candidate = _find(key, section.metric)

    constants = dict(section.arguments)
    if isclass(candidate):
        arguments = _constructor_arguments(name, candidate, section.arguments)
        metric = _construct(key, candidate, arguments)
        for argument in arguments:
            constants.pop(argument, None)
    else:
        metric = _with_our_models(candidate)
    _prepare_older(metric)

    inputs = _inputs_of_metric(metric)
    _check_usable(key, metric)
    _check_constants(key, metric, constants, inputs)
    asks_embeddings = hasattr(metric, "embeddings")
    return RagasMetric(
        name=name,
        needs=tuple(inputs.needs),
        takes=frozenset(inputs.takes),
        constants=constants,
        asks_llm=hasattr(metric, "llm") or hasattr(metric, "get_variables"),
        asks_embeddings=asks_embeddings,
        # Cosines may be negative, whatever range ragas states.
        limits=None if asks_embeddings else _limits(metric),
        gives_text=isinstance(getattr(metric, "allowed_values", None), list),
        lower_is_better=type(metric).__name__ in LOWER_IS_BETTER,
        metric=metric,
        path=section.metric,
    )


def _prepare_older(metric: Any) -> None:
    """Have a metric of the older module make the others that it needs."""
    if not hasattr(metric, "init"):
        return
    from ragas.run_config import RunConfig

    metric.init(RunConfig(max_retries=1))
    if hasattr(metric, "strictness"):
        # It wants several replies to one prompt, gets one in any case, and logs a warning.
        metric.strictness = 1


def _check_usable(key: str, metric: Any) -> None:
    """Check that a metric can have a value here.

    Raises:
        ConfigError: it cannot. The message begins with `key`.
    """
    kind = type(metric).__name__
    if kind.startswith("MultiModal"):
        raise ConfigError([f"{key}: {kind} needs images, which responses lack"])
    if isinstance(getattr(metric, "allowed_values", None), int):
        raise ConfigError([f"{key}: a metric that gives a list cannot be a score"])


def _check_constants(
    key: str, metric: Any, constants: Mapping[str, Any], inputs: MetricInputs
) -> None:
    """Check that the arguments that the class does not take are inputs of the metric, and that
    no other input is missing that responses cannot have.

    Raises:
        ConfigError: one is not, or one is missing. The message begins with `key`.
    """
    kind = type(metric)
    for argument in constants:
        if argument not in inputs.takes:
            hint = did_you_mean(argument, [*_parameters(kind), *sorted(inputs.takes)])
            raise ConfigError(
                [f"{key}.arguments: {kind.__name__} does not take {argument!r}; {hint}"]
            )
    for name in inputs.needs:
        if name not in INPUTS and name not in constants:
            raise ConfigError(
                [f"{key}.arguments: {kind.__name__} needs {name!r}, which no response has"]
            )


def _find(key: str, path: str) -> Any:
    """Return the class or object of a metric: by its name in ragas, or by ``module:name``.

    Raises:
        ConfigError: there is none. The message begins with `key`.
    """
    module_name, _, name = path.rpartition(":")
    with warnings.catch_warnings():
        # The older metrics warn that there are newer ones, also where there are none.
        warnings.simplefilter("ignore", DeprecationWarning)
        for module in [module_name] if module_name else [COLLECTIONS, OLDER]:
            try:
                metric = getattr(import_module(module), name)
            except AttributeError:
                continue
            except ImportError as error:
                raise ConfigError([f"{key}: {path!r} cannot be imported: {error}"]) from error
            if is_ragas_metric(metric) and name not in NOT_METRICS:
                return metric
    hint = did_you_mean(name, names_of_metrics())
    raise ConfigError([f"{key}: {path!r} is no metric of ragas; {hint}"])


def names_of_metrics() -> list[str]:
    """Return the names of all metrics of ragas, the newer ones first; imports ragas."""
    load_ragas()
    newer = import_module(COLLECTIONS).__all__
    older = getattr(import_module(OLDER), "_DEPRECATED_METRICS", {})
    return [name for name in dict.fromkeys([*newer, *older]) if name not in NOT_METRICS]


def _parameters(kind: Any) -> Mapping[str, Parameter]:
    """Return the parameters of a class that can be given by name."""
    parameters = signature(kind).parameters
    return {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }


def _constructor_arguments(name: str, kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a class is made with: our models, and those arguments that it takes.

    Its `name` is by default that of the metric; names of members stand for them.
    """
    from graphrag_eval_async.metrics.ragas_models import EMBEDDINGS, LLM

    parameters = _parameters(kind)
    chosen: dict[str, Any] = {}
    for key, value in arguments.items():
        if key == "allowed_values" and _is_range(value):
            chosen[key] = tuple(value)  # A list has the texts that a metric may give.
        elif key in parameters:
            place = f"ragas.{name}.arguments.{key}"
            chosen[key] = _as_member(place, value, parameters[key].default)
    if "name" in parameters and parameters["name"].default is Parameter.empty:
        chosen.setdefault("name", name)
    if "llm" in parameters:
        chosen["llm"] = LLM
    if "embeddings" in parameters:
        chosen["embeddings"] = EMBEDDINGS
    return chosen


def _is_range(value: Any) -> bool:
    """Return whether a list is the least and the greatest number that a metric may give."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(number, int | float) for number in value)
    )


def _as_member(key: str, value: Any, default: Any) -> Any:
    """Return the member of an enumeration that a text names, if the default is a member.

    Raises:
        ConfigError: there is no such member. The message begins with `key`.
    """
    if isinstance(default, Enum) and isinstance(value, str):
        names = [member.value for member in type(default)]
        if value not in names:
            raise ConfigError(
                [f"{key}: expected one of {', '.join(map(str, names))}, got {value!r}"]
            )
        return type(default)(value)
    return value


def _construct(key: str, kind: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a new metric.

    Raises:
        ConfigError: it needs a package that is not installed, or other arguments.
    """
    try:
        return kind(**arguments)
    except ImportError as error:
        raise ConfigError([f"{key}: {kind.__name__} needs a package: {error}"]) from error
    except Exception as error:
        problem = describe_exception(error)
        raise ConfigError([f"{key}: {kind.__name__} cannot be made: {problem}"]) from error


def _with_our_models(metric: Any) -> Any:
    """Return a copy of a metric that asks our models, and so do the metrics that it uses."""
    from graphrag_eval_async.metrics.ragas_models import EMBEDDINGS, LLM

    metric = copy.copy(metric)
    for name, value in list(vars(metric).items()):
        if name == "llm":
            metric.llm = LLM
        elif name == "embeddings":
            metric.embeddings = EMBEDDINGS
        elif is_ragas_metric(value):
            setattr(metric, name, _with_our_models(value))
    return metric


class MetricInputs(NamedTuple):
    """The inputs of a metric, by the names of ragas.

    Attributes:
        takes: all that it takes.
        needs: those without which it is skipped.
    """

    takes: list[str]
    needs: list[str]


def _inputs_of_metric(metric: Any) -> MetricInputs:
    """Return the inputs of a metric.

    A metric that takes the response needs it, even if ragas would do without. A metric made with
    `with_reference` needs the reference.
    """
    inputs = _declared_inputs(metric)
    needs = list(inputs.needs)
    if "response" in inputs.takes:
        needs.append("response")
    if "reference" in inputs.takes and getattr(metric, "with_reference", False):
        needs.append("reference")
    return MetricInputs(inputs.takes, needs=[*dict.fromkeys(needs)])


def _declared_inputs(metric: Any) -> MetricInputs:
    """Return the inputs of a metric as ragas declares them."""
    if hasattr(metric, "get_required_columns"):
        turns = "MULTI_TURN" if takes_conversation(metric) else "SINGLE_TURN"
        return MetricInputs(
            takes=sorted(metric.get_required_columns(with_optional=True)[turns]),
            needs=sorted(metric.get_required_columns()[turns]),
        )
    if hasattr(metric, "get_variables"):
        variables = [*dict.fromkeys(metric.get_variables())]
        return MetricInputs(takes=variables, needs=variables)

    # Of a decorated function, ragas only keeps the function.
    parameters = _parameters(getattr(metric, "_func", None) or metric.ascore)
    required = [
        name for name, parameter in parameters.items() if parameter.default is Parameter.empty
    ]
    return MetricInputs(takes=[*parameters], needs=required)


def _limits(metric: Any) -> tuple[float, float] | None:
    """Return the least and the greatest value, as far as ragas states them."""
    allowed_values = getattr(metric, "allowed_values", None)
    if isinstance(allowed_values, tuple) and len(allowed_values) == 2:
        return float(allowed_values[0]), float(allowed_values[1])
    if isinstance(allowed_values, range) and allowed_values:
        return float(min(allowed_values)), float(max(allowed_values))
    output_type = getattr(metric, "output_type", None)
    if getattr(output_type, "name", None) == "BINARY":
        return 0.0, 1.0
    return None


@cache
def metric_of_collections(name: str) -> Any:
    """Return a metric of `ragas.metrics.collections` with our models, for built-in metrics."""
    load_ragas()
    kind = getattr(import_module(COLLECTIONS), name)
    return kind(**_constructor_arguments(name, kind, {}))
