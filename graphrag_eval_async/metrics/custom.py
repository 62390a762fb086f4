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
    Keys,
    Metric,
    Prompt,
    dumps,
    fill,
    has_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config.model import CustomEvaluationConfig

_FRACTION = re.compile(r"\s*fraction 0-1(?!\.?\d)", re.IGNORECASE)

_IN_WORDS = {"number": "a finite number of at most 64 bits", "string": "a string"}
"""What values of each type are, for the judge."""


def custom_evaluation(config: CustomEvaluationConfig) -> Metric:
    """Return a metric whose outputs the judge gives in one call for the configured inputs.

    Needs all inputs. Steps without any of the configured name are an empty list. An output
    described as "fraction 0-1..." is a number from 0 to 1. Others are finite numbers or strings, as
    configured; without a type, the judge chooses.
    """
    outputs = {name: Output.of(output) for name, output in config.outputs.items()}
    prompt = Prompt(
        instructions=f"{fill(config.instructions, config.inputs)}\n\n{_describe_reply(outputs)}",
        form=_reply_format(config.name, outputs),
    )

    def applies(case: Case) -> bool:
        if any(getattr(case, name) is None for name in config.inputs):
            return False
        return "question" not in config.inputs or has_text(case.question)

    async def score(case: Case, calls: Calls) -> Keys:
        blocks = {name: _block_of(case, name, config) for name in config.inputs}
        reply = await prompt.ask(calls, **blocks)
        return dict(reply)

    selection = dumps((config.inputs, config.steps_name, config.steps_keys))
    return Metric.of_answer(config.name, [*prompt.texts, selection], applies, score)


def kinds_of_outputs(evaluations: Iterable[CustomEvaluationConfig]) -> dict[str, list[str]]:
    """Return output names by kind: all "outputs", "fractions" (numbers from 0 to 1), "texts"
    (strings). Kinds without outputs are left out.
    """
    outputs: dict[str, Output] = {}
    for evaluation in evaluations:
        for name, output in evaluation.outputs.items():
            outputs[name] = Output.of(output)
    kinds = {
        "outputs": [*outputs],
        "fractions": [name for name, output in outputs.items() if output.is_fraction],
        "texts": [name for name, output in outputs.items() if output.types == ("string",)],
    }
    return {kind: names for kind, names in kinds.items() if names}


@dataclass(frozen=True)
class Output:
    """An output of a custom evaluation.

    Attributes:
        description: what the judge is told about it.
        types: the types of JSON that it may have.
        is_fraction: whether it is a number from 0 to 1.
    """

    description: str
    types: tuple[str, ...]
    is_fraction: bool

    @classmethod
    def of(cls, config: str | OutputConfig) -> Output:
        """Return the output that a description, or a section, stands for."""
        description = config if isinstance(config, str) else config.description
        says_fraction = _FRACTION.match(description) is not None
        types: tuple[str, ...] = ("number", "string")
        if isinstance(config, OutputConfig):
            types = (config.type,)
        elif says_fraction:
            types = ("number",)
        return cls(description, types, is_fraction=says_fraction and types == ("number",))

    @property
    def in_words(self) -> str:
        """What a value is, in words."""
        if self.is_fraction:
            return "a number from 0 to 1"
        return " or ".join(_IN_WORDS[name] for name in self.types)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        types = [{"type": name} for name in self.types]
        if len(types) == 1:
            return {**types[0], "description": self.description}
        return {"anyOf": types, "description": self.description}

    def allows(self, value: Any) -> bool:
        """Return whether a value has one of the types, and is within the range."""
        if type(value) is str:
            return "string" in self.types
        if "number" not in self.types or not _is_number(value):
            return False
        return not self.is_fraction or 0 <= value <= 1


def _is_number(value: Any) -> bool:
    """Return whether a value is a finite number of at most 64 bits; a boolean is none."""
    if type(value) is float:
        return isfinite(value)
    return type(value) is int and fits_64_bits(value)


def _describe_reply(outputs: Mapping[str, Output]) -> str:
    """Return the reply in words, since not every server shows the schema to the model."""
    lines = ["Reply with a JSON object of exactly these keys:"]
    for name, output in outputs.items():
        lines.append(f"- {dumps(name)}, {output.in_words}: {output.description}")
    return "\n".join(lines)


def _reply_format(title: str, outputs: Mapping[str, Output]) -> ResponseFormat[dict[str, Any]]:
    """Return the format of a reply that has these outputs."""

    def read(reply: Any) -> dict[str, Any]:
        if not isinstance(reply, dict):
            raise ValueError("the reply must be a JSON object")
        problems = [f"{name!r}: missing" for name in outputs if name not in reply]
        for name, output in outputs.items():
            if name in reply and not output.allows(reply[name]):
                quoted = reprlib.repr(reply[name])
                problems.append(f"{name!r}: must be {output.in_words}, not {quoted}")
        if problems:
            raise ValueError("; ".join(problems))
        return {name: reply[name] for name in outputs}

    properties = {name: output.schema for name, output in outputs.items()}
    schema = strict({"title": title, "type": "object", "properties": properties})
    return ResponseFormat(schema, read)


def _block_of(case: Case, name: str, config: CustomEvaluationConfig) -> str:
    """Return an input as text: steps as JSON, without groups that have no selected step."""
    value = getattr(case, name)
    if name == "actual_steps":
        return dumps(_select_steps(value, config))
    if name == "reference_steps":
        groups = [_select_steps(group, config) for group in value]
        return dumps([group for group in groups if group])
    return str(value)


def _select_steps(
    steps: Sequence[Mapping[str, Any]], config: CustomEvaluationConfig
) -> list[dict[str, Any]]:
    """Return the steps with the configured name, reduced to the configured keys."""
    selected = []
    for step in steps:
        if config.steps_name not in (None, step.get("name")):
            continue
        shown_keys = config.steps_keys or step
        shown_step = {key: step[key] for key in shown_keys if key in step}
        output = shown_step.get("output")
        if isinstance(output, str):
            shown_step["output"] = _decoded(output)
        selected.append(shown_step)
    return selected


def _decoded(output: str) -> Any:
    """Return JSON text as JSON, since escaped JSON within JSON is hard to read; other text as it
    is.
    """
    with suppress(ValueError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(output)))
    return output
