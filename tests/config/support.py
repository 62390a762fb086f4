from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from graphrag_eval_async.config import load_config
from graphrag_eval_async.errors import ConfigError

GENERATION = {"provider": "openai", "model": "gpt-4o-mini"}
LLM = {"generation": GENERATION, "embedding": {"provider": "openai", "model": "text-embedding-3-small"}}
EVALUATION = {
    "name": "style",
    "inputs": ["question", "actual_steps"],
    "instructions": "Judge the style.",
    "outputs": {"style": "fraction 0-1", "elegance": {"type": "number", "description": "0-10"}},
}
EVERYTHING = {
    "llm": LLM | {"limits": {}, "pricing": {}},
    "steps": {},
    "answer_correctness": {},
    "answer_relevance": {},
    "retrieval_answer": {},
    "retrieval_context": {},
    "ragas_answer_correctness": {},
    "custom_evaluations": [EVALUATION],
}


def changed(key: str, value: Any, base: Any = EVERYTHING) -> Any:
    """A copy of a configuration with another value at a key such as ``custom_evaluations[0].name``."""
    config = copy.deepcopy(base)
    *path, last = (int(part) if part.isdigit() else part for part in re.findall(r"\w+", key))
    section = config
    for part in path:
        section = section[part]
    section[last] = value
    return config


def generation(**fields: Any) -> dict[str, Any]:
    """A configuration whose LLM has other fields."""
    return {"llm": {"generation": GENERATION | fields}}


def evaluations(*changes: dict[str, Any]) -> dict[str, Any]:
    """A configuration with custom evaluations."""
    return {"llm": LLM, "custom_evaluations": [EVALUATION | change for change in changes]}


def problems(config: Any, *, judge: bool = False) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(config, judge=judge)
    return caught.value.problems
