from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from graphrag_eval_async import SourceError, UsageError
from graphrag_eval_async.scale import evaluate_dataset
from graphrag_eval_async.scale.ray import evaluation
from tests.support.data import templates


def test_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        return None if name == "ray" else find_spec(name)

    monkeypatch.setattr(evaluation, "find_spec", absent)
    with pytest.raises(UsageError, match=r"pip install 'graphrag-eval-async\[ray\]'"):
        evaluate_dataset(templates(), "responses.jsonl")


@pytest.mark.parametrize(
    ("path", "problem", "kind"),
    [
        ("absent.jsonl", "absent.jsonl: does not exist; all hosts", SourceError),
        ("s3://user:secretword@bucket/log.jsonl", "s3://bucket/log.jsonl: pass ray.data", UsageError),
    ],
)
def test_refuses_files_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, path: str, problem: str, kind: type[Exception]
) -> None:
    monkeypatch.setattr(evaluation, "find_spec", lambda _: True)
    with pytest.raises(kind, match=problem) as caught:
        evaluate_dataset(templates(), path)
    assert "secretword" not in str(caught.value)
