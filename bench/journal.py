"""Journals: what it takes to keep one, and to go on with one of a million results.

    python -m bench.journal

Takes about five minutes on two cores, and 2.5 GB of disk.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import orjson

from bench import shapes
from bench.aggregates import peak_megabytes
from bench.report import Row, show
from bench.whole_path import drain
from graphrag_eval_async import evaluate_stream, load_reference
from graphrag_eval_async.sinks.checksums import seal

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = 1_000_000
RESUMES = 3
RESPONSES = 20_000
ROUNDS = 7
FOLDER = Path(__file__).parents[1] / "examples"
REFERENCE = FOLDER / "reference.yaml"


async def _evaluate(reference: Any, source: Any, journal: Path | None) -> Any:
    async with evaluate_stream(reference, source, journal=journal) as results:
        async for _ in results:
            pass
    results.aggregates.snapshot()
    return results


# Going on


def _results(number: int, results: list[dict[str, Any]]) -> Iterator[bytes]:
    """So many lines of a journal, as of a log that was followed; with metrics and ids of their
    own.
    """
    offset = 0
    for index, result in enumerate(islice(cycle(results), number)):
        length = 500 + index % 1000
        source: dict[str, Any] = {
            "path": "/var/log/agent/responses.jsonl",
            "file": "1b2c3d4-18ea32eef537d96e-0",
        }
        source |= {"line": index + 1, "offset": offset, "length": length}
        source |= {"sha256": sha256(b"%d" % index).hexdigest(), "occurrence": 1}
        offset += length + 1
        own = {
            "sample": index // len(results) + 1,
            "response_id": f"response-{index}",
            "source": source,
        }
        tokens, seconds = index * 7919 % 20_000, index * 7919 % 100_003 / 1000
        yield seal(
            orjson.dumps({**result, "input_tokens": tokens, "elapsed_sec": seconds} | own) + b"\n"
        )


def write_journal(path: Path, number: int) -> None:
    """A journal of so many results, made from those of the examples."""
    asyncio.run(_evaluate(REFERENCE, FOLDER / "responses.jsonl", path))
    examples = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for example in examples:
        del example["crc32"]
    with path.open("wb") as file:
        file.writelines(_results(number, examples))


def floor(path: Path) -> float:
    """In seconds: to decode the lines."""
    started = perf_counter()
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)
    return perf_counter() - started


def resume(path: Path) -> None:
    """Print the seconds to go on and to decode the lines, the least of a few each, and the peak
    memory.
    """
    reference = load_reference(REFERENCE)
    times, floors, peak = [], [], 0.0
    for _ in range(RESUMES):
        floors.append(floor(path))
        started = perf_counter()
        stream = asyncio.run(_evaluate(reference, [], path))
        times.append(perf_counter() - started)
        peak = peak or peak_megabytes()
        assert stream.journal.restored == RESULTS  # noqa: S101
        del stream
    print(min(times), min(floors), peak)


def going_on(folder: Path) -> list[Row]:
    """Measured in a process of its own."""
    path = folder / "results.jsonl"
    write_journal(path, RESULTS)
    command = [sys.executable, "-m", "bench.journal", "resume", str(path)]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    seconds, bare, megabytes = map(float, output.split())
    what = (
        f"resume of {RESULTS:,} results, against decoding them ({seconds / RESULTS * 1e6:.0f} us "
        "a result)"
    )
    return [
        Row(what, f"{seconds / bare:.2f}x", "at most 4x"),
        Row(
            f"peak memory of resuming {RESULTS:,} results, in all",
            f"{megabytes:.0f} MB",
            "under 200 MB",
        ),
    ]


# Keeping


async def _results_of(reference: Any, path: Path) -> list[dict[str, Any]]:
    async with evaluate_stream(reference, path) as results:
        return [result async for result in results]


def throughput(folder: Path) -> Row:
    """Steps only, the default policy; the median of a few rounds."""
    path, journal = folder / "responses.jsonl", folder / "kept.jsonl"
    path.write_bytes(b"".join(shapes.responses(RESPONSES)))
    reference = load_reference(shapes.templates())
    results = asyncio.run(_results_of(reference, path))
    kept = []
    for _ in range(ROUNDS):
        started = process_time()
        with path.open("rb") as lines, journal.open("wb") as file:
            for line, result in zip(lines, cycle(results), strict=False):
                sha256(line).hexdigest()
                file.write(seal(orjson.dumps(result, option=orjson.OPT_APPEND_NEWLINE)))
        least = process_time() - started
        started = process_time()
        asyncio.run(drain(reference, path))
        bare = process_time() - started
        for each in folder.glob("kept.jsonl*"):
            each.unlink()
        started = process_time()
        asyncio.run(_evaluate(reference, path, journal))
        kept.append((process_time() - started - bare, least))
    seconds, least = (statistics.median(column) for column in zip(*kept, strict=True))
    what = f"a journal of {RESPONSES:,} responses, against hashing lines and writing results"
    return Row(
        f"{what} ({seconds / RESPONSES * 1e6:.0f} us each)", f"{seconds / least:.2f}x", "at most 2x"
    )


def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return [throughput(Path(folder)), *going_on(Path(folder))]


if __name__ == "__main__":
    if sys.argv[1:2] == ["resume"]:
        resume(Path(sys.argv[2]))
    else:
        show(rows())
