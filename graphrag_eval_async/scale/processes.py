"""A pool of worker processes on this machine."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import threading
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING

from graphrag_eval_async.errors import UsageError, WorkerError
from graphrag_eval_async.helpers.threads import write_in_thread
from graphrag_eval_async.scale.shard import ShardWorker

if TYPE_CHECKING:
    from graphrag_eval_async.scale.shard import FileShard, Job

QUEUED_PER_WORKER = 1
"""Shards submitted for each worker beyond the one in progress, so that no worker has to wait."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that workers ignore: Ctrl-C reaches all processes of a group, but the parent decides."""

HINT_AT_MAIN_MODULE = (
    "; each worker imports the script that starts it, so put the call under `if __name__ == "
    '"__main__":`'
)
"""End of the message if the first worker dies: most likely, it ran the caller's script again."""


class ProcessPool:
    """Worker processes that evaluate shards; see `Pool`."""

    def __init__(self, job: Job, workers: int) -> None:
        """Prepare the processes; they start when shards are submitted.

        Raises:
            UsageError: an option cannot be sent to another process, such as a comparator that is a
                lambda.
        """
        try:
            pickled_job = pickle.dumps(job)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UsageError(
                "jobs: comparators, judges and aliases are sent to other processes, so each must "
                f"be a function or an object of a class of a module: {error}"
            ) from error
        self.capacity = workers * (1 + QUEUED_PER_WORKER)
        self._has_finished_one = False
        self._executor = ProcessPoolExecutor(workers, get_context("spawn"), _begin, (pickled_job,))

    async def submit(self, shard: FileShard, budget_usd: float | None) -> asyncio.Future[float]:
        """Have a worker evaluate a shard."""
        # In a thread, since it may start a process.
        future = await write_in_thread(partial(self._submit, shard, budget_usd))
        future.add_done_callback(self._note_success)
        return asyncio.wrap_future(future)

    def _submit(self, shard: FileShard, budget_usd: float | None) -> Future[float]:
        """Give a shard to the executor, which may start a process; return the executor's future.

        If a process has died, the future has the error.
        """
        # A new process has the blocked signals of this thread. It unblocks them when it ignores
        # them. Otherwise, Ctrl-C would end the process while it starts.
        mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            return self._executor.submit(_evaluate, shard, budget_usd)
        except BrokenProcessPool as error:
            failed: Future[float] = Future()
            failed.set_exception(error)
            return failed
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)

    def _note_success(self, future: Future[float]) -> None:
        """Remember that a worker has finished a shard, if the future of the shard says so."""
        if not future.cancelled() and future.exception() is None:
            self._has_finished_one = True

    def explain(self, error: BaseException, shard: FileShard) -> BaseException:
        """Return a `WorkerError` if a worker died; else the error itself."""
        if not isinstance(error, BrokenProcessPool):
            return error
        message = (
            f"{shard}, or after: a worker process died, perhaps because memory ran out; finished "
            "shards are kept for the next run"
        )
        if not self._has_finished_one:
            message += HINT_AT_MAIN_MODULE
        failure = WorkerError(message)
        failure.__cause__ = error
        return failure

    async def aclose(self) -> None:
        """Kill the processes, which may hang and ignore SIGTERM."""
        await write_in_thread(self._close)

    def _close(self) -> None:
        """Kill the processes, and cancel the shards that wait."""
        # The executor has no dict of processes after its end, and changes it when one dies.
        processes = list((self._executor._processes or {}).values())
        for process in processes:
            process.kill()
        self._executor.shutdown(cancel_futures=True)


_worker: ShardWorker
"""The worker of this process."""


def _begin(pickled_job: bytes) -> None:
    """Prepare a worker process, which leaves signals and warnings to its parent.

    The process ends as soon as its parent ends.
    """
    global _worker
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")
    _worker = ShardWorker(pickle.loads(pickled_job))  # noqa: S301  (from the parent)
    # Modules and the reference set stay, so the garbage collector need not look at them.
    gc.freeze()


def _end_with_parent() -> None:
    """Wait until the parent process has ended, then end this process at once."""
    parent = parent_process()
    assert parent is not None  # noqa: S101
    parent.join()
    os._exit(1)


def _evaluate(shard: FileShard, budget_usd: float | None) -> float:
    """Evaluate a shard in this worker process; return the US dollars that the judge spent."""
    return _worker.evaluate_file_shard(shard, budget_usd)
