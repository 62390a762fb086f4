"""Custom evaluations: one call to the judge with the user's instructions and outputs."""

from __future__ import annotations

import re
import reprlib
from contextlib import suppress
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
_WANTED = {"number": "a finite number of at most 64 bits", "string": "a string"}


def custom_evaluation(config: CustomEvaluationConfig) -> Metric:
    """Return a metric whose outputs the judge gives in one call for the configured inputs.

    Needs all inputs. Steps without any of the configured name are an empty list. An output
    described as "fraction 0-1..." is a number from 0 to 1. Others are finite numbers or strings, as
    configured; without a type, the judge chooses.
    """
    outputs = {name: _Output(output) for name, output in config.outputs.items()}
    keys = [
        f"- {dumps(name)}, {output.wanted}: {output.description}"
        for name, output in outputs.items()
    ]
    # The reply in words: not every server shows the schema to the model.
    reply = "\n".join(["Reply with a JSON object of exactly these keys:", *keys])
    prompt = Prompt(
        f"{fill(config.instructions, config.inputs)}\n\n{reply}", _form(config.name, outputs)
    )

    def applies(case: Case) -> bool:
        given = {name: getattr(case, name) for name in config.inputs}
        return None not in given.values() and has_text(given.get("question", "unused"))

    async def score(case: Case, calls: Calls) -> Keys:
        return dict(
            await prompt.ask(calls, **{name: _block(case, name, config) for name in config.inputs})
        )

    prompts = [*prompt.texts, dumps((config.inputs, config.steps_name, config.steps_keys))]
    return Metric.of_answer(config.name, prompts, applies, score)


def kinds_of_outputs(evaluations: Iterable[CustomEvaluationConfig]) -> dict[str, list[str]]:
    """Return output names by kind: all "outputs", "fractions" (numbers from 0 to 1), "texts"
    (strings).
    """
    outputs = {
        name: _Output(output) for config in evaluations for name, output in config.outputs.items()
    }
    kinds = {
        "outputs": [*outputs],
        "fractions": [name for name, output in outputs.items() if output.is_fraction],
        "texts": [name for name, output in outputs.items() if output.types == ["string"]],
    }
    return {kind: names for kind, names in kinds.items() if names}


class _Output:
    """The expected type and range of an output; `wanted` describes them."""

    def __init__(self, config: str | OutputConfig) -> None:
        self.description = config if isinstance(config, str) else config.description
        is_fraction = _FRACTION.match(self.description) is not None
        if isinstance(config, OutputConfig):
            self.types: list[str] = [config.type]
        else:
            self.types = ["number"] if is_fraction else ["number", "string"]
        self.is_fraction = is_fraction and self.types == ["number"]
        wanted = " or ".join(_WANTED[name] for name in self.types)
        self.wanted = "a number from 0 to 1" if self.is_fraction else wanted
        types = [{"type": name} for name in self.types]
        self.schema: dict[str, Any] = types[0] if len(types) == 1 else {"anyOf": types}
        self.schema |= {"description": self.description}

    def allows(self, value: Any) -> bool:
        if type(value) is str:
            return "string" in self.types
        is_number = (
            isfinite(value) if type(value) is float else type(value) is int and fits_64_bits(value)
        )
        return "number" in self.types and is_number and (not self.is_fraction or 0 <= value <= 1)


def _form(title: str, outputs: Mapping[str, _Output]) -> ResponseFormat[dict[str, Any]]:
    def read(reply: Any) -> dict[str, Any]:
        if not isinstance(reply, dict):
            raise ValueError("the reply must be a JSON object")
        problems = [f"{name!r}: missing" for name in outputs if name not in reply]
        for name, output in outputs.items():
            if name in reply and not output.allows(reply[name]):
                problems.append(
                    f"{name!r}: must be {output.wanted}, not {reprlib.repr(reply[name])}"
                )
        if problems:
            raise ValueError("; ".join(problems))
        return {name: reply[name] for name in outputs}

    properties = {name: output.schema for name, output in outputs.items()}
    return ResponseFormat(
        strict({"title": title, "type": "object", "properties": properties}), read
    )


def _block(case: Case, name: str, config: CustomEvaluationConfig) -> str:
    """Return an input as text: steps as JSON, without groups that have no selected step."""
    value = getattr(case, name)
    if name == "actual_steps":
        return dumps(_selected(value, config))
    if name == "reference_steps":
        return dumps([steps for group in value if (steps := _selected(group, config))])
    return str(value)


def _selected(
    steps: Sequence[Mapping[str, Any]], config: CustomEvaluationConfig
) -> list[dict[str, Any]]:
    """Return the steps with the configured name, reduced to the configured keys.

    Outputs that are JSON text are decoded: escaped JSON within JSON is hard to read.
    """
    found = []
    for step in steps:
        if config.steps_name in (None, step.get("name")):
            kept = {key: step[key] for key in config.steps_keys or step if key in step}
            if isinstance(output := kept.get("output"), str):
                with suppress(ValueError, RecursionError):
                    kept["output"] = msgspec.Raw(msgspec.json.encode(msgspec.json.decode(output)))
            found.append(kept)
    return found
