"""Shards: each line belongs to one of them, and together they give what one run gives."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphrag_eval_async import (
    RunningAggregates,
    SourceError,
    UsageError,
    evaluate_stream,
    read_jsonl,
)
from tests.aggregates.made import aggregated
from tests.scale.support import FILES, REFERENCE, told, write

if TYPE_CHECKING:
    from collections.abc import Sequence

UNKNOWN = ("sample", "line", "occurrence")


async def evaluate(
    files: Sequence[str], journal: Path, shard: Any = None
) -> tuple[list[dict[str, Any]], RunningAggregates, list[str]]:
    """The results, the aggregates and the rejects, all without what a shard cannot know."""
    rejects: list[str] = []

    def keep(reject: Any) -> None:
        _, *more = told(reject)
        rejects.append(repr((reject.path, reject.offset, reject.reason, reject.message, more)))

    source = read_jsonl([*files], shard=shard)
    stream = evaluate_stream(REFERENCE, source, journal=journal, on_reject=keep)
    async with stream:
        results = [result async for result in stream]
    if shard is not None:
        assert not any(
            key in part for each in results for part in (each, each["source"]) for key in UNKNOWN
        )
        assert stream.missing == []
    for result in results:
        for key in UNKNOWN:
            result.pop(key, None)
            result["source"].pop(key, None)
    results.sort(key=lambda each: (files.index(each["source"]["path"]), each["source"]["offset"]))
    return results, stream.aggregates, rejects


@settings(max_examples=25, deadline=None)
@given(FILES, st.integers(1, 7), st.lists(st.booleans(), min_size=3, max_size=3))
def test_all_shards_give_what_one_run_gives(files: Any, count: int, packed: list[bool]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write(Path(folder), files)
        for index, path in enumerate(paths):
            if packed[index]:
                paths[index] = f"{path}.gz"
                Path(paths[index]).write_bytes(gzip.compress(Path(path).read_bytes()))
        whole, aggregates, rejects = asyncio.run(evaluate(paths, Path(folder, "whole")))
        merged, found, rejected = RunningAggregates(), [], []
        for index in range(count):
            journal = Path(folder, f"shard{index}")
            results, own, refused = asyncio.run(evaluate(paths, journal, (index, count)))
            merged.merge(RunningAggregates.from_bytes(own.to_bytes()))
            found += results
            rejected += refused
        assert sorted(map(repr, found)) == sorted(map(repr, whole))
        assert sorted(rejected) == sorted(rejects)
        unnumbered = aggregated(whole, templates=REFERENCE.templates, steps=REFERENCE.step_names)
        assert merged.to_bytes() == unnumbered.to_bytes()
        assert merged.snapshot()["macro"] == aggregates.snapshot()["macro"]


@pytest.mark.parametrize(
    "shard",
    [
        pytest.param("3/3", id="3 of 3"),
        pytest.param("a/3", id="a letter"),
        pytest.param("-1/3", id="negative"),
        pytest.param((3, 3), id="pair"),
        pytest.param(5, id="number"),
    ],
)
def test_what_is_no_shard(shard: Any) -> None:
    with pytest.raises(UsageError, match="shard: expected INDEX/COUNT"):
        read_jsonl("x.jsonl", shard=shard)


async def test_a_pipe_has_no_shards(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="-: only files can be read in shards"):
        await evaluate(["-"], tmp_path / "journal", "0/2")
