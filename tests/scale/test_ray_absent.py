from __future__ import annotations

from importlib.util import find_spec

import pytest

from graphrag_eval_async import UsageError
from graphrag_eval_async.scale import evaluate_dataset
from tests.support.data import templates


@pytest.mark.skipif(find_spec("ray") is not None, reason="Ray is installed")
def test_says_what_to_install() -> None:
    with pytest.raises(UsageError, match="needs the extra ray; "):
        evaluate_dataset(templates(), "responses.jsonl", results="results.jsonl")
