"""Any configuration is loaded, and metrics can be made of it, or it is refused with its problems."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.config import load_config, secrets
from graphrag_eval_async.errors import ConfigError
from graphrag_eval_async.metrics import Judging
from tests.config.support import EVERYTHING as SOUND
from tests.fuzz.seeds import load_spoilt, sizes

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

    from graphrag_eval_async.judge.protocol import Message

EVERYTHING: dict[str, Any] = copy.deepcopy(SOUND)
EVERYTHING["llm"]["generation"] |= {"base_url": "http://localhost:1/v1", "api_key": "${HOME}"}
EVERYTHING["llm"]["limits"] = {"max_concurrency": 2, "requests_per_minute": 60, "call_timeout_sec": 1.5}
EVERYTHING["ragas_answer_correctness"] = {"weights": [0.5, 0.5], "beta": 2, "threshold": 0.5}


class NoJudge:
    """Is never called."""

    model = "none"

    async def complete(self, messages: Sequence[Message], schema: Any) -> Any:
        raise AssertionError(messages, schema)

    async def embed(self, texts: Sequence[str]) -> Any:
        raise AssertionError(texts)


def load(source: Any) -> None:
    for judge in (None, NoJudge()):
        try:
            loaded = load_config(source, judge=judge is not None)
            if loaded.judged:
                Judging(loaded, judge=judge, on_fatal="raise")
        except ConfigError as error:
            problems = error.problems
        else:
            if loaded.judged or judge is None:
                assert load_config(loaded, judge=judge is not None) == loaded
            assert repr(loaded).encode()
            assert all(secrets(loaded))
            continue
        assert problems
        assert all(problem and len(problem.encode()) < 5_000 for problem in problems)


def part_of(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return copy.deepcopy({key: section for key, section in config.items() if rng.random() < 0.8})


@sizes
def test_any_objects_are_loaded_or_refused(count: int) -> None:
    load_spoilt(partial(part_of, EVERYTHING), load, count)


@sizes
def test_any_file_is_loaded_or_refused(count: int, tmp_path: Path) -> None:
    load_spoilt(partial(part_of, EVERYTHING), load, count, tmp_path)
