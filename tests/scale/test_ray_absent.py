from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from graphrag_eval_async import UsageError, evaluate_dataset
from graphrag_eval_async.scale.ray import evaluation
from tests.conftest import templates


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        return None if name == "ray" else find_spec(name)

    monkeypatch.setattr(evaluation, "find_spec", absent)
    with pytest.raises(UsageError, match=r"pip install 'graphrag-eval-async\[ray\]'"):
        evaluate_dataset(templates(), "responses.jsonl")
