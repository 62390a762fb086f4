"""Custom evaluations: one call to the judge with the user's instructions and outputs."""

from __future__ import annotations

import re
import reprlib
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec

from graphrag_eval_async.catalogue.metrics import fits_64_bits
from graphrag_eval_async.config.model import OutputConfig
from graphrag_eval_async.judge.protocol import ResponseFormat, strict
from graphrag_eval_async.metrics.metric import (
    Calls,
    Case,
    Metric,
    Prompt,
    has_text,
    replace_placeholders,
    to_json,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config.model import CustomEvaluationConfig

STARTS_WITH_FRACTION = re.compile(r"\s*fraction 0-1(?!\.?\d)", re.IGNORECASE)
"""The start of a description of a number from 0 to 1: "fraction 0-1", but not "fraction 0-1.5"."""

VALUES_IN_WORDS = {"number": "a finite number of at most 64 bits", "string": "a string"}
"""The values of each type of JSON, described for the judge."""


def custom_evaluation(config: CustomEvaluationConfig) -> Metric:
    """Return a custom evaluation: a metric whose outputs the judge gives in one call.

    The judge sees the user's instructions and the configured inputs, all of which are needed. If
    no step has the configured name, the judge sees an empty list of steps.

    An output described as "fraction 0-1..." is a number from 0 to 1. Any other output is a finite
    number or a string, as configured; if no type is configured, the judge chooses.
    """
    outputs = {name: Output.from_config(output) for name, output in config.outputs.items()}
    instructions = replace_placeholders(config.instructions, config.inputs)
    prompt = Prompt(
        instructions=f"{instructions}\n\n{_describe_reply(outputs)}",
        reply_format=_reply_format(config.name, outputs),
    )

    def applies(case: Case) -> bool:
        """Return whether a response and its question have all configured inputs."""
        for name in config.inputs:
            if getattr(case, name) is None:
                return False
        return "question" not in config.inputs or has_text(case.question)

    async def score(case: Case, calls: Calls) -> dict[str, Any]:
        """Ask the judge, and return the value of each output, by the output's name."""
        blocks = {name: _input_as_text(case, name, config) for name in config.inputs}
        outputs_of_judge: dict[str, Any] = await prompt.ask(calls, **blocks)
        return outputs_of_judge

    # The inputs and the selected steps change what the judge sees, so the hash of prompts has them.
    selection = to_json((config.inputs, config.steps_name, config.steps_keys))
    return Metric.of_answer(config.name, [*prompt.texts, selection], applies, score)


def kinds_of_outputs(evaluations: Iterable[CustomEvaluationConfig]) -> dict[str, list[str]]:
    """Return the names of the outputs of custom evaluations, in up to three lists.

    The list "outputs" has all names, "fractions" the names of numbers from 0 to 1, and "texts" the
    names of strings. An empty list is left out.
    """
    outputs: dict[str, Output] = {}
    for evaluation in evaluations:
        for name, output in evaluation.outputs.items():
            outputs[name] = Output.from_config(output)
    names_by_kind = {
        "outputs": [*outputs],
        "fractions": [name for name, output in outputs.items() if output.is_fraction],
        "texts": [name for name, output in outputs.items() if output.types == ("string",)],
    }
    return {kind: names for kind, names in names_by_kind.items() if names}


@dataclass(frozen=True)
class Output:
    """An output of a custom evaluation.

    Attributes:
        description: the description that the judge sees.
        types: the JSON types that a value of the output may have.
        is_fraction: whether a value of the output must be a number from 0 to 1.
    """

    description: str
    types: tuple[str, ...]
    is_fraction: bool

    @classmethod
    def from_config(cls, config: str | OutputConfig) -> Output:
        """Return an output from its configuration: a description, or a section with a type.

        A description alone that starts with "fraction 0-1" means a number; any other means a number
        or a string.
        """
        if isinstance(config, OutputConfig):
            description = config.description
            types: tuple[str, ...] = (config.type,)
        else:
            description = config
            types = ("number", "string")
        says_fraction = STARTS_WITH_FRACTION.match(description) is not None
        if says_fraction and isinstance(config, str):
            types = ("number",)
        # A section may describe a string as a fraction; only a number is one.
        is_fraction = says_fraction and types == ("number",)
        return cls(description, types, is_fraction)

    @property
    def allowed_values(self) -> str:
        """The values that the output may have, in words."""
        if self.is_fraction:
            return "a number from 0 to 1"
        return " or ".join(VALUES_IN_WORDS[name] for name in self.types)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the output's values."""
        types = [{"type": name} for name in self.types]
        if len(types) == 1:
            return {**types[0], "description": self.description}
        return {"anyOf": types, "description": self.description}

    def allows(self, value: Any) -> bool:
        """Return whether a value has an allowed type and, for a fraction, is from 0 to 1."""
        if type(value) is str:
            return "string" in self.types
        if "number" not in self.types or not _is_number(value):
            return False
        if self.is_fraction:
            is_in_range: bool = 0 <= value <= 1
            return is_in_range
        return True


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number of at most 64 bits; a boolean is not a number."""
    # `isinstance` would accept booleans, which are instances of `int`.
    if type(value) is float:
        return isfinite(value)
    return type(value) is int and fits_64_bits(value)


def _describe_reply(outputs: Mapping[str, Output]) -> str:
    """Return instructions that list the outputs that a reply must have, with their descriptions.

    The JSON Schema of replies says the same, but not every server shows the schema to the model.

    Args:
        outputs: the outputs, by name.
    """
    lines = ["Reply with a JSON object of exactly these keys:"]
    for name, output in outputs.items():
        lines.append(f"- {to_json(name)}, {output.allowed_values}: {output.description}")
    return "\n".join(lines)


def _reply_format(title: str, outputs: Mapping[str, Output]) -> ResponseFormat[dict[str, Any]]:
    """Return the format of a reply: a JSON object with a value for each output.

    Args:
        title: the title of the JSON Schema.
        outputs: the outputs, by their keys in the object.
    """

    def read_reply(reply: Any) -> dict[str, Any]:
        """Return the values of `outputs` (of the enclosing function) in a reply of the judge.

        Raises:
            ValueError: values are missing or invalid. The message names all of them.
        """
        if not isinstance(reply, dict):
            raise ValueError("the reply must be a JSON object")
        problems = [f"{name!r}: missing" for name in outputs if name not in reply]
        for name, output in outputs.items():
            if name in reply and not output.allows(reply[name]):
                shortened = reprlib.repr(reply[name])
                problems.append(f"{name!r}: must be {output.allowed_values}, not {shortened}")
        if problems:
            raise ValueError("; ".join(problems))
        # Other keys of the reply were not asked for, and are dropped.
        return {name: reply[name] for name in outputs}

    properties = {name: output.schema for name, output in outputs.items()}
    schema = strict({"title": title, "type": "object", "properties": properties})
    return ResponseFormat(schema, read_reply)


def _input_as_text(case: Case, name: str, config: CustomEvaluationConfig) -> str:
    """Return an input of a custom evaluation as text for the judge.

    Steps become JSON with only the configured steps and keys. Groups of reference steps in which no
    step is left are dropped.

    Args:
        case: the response and its question.
        name: the name of the input, such as "actual_steps".
        config: the custom evaluation.
    """
    value = getattr(case, name)
    if name == "actual_steps":
        return to_json(_select_steps(value, config))
    if name == "reference_steps":
        groups = [_select_steps(group, config) for group in value]
        return to_json([group for group in groups if group])
    return str(value)


def _select_steps(
    steps: Sequence[Mapping[str, Any]], config: CustomEvaluationConfig
) -> list[dict[str, Any]]:
    """Return the steps that have the configured name, with only the configured keys.

    All steps are returned if no name is configured, and whole steps if no keys are configured.
    """
    selected_steps = []
    for step in steps:
        has_name = config.steps_name is None or step.get("name") == config.steps_name
        if not has_name:
            continue
        shown_keys = config.steps_keys or step.keys()
        shown_step = {key: step[key] for key in shown_keys if key in step}
        # An output that is JSON text would be JSON within JSON, which is hard to read.
        output = shown_step.get("output")
        if isinstance(output, str):
            shown_step["output"] = _decode_json(output)
        selected_steps.append(shown_step)
    return selected_steps


def _decode_json(text: str) -> Any:
    """Return JSON text as a value that msgspec encodes as this JSON, not as an escaped string.

    Text that is not JSON is returned unchanged.
    """
    with suppress(ValueError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(text)))
    return text
