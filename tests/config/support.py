"""Configurations, right and wrong."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from graphrag_eval_async.config import load_config
from graphrag_eval_async.errors import ConfigError

GENERATION = {"provider": "openai", "model": "gpt-4o-mini"}
LLM = {
    "generation": GENERATION,
    "embedding": {"provider": "openai", "model": "text-embedding-3-small"},
}
EVALUATION = {
    "name": "style",
    "inputs": ["question", "actual_steps"],
    "instructions": "Judge the style.",
    "outputs": {"style": "fraction 0-1", "elegance": {"type": "number", "description": "0-10"}},
}
METRICS = ("answer_correctness", "answer_relevance", "retrieval_answer", "retrieval_context")
EVERYTHING = {
    "llm": LLM | {"limits": {}, "pricing": {}},
    "steps": {},
    **{name: {} for name in (*METRICS, "ragas_answer_correctness")},
    "custom_evaluations": [EVALUATION],
}


def changed(key: str, value: Any) -> Any:
    """All of it with another value at a key such as ``custom_evaluations[0].name``."""
    config = copy.deepcopy(EVERYTHING)
    *path, last = (int(part) if part.isdigit() else part for part in re.findall(r"\w+", key))
    section: Any = config
    for part in path:
        section = section[part]
    section[last] = value
    return config


def generation(**fields: Any) -> dict[str, Any]:
    """A configuration whose LLM has other fields."""
    return {"llm": {"generation": GENERATION | fields}}


def problems(config: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(config)
    return caught.value.problems
