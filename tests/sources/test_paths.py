from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.sources.paths import as_paths, rotated_from
from tests.support.cases import each


@each(
    ("name", "former"),
    [
        ("log.jsonl.1", ["log.jsonl"]),
        ("log.jsonl.2026-01-31_12-00", ["log.jsonl"]),
        ("log.jsonl.20260131T120000Z", ["log.jsonl"]),
        ("log.jsonl-20260131", ["log.jsonl"]),
        ("log-20260131.jsonl", ["log.jsonl"]),
        ("log-2026-01-31T12-00-00.000.jsonl", ["log.jsonl"]),
        ("log.2026-01-31_12-00-00_123456.jsonl", ["log.jsonl"]),
        ("log.1.jsonl", ["log.jsonl"]),
        ("log.jsonl.old", ["log.jsonl"]),
        ("log.rotated.jsonl", ["log.jsonl"]),
        ("log.1.jsonl.2", ["log.1.jsonl"]),
        ("log.jsonl", []),
        ("log.results.jsonl", []),
        ("log.jsonl.gz", []),
        ("log.jsonl.1.gz", ["log.jsonl.gz"]),
        ("log-7.jsonl", []),
        ("log.jsonl.1x", []),
        ("", []),
    ],
)
def test_names_before_rotation(name: str, former: list[str]) -> None:
    assert rotated_from(name) == former


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        ("a", ["a"]),
        (Path("a"), ["a"]),
        (["a", Path("b")], ["a", "b"]),
        (("a",), ["a"]),
        (iter("ab"), ["a", "b"]),
    ],
)
def test_paths(given: Any, paths: list[str]) -> None:
    assert as_paths(given) == paths


@each("given", [None, 5, [], "", b"a", [b"a"], ["a", None], [""], {}, object()])
def test_invalid_paths(given: Any) -> None:
    with pytest.raises(UsageError, match="path: expected a path, or a list of paths, got "):
        as_paths(given)
