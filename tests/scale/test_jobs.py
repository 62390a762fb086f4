"""Several processes give what one gives, what ends them, and what a second run still has to do."""

from __future__ import annotations

import asyncio
import gzip
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from graphrag_eval_async import (
    GraphragEvalWarning,
    JournalLocked,
    JudgeUnavailable,
    RejectedResponse,
    UsageError,
    WorkerError,
    evaluate_file,
    load_reference,
)
from graphrag_eval_async.sinks import LineFile, RejectWriter
from tests.scale.responses import CONFIG, Judge
from tests.scale.responses import REFERENCE as JUDGED_REFERENCE
from tests.scale.responses import response as judged_response
from tests.scale.support import BAD, GOOD, REFERENCE, in_one_process, told
from tests.support.data import answer, templates
from tests.support.deadlines import WAIT_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
LINES = [
    orjson.dumps(answer(index % 2, elapsed_sec=index / 7, note="x" * 200)) for index in range(400)
]
"""Longer than a shard."""


class Recording:
    """A comparator that notes each call in a file, and kills its process at an output in
    `poison`.
    """

    def __init__(self, calls: Path, *poison: str) -> None:
        self.calls, self.poison = calls, poison

    def __call__(self, _: Any, actual: Any) -> float:
        if actual["output"] in self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        with self.calls.open("a") as calls:
            calls.write("called\n")
        return 1.0

    @property
    def count(self) -> int:
        return len(self.calls.read_text().split()) if self.calls.exists() else 0


def endless(*_: Any) -> float:
    """A comparator that never finds out."""
    while True:
        signal.pause()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b"\n".join([*LINES, b"{", *LINES]))
    return path


def random_files(folder: Path, seed: int) -> list[str]:
    """Files of good and bad lines, plain and compressed, some of several shards and some short."""
    rnd = random.Random(seed)
    paths = []
    for index in range(3):
        lines = rnd.choices(GOOD * 3 + BAD, k=rnd.choice([5, 700, 2000]))
        newline = rnd.choice([b"\n", b"\r\n"])
        data = newline.join(lines) + rnd.choice([b"", newline])
        path = folder / f"{index}.jsonl{rnd.choice(['', '', '.gz'])}"
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize(
    ("seed", "shard"), [(1, None), (2, None), (3, None), (4, "0/2"), (5, "2/3")]
)
async def test_several_processes_give_what_one_gives(
    tmp_path: Path, seed: int, shard: str | None
) -> None:
    files = random_files(tmp_path, seed)
    results = tmp_path / "results"
    rejects: list[Any] = []
    found = await evaluate_file(
        *(REFERENCE, files),
        jobs=2,
        results=results,
        shard=shard,
        on_reject=lambda reject: rejects.append(told(reject)),
    )
    expected = await in_one_process(files, shard=shard)
    assert (results.read_bytes(), found.aggregates.to_bytes(), rejects, found.missing) == expected
    assert not Path(f"{results}.shards").exists()


async def test_aggregates_without_results(path: Path) -> None:
    found = await evaluate_file(REFERENCE, path, jobs=2)
    alone = await evaluate_file(REFERENCE, path, jobs=1)
    assert found.aggregates.to_bytes() == alone.aggregates.to_bytes()
    assert found.rejects == alone.rejects


async def test_a_reject_may_end_it(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    with pytest.raises(RejectedResponse, match="line 401 "):
        await evaluate_file(REFERENCE, path, jobs=2, results=results, on_reject="raise")
    assert results.read_bytes().count(b"\n") >= 400


async def test_rejects_are_written_or_given_to_a_callable_on_the_loop(
    path: Path, tmp_path: Path
) -> None:
    told_on: set[int] = set()
    await evaluate_file(
        REFERENCE, path, jobs=2, on_reject=lambda _: told_on.add(threading.get_ident())
    )
    assert told_on == {threading.get_ident()}
    with LineFile(tmp_path / "rejects.jsonl") as lines:
        await evaluate_file(REFERENCE, path, jobs=2, on_reject=RejectWriter(lines))
    assert orjson.loads((tmp_path / "rejects.jsonl").read_bytes())["line"] == 401


async def test_after_a_killed_worker_only_the_rest_is_evaluated(tmp_path: Path) -> None:
    deadly_line = orjson.dumps(answer()).replace(b'"42"', b'"die"')
    path, results = tmp_path / "responses.jsonl", tmp_path / "results.jsonl"
    path.write_bytes(b"\n".join([*LINES, deadly_line, *LINES]))
    recording = Recording(tmp_path / "calls", "die")
    options: Any = {"jobs": 2, "results": results, "comparators": {"calculator": recording}}
    reference = load_reference(templates(), comparators=options["comparators"])
    with pytest.raises(WorkerError, match=r"responses\.jsonl: bytes \d+ to .*: a worker .* died"):
        await evaluate_file(reference, path, **options)
    assert not multiprocessing.active_children()
    kept = [
        entry
        for entry in Path(f"{results}.shards").iterdir()
        if entry.name[0] != "." and (entry / "outcome").exists()
    ]
    assert kept

    calls_before = recording.count
    recording.poison = ()
    found = await evaluate_file(reference, path, **options)
    assert recording.count - calls_before < len(LINES) * 2 - 50 * len(kept)
    alone = await evaluate_file(
        reference, path, **{**options, "jobs": 1, "results": tmp_path / "alone"}
    )
    assert found.aggregates.to_bytes() == alone.aggregates.to_bytes()
    assert results.read_bytes() == (tmp_path / "alone").read_bytes()


async def stopped_run(path: Path, results: Path, reference: Any) -> int:
    """Cancel a run after its first shards; return how many are kept."""
    kept = Path(f"{results}.shards")

    def finished() -> list[Path]:
        return [*kept.glob("[!.]*/outcome")]

    task = asyncio.ensure_future(evaluate_file(reference, path, jobs=2, results=results))
    await until(finished, "finished shards")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not multiprocessing.active_children()
    return len(finished())


async def test_shards_of_a_changed_file_or_reference_set_are_not_used(tmp_path: Path) -> None:
    path, results = tmp_path / "responses.jsonl", tmp_path / "results"
    path.write_bytes(b"\n".join(LINES * 20))
    other_reference = load_reference(templates(3))
    for change in ("file", "reference"):
        kept = await stopped_run(path, results, REFERENCE)
        reference = REFERENCE
        if change == "file":
            path.write_bytes(path.read_bytes() + b"\n" + LINES[0])
        else:
            reference = other_reference
        with pytest.warns(
            GraphragEvalWarning, match=rf"not using {kept} finished shards?: the responses"
        ):
            found = await evaluate_file(reference, path, jobs=2, results=results)
        alone = await evaluate_file(reference, path)
        assert found.aggregates.to_bytes() == alone.aggregates.to_bytes()


async def test_two_runs_cannot_write_the_same_results(path: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    reference = load_reference(templates(), comparators={"calculator": endless})
    first = asyncio.ensure_future(evaluate_file(reference, path, jobs=2, results=results))
    await until(multiprocessing.active_children, "worker processes")
    with pytest.raises(JournalLocked, match="another run"):
        await evaluate_file(reference, path, jobs=2, results=results)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_nothing_is_left_running_when_cancelled(path: Path) -> None:
    comparators = {"calculator": endless}
    task = asyncio.ensure_future(evaluate_file(templates(), path, jobs=2, comparators=comparators))
    await until(multiprocessing.active_children, "worker processes")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not multiprocessing.active_children()


async def test_results_among_the_responses(path: Path) -> None:
    with pytest.raises(UsageError, match="would be overwritten"):
        await evaluate_file(REFERENCE, path.parent, results=path, jobs=2)
    assert path.stat().st_size


async def test_options_that_cannot_be_sent_to_another_process(path: Path) -> None:
    with pytest.raises(UsageError, match="a function or an object of a class of a module"):
        await evaluate_file(templates(), path, jobs=2, comparators={"calculator": lambda *_: 1.0})


class SlowJudge(Judge):
    """Notes when each call begins and ends, in one file for all processes."""

    async def complete(
        self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]
    ) -> Any:
        with (Path(self.folder) / "times").open("a") as times:
            times.write(f"{time.monotonic_ns()} 1\n")
        await asyncio.sleep(0.01)
        with (Path(self.folder) / "times").open("a") as times:
            times.write(f"{time.monotonic_ns()} -1\n")
        return await super().complete(messages, schema)


def judged_file(folder: Path, number: int = 300) -> Path:
    path = folder / "judged.jsonl"
    path.write_bytes(
        b"".join(orjson.dumps(judged_response(i, note="x" * 500)) + b"\n" for i in range(number))
    )
    return path


async def test_judges_of_all_processes_keep_to_one_limit(tmp_path: Path) -> None:
    path = judged_file(tmp_path)
    config = {**CONFIG, "llm": {"limits": {"max_concurrency": 3}}}
    options: Any = {"config": config, "judge": SlowJudge(tmp_path)}
    found = await evaluate_file(JUDGED_REFERENCE, path, jobs=4, **options)
    changes = sorted(line.split() for line in (tmp_path / "times").read_text().splitlines())
    assert 1 < max(accumulate(int(change) for _, change in changes)) <= 3
    alone = await evaluate_file(JUDGED_REFERENCE, path, jobs=1, **options)
    assert found.aggregates.to_bytes() == alone.aggregates.to_bytes()
    assert found.usage.calls == alone.usage.calls


async def test_the_budget_is_for_all_processes(tmp_path: Path) -> None:
    path = judged_file(tmp_path, 1200)
    prices = {"input_usd_per_million": 10_000.0, "output_usd_per_million": 0.0}  # A dollar a call.
    limits = {"budget_usd": 200.0, "max_concurrency": 4}
    config = {**CONFIG, "llm": {"limits": limits, "pricing": prices}}
    found = await evaluate_file(
        JUDGED_REFERENCE, path, jobs=2, config=config, judge=Judge(tmp_path)
    )
    in_flight = limits["max_concurrency"]
    spent = len((tmp_path / "calls").read_text().split())
    shards_in_progress = 4
    assert found.usage.dollars == pytest.approx(spent)
    assert (
        limits["budget_usd"] * 0.9 <= spent <= limits["budget_usd"] + in_flight * shards_in_progress
    )
    assert found.usage.errors["budget"] > 0


async def test_an_error_of_a_worker_arrives_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(JudgeUnavailable, match=r"^unavailable: wrong key$"):
        await evaluate_file(
            JUDGED_REFERENCE,
            judged_file(tmp_path),
            jobs=2,
            config=CONFIG,
            judge=Judge(tmp_path, refuses=True),
        )


@pytest.mark.parametrize("attempt", range(4))
async def test_an_error_of_one_shard_is_raised_whatever_the_others_do(
    tmp_path: Path, attempt: int
) -> None:
    """With a budget, too; and as it is, not as a cancellation of the others."""
    limits = {"budget_usd": 1000.0, "max_failed_calls": 1}
    prices = {"input_usd_per_million": 1.0, "output_usd_per_million": 1.0}
    config = {**CONFIG, "llm": {"limits": limits, "pricing": prices}}
    path = judged_file(tmp_path, 1200)
    judge = Judge(tmp_path, refuses=True)
    with pytest.raises(JudgeUnavailable, match="wrong key"):
        await evaluate_file(
            JUDGED_REFERENCE, path, jobs=2 + attempt % 2, config=config, judge=judge
        )


async def test_a_budget_that_is_enough_for_one_process_is_enough_for_one_shard(
    tmp_path: Path,
) -> None:
    path = judged_file(tmp_path, 60)
    prices = {"input_usd_per_million": 10_000.0, "output_usd_per_million": 0.0}  # A dollar a call.
    config = {**CONFIG, "llm": {"limits": {"budget_usd": 60.0}, "pricing": prices}}
    found = await evaluate_file(
        JUDGED_REFERENCE, path, jobs=8, config=config, judge=Judge(tmp_path)
    )
    assert "budget" not in found.usage.errors


def test_the_function_keeps_its_name_in_the_room_of_scale() -> None:
    from graphrag_eval_async import scale

    assert evaluate_file is scale.evaluate_file


SCRIPT = """
import asyncio, multiprocessing, os, signal, threading, time
from graphrag_eval_async import evaluate_file

def kill_when_working():
    while not multiprocessing.active_children():
        time.sleep(0.01)
    print(flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

reference = [{"template_id": "t", "questions": [{"id": "q0", "question_text": "Q?"}]}]
"""


def run_script(folder: Path, call: str) -> subprocess.CompletedProcess[str]:
    (folder / "in.jsonl").write_bytes(b'{"question_id": "q0"}\n' * 9000)
    (folder / "script.py").write_text(SCRIPT + call)
    return subprocess.run(
        [sys.executable, "script.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    done = run_script(tmp_path, "asyncio.run(evaluate_file(reference, 'in.jsonl', jobs=2))\n")
    assert done.returncode == 1
    assert 'put the call under `if __name__ == "__main__":`' in done.stderr


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        'if __name__ == "__main__":\n'
        "    threading.Thread(target=kill_when_working).start()\n"
        "    asyncio.run(evaluate_file(reference, ['in.jsonl'] * 500, jobs=2))\n",
    )
    # The output has ended: nobody is left who holds it open.
    assert (done.returncode, done.stdout) == (-9, "\n")
