"""Metrics of the package ragas, as the configuration names them or a caller gives them in Python.

A section `ragas` names them. In Python, they may be classes, partials of classes, or objects.
"""

from __future__ import annotations

import copy
import warnings
from functools import cache, partial
from importlib import import_module
from inspect import Parameter, getsource, isclass, signature
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.config.model import RagasMetricConfig
from graphrag_eval_async.errors import ConfigError, describe_exception
from graphrag_eval_async.helpers.text import did_you_mean
from graphrag_eval_async.metrics.ragas_arguments import (
    check_constructor_arguments,
    check_inputs,
    check_late_packages,
    member_of_enum,
    parameters_by_name,
    scoring_function,
)
from graphrag_eval_async.metrics.ragas_bridge import load_ragas
from graphrag_eval_async.metrics.ragas_inputs import INPUTS
from graphrag_eval_async.metrics.ragas_metric import RagasMetric, takes_conversation

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

NOTHING_GIVEN: Mapping[str, Any] = MappingProxyType({})

MODELS = ("llm", "embeddings")
"""The arguments for models, which ours replace."""

METHODS = ("ascore", "single_turn_ascore", "multi_turn_ascore")
"""The methods of a metric of ragas, of which it has at least one."""


def is_ragas_metric(candidate: Any) -> bool:
    """Return whether a metric given in Python is a metric of ragas, without importing ragas.

    The metric may be a class, a `partial` of a class, or an object. It is a metric of ragas if one
    of its bases is from ragas and it has a method that scores.
    """
    if isinstance(candidate, partial):
        candidate = candidate.func
    kind = candidate if isclass(candidate) else type(candidate)
    packages_of_bases = {base.__module__.partition(".")[0] for base in kind.__mro__}
    has_method = any(hasattr(kind, method) for method in METHODS)
    return "ragas" in packages_of_bases and has_method


def section_of(name: str, candidate: Any) -> RagasMetricConfig:
    """Return the section of the configuration for a metric of ragas given in Python.

    It has the path of the class, and the arguments of a `partial` without models, which ours
    replace.

    Args:
        name: the name of the metric.
        candidate: a class, a `partial` of a class, or an object.

    Raises:
        ConfigError: the class does not take the positional arguments of a `partial`.
    """
    arguments: dict[str, Any] = {}
    if isinstance(candidate, partial):
        arguments = _arguments_of_partial(f"ragas.{name}.arguments", candidate)
        for model in MODELS:
            arguments.pop(model, None)
        candidate = candidate.func
    kind = candidate if isclass(candidate) else type(candidate)
    return RagasMetricConfig(metric=f"{kind.__module__}:{kind.__qualname__}", arguments=arguments)


def _arguments_of_partial(place: str, metric: partial[Any]) -> dict[str, Any]:
    """Return the arguments of a `partial` of a class, by name.

    Raises:
        ConfigError: there are more positional arguments than the class has parameters, or one of
            them is given by name, too. The message begins with `place`.
    """
    kind = metric.func
    try:
        positional = signature(kind).bind_partial(*metric.args).arguments
    except TypeError as error:
        raise ConfigError([f"{place}: {kind.__name__}: {error}"]) from None
    for argument in metric.keywords:
        if argument in positional:
            raise ConfigError([f"{place}.{argument}: is given twice, by position and by name"])
    return {**metric.keywords, **positional}


class MetricsGiven(NamedTuple):
    """The metrics that a caller gives in Python, by kind and name.

    Attributes:
        functions: metrics in code: functions, or their paths.
        ragas_sections: the section of the configuration for each metric of ragas.
        ragas: the class or the object of each metric of ragas.
    """

    functions: dict[str, Any]
    ragas_sections: dict[str, RagasMetricConfig]
    ragas: dict[str, Any]


def split_metrics(metrics: Mapping[str, Any]) -> MetricsGiven:
    """Split metrics that a caller gives, by name, into functions and metrics of ragas.

    Raises:
        ConfigError: the arguments of a `partial` of a metric of ragas are wrong.
    """
    split = MetricsGiven(functions={}, ragas_sections={}, ragas={})
    for name, metric in metrics.items():
        if is_ragas_metric(metric):
            split.ragas_sections[name] = section_of(name, metric)
            split.ragas[name] = metric.func if isinstance(metric, partial) else metric
        else:
            split.functions[name] = metric
    return split


def can_be_imported(metric: Any) -> bool:
    """Return whether another process can import a metric of ragas by the path of its class.

    An object cannot be imported, as it may differ from a new object of its class.
    """
    if not isclass(metric):
        return False
    try:
        return resolve_name(f"{metric.__module__}:{metric.__qualname__}") is metric
    except (ImportError, AttributeError, ValueError):
        return False


def make_ragas_metrics(
    sections: Mapping[str, RagasMetricConfig],
    classes_and_objects: Mapping[str, Any] = NOTHING_GIVEN,
) -> list[RagasMetric]:
    """Make the metrics of ragas that sections of the configuration name; imports ragas.

    Args:
        sections: the sections by name of the metric.
        classes_and_objects: classes or objects that a caller gives in Python, by name of the
            metric.

    Raises:
        ConfigError: metrics cannot be made; see `make_ragas_metric`. The error has the problems of
            all metrics.
    """
    metrics = []
    problems = []
    for name, section in sections.items():
        try:
            metrics.append(make_ragas_metric(name, section, classes_and_objects.get(name)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        # If ragas cannot be imported, all metrics have the same problem: keep it once.
        raise ConfigError(list(dict.fromkeys(problems)))
    return metrics


def make_ragas_metric(
    name: str, section: RagasMetricConfig, class_or_object: Any = None
) -> RagasMetric:
    """Make a metric of ragas that asks our judge, and check that it can run; imports ragas.

    Args:
        name: the metric's name in the configuration.
        section: the section of the configuration, with the path of the class and its arguments.
        class_or_object: the class or the object if a caller gives one in Python, which is not
            changed; None to look up the class.

    Raises:
        ConfigError: there is no such metric, a package that the metric needs is not installed, or
            the metric does not take these arguments.
    """
    place = f"ragas.{name}"
    load_ragas()
    for model in MODELS:
        if model in section.arguments:
            problem = "metrics ask the models of llm.generation and llm.embedding: set them there"
            raise ConfigError([f"{place}.arguments.{model}: {problem}"])
    if class_or_object is None:
        class_or_object = _find_metric(place, section.metric)

    # Make an object. Arguments that its class does not take are inputs of the metric.
    constants = dict(section.arguments)
    is_class = isclass(class_or_object)
    if is_class:
        arguments = _constructor_arguments(name, class_or_object, section.arguments)
        metric = _construct(place, class_or_object, arguments)
        constants = {key: value for key, value in constants.items() if key not in arguments}
    else:
        metric = _copy_with_judge(class_or_object)
    if hasattr(metric, "init"):
        _initialize_older(place, metric, has_strictness="strictness" in section.arguments)

    # Check that the metric can run, and find out which inputs and models it needs.
    _check_usable(place, metric)
    inputs = _inputs_of_metric(metric)
    if not is_class:
        _check_arguments_of_object(place, metric, constants)
    _check_constants(place, metric, constants, inputs)
    asks_embeddings = hasattr(metric, "embeddings")
    limits = _limits(metric)
    if asks_embeddings:
        # Cosines may be negative, whatever range ragas states.
        limits = None
    return RagasMetric(
        name=name,
        needs=tuple(inputs.needs),
        takes=frozenset(inputs.takes),
        constants=constants,
        asks_llm=_asks_llm(metric),
        asks_embeddings=asks_embeddings,
        limits=limits,
        gives_text=isinstance(getattr(metric, "allowed_values", None), list),
        lower_is_better=any(base.__name__ in LOWER_IS_BETTER for base in type(metric).__mro__),
        metric=metric,
        identity=_identity_of(metric),
    )


def _asks_llm(metric: Any) -> bool:
    """Return whether a metric of ragas asks an LLM."""
    # A metric that is made from a prompt gets the LLM only with each call.
    is_made_from_prompt = hasattr(metric, "get_variables")
    return is_made_from_prompt or hasattr(metric, "llm")


def _identity_of(metric: Any) -> tuple[str, ...]:
    """Return texts that differ if metrics of ragas have different code.

    They are the path of the class and, for a decorated function, its path and its source code.
    """
    kind = type(metric)
    path = f"{kind.__module__}:{kind.__qualname__}"
    function = getattr(metric, "_func", None)
    if function is None:
        return (path,)
    path_of_function = f"{function.__module__}:{function.__qualname__}"
    try:
        source = getsource(function)
    except (OSError, TypeError):
        # Such as a function that was typed in a shell.
        source = ""
    return path, path_of_function, source


def _initialize_older(place: str, metric: Any, *, has_strictness: bool) -> None:
    """Let a metric of the older module `ragas.metrics` make the metrics that it uses.

    Args:
        place: the place of the metric in the configuration, for the error.
        metric: the metric.
        has_strictness: whether the configuration gives its argument `strictness`.

    Raises:
        ConfigError: the metric is to ask more than once.
    """
    from ragas.run_config import RunConfig

    # Our judge repeats failed calls, so ragas must not.
    metric.init(RunConfig(max_retries=1))
    strictness = getattr(metric, "strictness", 1)
    if strictness == 1:
        return
    kind = type(metric)
    default = parameters_by_name(kind)["strictness"].default
    if has_strictness or strictness != default:
        problem = (
            f"expected 1, since the older {kind.__name__} asks once; for several replies, use "
            "AnswerRelevancy, or several judges"
        )
        raise ConfigError([f"{place}.arguments.strictness: {problem}"])
    # With the default of 3, the metric would log a warning that it gets one reply.
    metric.strictness = 1


def _check_usable(place: str, metric: Any) -> None:
    """Check that a metric of ragas can give a value for a response.

    Raises:
        ConfigError: the metric cannot. The message begins with `place`.
    """
    kind = type(metric).__name__
    if kind.startswith("MultiModal"):
        raise ConfigError([f"{place}: {kind} needs images, which responses lack"])
    # If `allowed_values` is an int, it is the length of the list that the metric gives.
    if isinstance(getattr(metric, "allowed_values", None), int):
        raise ConfigError([f"{place}: a metric that gives a list cannot be a score"])
    check_late_packages(place, metric)
    if hasattr(metric, "get_required_columns"):
        turns = _turns_of_older(metric)
        if turns not in metric.get_required_columns():
            raise ConfigError(
                [f"{place}: {kind} does not list its inputs: its _required_columns lack {turns}"]
            )

    # From a prompt that is a text, ragas makes an object with an `instruction`.
    is_made_from_prompt = hasattr(metric, "get_variables") and hasattr(metric, "prompt")
    if is_made_from_prompt and not hasattr(metric.prompt, "instruction"):
        raise ConfigError([f"{place}.arguments: {kind} needs 'prompt', a text"])


def _check_arguments_of_object(place: str, metric: Any, arguments: Mapping[str, Any]) -> None:
    """Check that the arguments for a ready-made object of ragas are none of its class.

    Raises:
        ConfigError: one is. The message begins with `place`.
    """
    kind = type(metric)
    for name in arguments:
        if name in parameters_by_name(kind):
            problem = (
                f"the metric is a ready-made object; name its class {kind.__name__} to give it "
                "arguments"
            )
            raise ConfigError([f"{place}.arguments.{name}: {problem}"])


def _check_constants(
    place: str, metric: Any, constants: Mapping[str, Any], inputs: MetricInputs
) -> None:
    """Check the arguments in the configuration that stand for inputs of a metric of ragas.

    Each must be an input of the metric and have its type. They must include every input that the
    metric needs and that no response has.

    Args:
        place: the place of the metric in the configuration, for the error.
        metric: the metric.
        constants: the arguments that the class of the metric does not take.
        inputs: the inputs of the metric.

    Raises:
        ConfigError: an argument is not an input, or has a wrong type, or an input is missing.
    """
    kind = type(metric)
    for name in constants:
        if name not in inputs.takes:
            hint = did_you_mean(name, [*parameters_by_name(kind), *sorted(inputs.takes)])
            raise ConfigError(
                [f"{place}.arguments: {kind.__name__} does not take {name!r}; {hint}"]
            )
    check_inputs(f"{place}.arguments", metric, constants)
    for name in inputs.needs:
        if name not in INPUTS and name not in constants:
            raise ConfigError(
                [f"{place}.arguments: {kind.__name__} needs {name!r}, which no response has"]
            )


def _find_metric(place: str, path: str) -> Any:
    """Return the class or the object of a metric of ragas.

    Args:
        place: the place of the metric in the configuration, for the error.
        path: the name of the metric in the modules of ragas, or ``module:name``.

    Raises:
        ConfigError: there is no such metric.
    """
    module_name, _, name = path.rpartition(":")
    module_names = [COLLECTIONS, OLDER]
    if module_name:
        module_names = [module_name]
    with warnings.catch_warnings():
        # Older metrics warn that there are newer ones, even where there are none.
        warnings.simplefilter("ignore", DeprecationWarning)
        for module in module_names:
            try:
                metric = getattr(import_module(module), name)
            except AttributeError:
                # This module does not have the name.
                continue
            except ImportError as error:
                raise ConfigError([f"{place}: {path!r} cannot be imported: {error}"]) from error
            if is_ragas_metric(metric) and name not in NOT_METRICS:
                return metric
    hint = did_you_mean(name, names_of_metrics())
    raise ConfigError([f"{place}: {path!r} is no metric of ragas; {hint}"])


def names_of_metrics() -> list[str]:
    """Import ragas, and return the names of its classes of metrics, the newer classes first."""
    load_ragas()
    newer_names = import_module(COLLECTIONS).__all__
    older_names = getattr(import_module(OLDER), "_DEPRECATED_METRICS", {})
    names = dict.fromkeys([*newer_names, *older_names])
    # The older module also has ready-made objects, whose names are in lower case.
    return [name for name in names if name not in NOT_METRICS and not name.islower()]


def _constructor_arguments(name: str, kind: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which to make a metric of the class `kind`.

    These are the configured arguments that the class takes, and:

    - an LLM and embeddings that ask our judge, whatever is configured, if the class takes them
    - the name of the metric, if the class needs a name and none is configured

    Args:
        name: the metric's name in the configuration.
        kind: the class.
        arguments: the arguments in the configuration; texts stand for members of enumerations.

    Raises:
        ConfigError: an argument has the wrong type.
    """
    from graphrag_eval_async.metrics.ragas_models import EMBEDDINGS, LLM

    place = f"ragas.{name}.arguments"
    parameters = parameters_by_name(kind)
    our_models = {"llm": LLM, "embeddings": EMBEDDINGS}
    taken: dict[str, Any] = {}
    for key, value in arguments.items():
        if key not in parameters or key in our_models:
            continue
        if key == "allowed_values" and _is_range(value):
            # Ragas takes a tuple for a range, and a list for the texts that a metric may give.
            taken[key] = tuple(value)
        else:
            taken[key] = member_of_enum(f"{place}.{key}", value, parameters[key].default)
    check_constructor_arguments(place, kind, taken)

    if "name" in parameters and parameters["name"].default is Parameter.empty:
        taken.setdefault("name", name)
    taken_models = {key: model for key, model in our_models.items() if key in parameters}
    return taken | taken_models


def _is_range(value: Any) -> bool:
    """Return whether a value is a list of two numbers, as for the range of a metric's values."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(isinstance(number, int | float) for number in value)


def _construct(place: str, kind: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a new metric of ragas, of the class `kind`.

    Raises:
        ConfigError: the class needs a package that is not installed, or it does not accept the
            arguments. The message begins with `place`.
    """
    missing = [
        name
        for name, parameter in parameters_by_name(kind).items()
        if parameter.default is Parameter.empty
        and parameter.kind is not Parameter.VAR_POSITIONAL
        and name not in arguments
    ]
    if missing:
        raise ConfigError(
            [f"{place}.arguments: {kind.__name__} needs the argument {', '.join(missing)}"]
        )
    try:
        return kind(**arguments)
    except ImportError as error:
        raise ConfigError([f"{place}: {kind.__name__} needs a package: {error}"]) from error
    except Exception as error:
        problem = describe_exception(error)
        raise ConfigError([f"{place}: {kind.__name__} cannot be made: {problem}"]) from error


def _copy_with_judge(metric: Any) -> Any:
    """Return a copy of a metric of ragas that asks our judge.

    The metrics that it uses, at any depth, are copied and changed in the same way.
    """
    from graphrag_eval_async.metrics.ragas_models import EMBEDDINGS, LLM

    copied = copy.copy(metric)
    for name, value in list(vars(copied).items()):
        if name == "llm":
            copied.llm = LLM
        elif name == "embeddings":
            copied.embeddings = EMBEDDINGS
        elif is_ragas_metric(value):
            setattr(copied, name, _copy_with_judge(value))
    return copied


class MetricInputs(NamedTuple):
    """The inputs of a metric, by the names of ragas.

    Attributes:
        takes: all inputs that the metric takes.
        needs: the inputs without which the metric is skipped.
    """

    takes: list[str]
    needs: list[str]


def _inputs_of_metric(metric: Any) -> MetricInputs:
    """Return the inputs of a metric of ragas.

    A metric that takes the response needs it here, even if it is optional for ragas. A metric that
    is made with `with_reference` needs the reference.
    """
    inputs = _declared_inputs(metric)
    needs = list(inputs.needs)
    if "response" in inputs.takes:
        needs.append("response")
    if "reference" in inputs.takes and getattr(metric, "with_reference", False):
        needs.append("reference")
    distinct_needs = list(dict.fromkeys(needs))
    return MetricInputs(inputs.takes, distinct_needs)


def _declared_inputs(metric: Any) -> MetricInputs:
    """Return the inputs that a metric of ragas declares. Each of three kinds has its own way."""
    # Metrics of the older module `ragas.metrics` list their inputs.
    if hasattr(metric, "get_required_columns"):
        turns = _turns_of_older(metric)
        return MetricInputs(
            takes=sorted(metric.get_required_columns(with_optional=True)[turns]),
            needs=sorted(metric.get_required_columns()[turns]),
        )
    # Metrics that are made from a prompt have its placeholders.
    if hasattr(metric, "get_variables"):
        placeholders = list(dict.fromkeys(metric.get_variables()))
        return MetricInputs(takes=placeholders, needs=placeholders)

    # All other metrics have the parameters of a function.
    parameters = parameters_by_name(scoring_function(metric))
    required = [
        name for name, parameter in parameters.items() if parameter.default is Parameter.empty
    ]
    return MetricInputs(takes=[*parameters], needs=required)


def _turns_of_older(metric: Any) -> str:
    """Return under which name an older metric of ragas lists the inputs that it is called with."""
    if takes_conversation(metric):
        return "MULTI_TURN"
    return "SINGLE_TURN"


def _limits(metric: Any) -> tuple[float, float] | None:
    """Return the least and the greatest value that ragas states for a metric; None if none are."""
    allowed_values = getattr(metric, "allowed_values", None)
    if isinstance(allowed_values, tuple) and len(allowed_values) == 2:
        low, high = allowed_values
        return float(low), float(high)
    if isinstance(allowed_values, range) and allowed_values:
        return float(min(allowed_values)), float(max(allowed_values))
    # Some older metrics only state the kind of their values: "BINARY" is 0 or 1.
    output_type = getattr(metric, "output_type", None)
    if getattr(output_type, "name", None) == "BINARY":
        return 0.0, 1.0
    return None


@cache
def metric_of_collections(name: str) -> Any:
    """Return a metric of `ragas.metrics.collections` that asks our judge, for a built-in metric.

    The metric is made once in a process. It keeps no state, so all calls may share it.

    Args:
        name: the name of the metric's class.
    """
    load_ragas()
    kind = getattr(import_module(COLLECTIONS), name)
    return kind(**_constructor_arguments(name, kind, {}))
