"""Checks of metrics of ragas before the first call: types of arguments, and missing packages.

Ragas itself takes arguments of any type. A wrong one then changes values silently, or fails for
each result.
"""

from __future__ import annotations

import sys
import warnings
from enum import Enum
from importlib.util import find_spec
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

from graphrag_eval_async.errors import ConfigError, describe
from graphrag_eval_async.metrics.ragas_metric import takes_conversation

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_VALUES = {"max_retries": 1, "strictness": 1}
"""The least values of arguments by which ragas decides how often to ask the judge.

Their type is any integer, but with 0, ragas asks nothing, and gives 0 or no value.
"""

LATE_PACKAGES = {"BleuScore": "sacrebleu", "CHRFScore": "sacrebleu", "RougeScore": "rouge_score"}
"""Packages that metrics of `ragas.metrics.collections` import with the first value.

Other metrics import theirs when they are made.
"""


def parameters_by_name(function: Any) -> dict[str, Parameter]:
    """Return the parameters of a function or of a class's constructor, except `**kwargs`."""
    return {
        name: parameter
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }


def scoring_function(metric: Any) -> Any:
    """Return the function of a newer metric of ragas whose parameters are the metric's inputs.

    This is the method `ascore` or, if a decorator made the metric, the decorated function.
    """
    # The method `ascore` of a decorated function takes any arguments.
    return getattr(metric, "_func", None) or metric.ascore


def member_of_enum(place: str, value: Any, default: Any) -> Any:
    """Return the member of an enumeration for its text; return any other value unchanged.

    An argument takes members of an enumeration if its default is a member.

    Args:
        place: the place of the argument in the configuration, for the error.
        value: the value of the argument.
        default: the default of the argument.

    Raises:
        ConfigError: the enumeration has no such member.
    """
    if not isinstance(default, Enum) or not isinstance(value, str):
        return value
    enumeration = type(default)
    allowed_values = [member.value for member in enumeration]
    if value not in allowed_values:
        allowed = ", ".join(map(str, allowed_values))
        raise ConfigError([f"{place}: expected one of {allowed}, got {value!r}"])
    return enumeration(value)


def check_constructor_arguments(place: str, kind: type, arguments: Mapping[str, Any]) -> None:
    """Check arguments against the types that the constructor of a metric of ragas declares.

    Args:
        place: the place of the arguments in the configuration, for the error.
        kind: the class of the metric.
        arguments: arguments that the constructor takes, by name.

    Raises:
        ConfigError: an argument has another type, or is less than its least value.
    """
    parameters = parameters_by_name(kind)
    for name, value in arguments.items():
        place_of_argument = f"{place}.{name}"
        declared_type = _declared_type(kind, parameters[name])
        _check_type(place_of_argument, value, declared_type)
        least_value = LEAST_VALUES.get(name)
        if least_value is not None and value < least_value:
            raise ConfigError(
                [f"{place_of_argument}: expected at least {least_value}, got {describe(value)}"]
            )


def check_inputs(place: str, metric: Any, inputs: Mapping[str, Any]) -> None:
    """Check inputs from the configuration against the types that a metric of ragas declares.

    Args:
        place: the place of the inputs in the configuration, for the error.
        metric: the metric, an object.
        inputs: the inputs, by name. The metric takes all of them.

    Raises:
        ConfigError: an input has another type.
    """
    for name, value in inputs.items():
        _check_type(f"{place}.{name}", value, _type_of_input(metric, name))


def check_late_packages(place: str, metric: Any) -> None:
    """Check that the package that a metric of ragas imports with its first value is installed.

    Most metrics import no package so late.

    Raises:
        ConfigError: the package is not installed. The message begins with `place`.
    """
    # The metric may be of a class of the user's with such a base.
    for base in type(metric).__mro__:
        package = LATE_PACKAGES.get(base.__name__)
        if package is None or not base.__module__.startswith("ragas."):
            continue
        if find_spec(package) is None:
            kind = type(metric).__name__
            raise ConfigError(
                [f"{place}: {kind} needs a package: {package}; run pip install {package}"]
            )


def _declared_type(kind: type, parameter: Parameter) -> Any:
    """Return the type that a class declares for a parameter of its constructor or its method.

    The result is `Any` if no type is declared, or if the type cannot be found at run time.
    """
    if parameter.annotation is Parameter.empty:
        return Any
    # An annotation may be a text, with names from the module of the class, or from the module of a
    # base from which a dataclass inherits the field.
    annotated = SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    for base in kind.__mro__:
        module = sys.modules.get(base.__module__)
        if module is None:
            continue
        try:
            return get_type_hints(annotated, vars(module))[parameter.name]
        except (NameError, AttributeError, SyntaxError, TypeError):
            # The name is from another module, only type checkers import it, or it is not a type.
            continue
    return Any


def _type_of_input(metric: Any, name: str) -> Any:
    """Return the type that a metric of ragas declares for an input; `Any` if there is none."""
    # Only metrics of the older module `ragas.metrics` have this method. They take samples, which
    # are models of pydantic.
    if hasattr(metric, "get_required_columns"):
        from ragas.dataset_schema import MultiTurnSample, SingleTurnSample

        fields = SingleTurnSample.model_fields
        if takes_conversation(metric):
            fields = MultiTurnSample.model_fields
        if name not in fields:
            return Any
        return fields[name].annotation

    # Newer metrics have the parameters of a function.
    parameters = parameters_by_name(scoring_function(metric))
    if name not in parameters:
        return Any
    return _declared_type(type(metric), parameters[name])


def _check_type(place: str, value: Any, declared_type: Any) -> None:
    """Check that a value has a declared type. The value is not converted: "no" is not a boolean.

    A tuple may stand for a list. If pydantic cannot check the type, any value is allowed.

    Raises:
        ConfigError: the value has another type. The message begins with `place`.
    """
    from pydantic import ConfigDict, TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError

    any_class_is_a_type = ConfigDict(arbitrary_types_allowed=True)
    try:
        with warnings.catch_warnings():
            # Pydantic warns of annotations that are no types, and then allows any value.
            warnings.simplefilter("ignore", UserWarning)
            adapter: TypeAdapter[Any] = TypeAdapter(declared_type, config=any_class_is_a_type)
    except (PydanticUserError, NameError):
        return
    if isinstance(value, tuple) and get_origin(declared_type) is list:
        value = list(value)
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        first_problem = error.errors()[0]
        raise ConfigError([_describe_type_error(place, first_problem)]) from None


def _describe_type_error(place: str, problem: Mapping[str, Any]) -> str:
    """Return the message for a wrong type: the place, the expected type and the actual value.

    Args:
        place: the place of the checked value in the configuration.
        problem: the error of pydantic. If an item of a list or a dict is wrong, the error has the
            path from the checked value to the item, which is added to `place`.
    """
    path = place
    for step in problem["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    expected = problem["msg"].removeprefix("Input should be ")
    return f"{path}: expected {expected}, got {describe(problem['input'])}"
