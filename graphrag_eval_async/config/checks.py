"""What types cannot say of a configuration: how its values go together."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from graphrag_eval_async.config.model import METRICS
from graphrag_eval_async.config.wording import join
from graphrag_eval_async.records.metrics import COST, RESULT_KEYS

if TYPE_CHECKING:
    from graphrag_eval_async.config.model import (
        Config,
        CustomEvaluationConfig,
        EmbeddingConfig,
        GenerationConfig,
        RagasAnswerCorrectnessConfig,
    )

GATES = ("error_rate", "missing_rate")
"""Rates that the command line knows, besides metrics."""

Problem = Callable[[str, str], Any]

OF_THE_REQUEST = ("model", "messages", "response_format", "stream", "input", "n")
"""What `parameters` may not hold: each request has its own."""


def check_values(config: Config, problem: Problem) -> None:
    """Call `problem` with the key and the nature of all that cannot be right in itself."""
    if config.llm is not None:
        _check_model(config.llm.generation, "llm.generation", problem)
        _check_model(config.llm.embedding, "llm.embedding", problem)
    if config.ragas_answer_correctness is not None:
        _check_weights(config.ragas_answer_correctness, problem)
    _check_names(config.custom_evaluations, problem)
    for index, evaluation in enumerate(config.custom_evaluations):
        _check_inputs(evaluation, f"custom_evaluations[{index}]", problem)


def check_needs(config: Config, problem: Problem) -> None:
    """Call `problem` with what the metrics that are on lack."""
    embedding = metrics_that_embed(config)
    metrics = [name for name in METRICS if getattr(config, name) is not None]
    for key in [*metrics, *(f"custom_evaluations[{i}]" for i in range(len(config.custom_evaluations)))]:
        models = ("generation", "embedding") if key in embedding else ("generation",)
        lacking = [f"llm.{model}" for model in models if getattr(config.llm, model, None) is None]
        if lacking:
            problem(key, f"needs {' and '.join(lacking)}")


def metrics_that_embed(config: Config) -> list[str]:
    """Those that are on and need a model of embeddings."""
    metrics = [] if config.answer_relevance is None else ["answer_relevance"]
    correctness = config.ragas_answer_correctness
    if correctness is not None and correctness.weights[1] > 0:
        metrics.append("ragas_answer_correctness")
    return metrics


def _check_model(model: GenerationConfig | EmbeddingConfig | None, key: str, problem: Problem) -> None:
    if model is None:
        return
    if model.base_url is not None and (wrong := wrong_with_url(model.base_url)):
        problem(f"{key}.base_url", wrong)
    if model.api_key is not None and not is_key(model.api_key):
        problem(f"{key}.api_key", "expected ASCII characters without white space, as an HTTP header has them")
    for parameter in OF_THE_REQUEST:
        if parameter in model.parameters:
            problem(f"{key}.parameters.{parameter}", "may not be given: each request has its own")


def wrong_with_url(text: str) -> str | None:
    """What keeps a text from being a base URL, if anything does; it shows nothing of it."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none
        has_place = False
    if not (has_place and parts.scheme in {"http", "https"} and text.isprintable() and " " not in text):
        return "expected a URL that begins with http:// or https://"
    if "@" in parts.netloc or "?" in text or "#" in text:  # Transports log them, and paths are appended.
        return "may hold no user, password, query or fragment; a key belongs in api_key"
    return None


def is_key(text: str) -> bool:
    """Whether it can be sent in an HTTP header."""
    return re.fullmatch("[!-~]+", text) is not None


def _check_weights(metric: RagasAnswerCorrectnessConfig, problem: Problem) -> None:
    if sum(metric.weights) == 0 or not isfinite(sum(metric.weights)):
        problem("ragas_answer_correctness.weights", "expected a sum that is finite and above 0")


def _check_names(evaluations: tuple[CustomEvaluationConfig, ...], problem: Problem) -> None:
    """See that all keys of a result have names of their own."""
    owners = dict.fromkeys(RESULT_KEYS, "a key of results") | dict.fromkeys(GATES, "the name of a gate")
    names = dict.fromkeys(METRICS, "the name of a built-in metric")
    for index, evaluation in enumerate(evaluations):
        place, name = f"custom_evaluations[{index}].name", evaluation.name
        if name in names:
            problem(place, f"{name!r} is already {names[name]}")
        elif name:
            names[name] = f"that of custom_evaluations[{index}]"
            for key in (f"{name}_error", f"{name}{COST}"):
                if key in owners:
                    problem(place, f"would have the key {key!r}, which is already {owners[key]}")
                owners.setdefault(key, f"a key of custom_evaluations[{index}]")
    for index, evaluation in enumerate(evaluations):
        for output in evaluation.outputs:
            place = join(f"custom_evaluations[{index}].outputs", output)
            if output.endswith(COST):
                problem(place, f"ends in {COST}, as only costs do")
            elif output in owners:
                problem(place, f"is already {owners[output]}")
            owners.setdefault(output, f"an output of custom_evaluations[{index}]")


def _check_inputs(evaluation: CustomEvaluationConfig, key: str, problem: Problem) -> None:
    inputs = evaluation.inputs
    if len(set(inputs)) < len(inputs):
        problem(f"{key}.inputs", "lists an input twice")
    if inputs and not {"reference_steps", "actual_steps"} & set(inputs):
        for name in ("steps_name", "steps_keys"):
            if getattr(evaluation, name) is not None:
                problem(f"{key}.{name}", "selects steps: inputs needs actual_steps or reference_steps")
