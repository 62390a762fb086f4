"""Workers of a consumer group: each entry has one result, whatever dies."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, SourceError, UsageError, evaluate_stream
from graphrag_eval_async.scale.redis import worker
from graphrag_eval_async.scale.redis.results import watch_redis
from graphrag_eval_async.scale.redis.source import redis_stream, stream_at
from tests.scale.redis.support import (
    GROUP,
    SECONDS,
    Judge,
    alike,
    client,
    fill,
    number_of,
    rejected,
    source_at,
    start_worker,
    stored,
    work,
)
from tests.scale.responses import CONFIG, QUESTIONS, REFERENCE, in_one_process, response
from tests.support.cases import each
from tests.support.data import templates
from tests.support.ports import free_port
from tests.support.redis_server import RedisServer, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    Trouble = Callable[[redis.Redis], object]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as running:
        yield running


async def check(server: RedisServer, entries: list[dict[str, Any]], calls: Path | None = None) -> None:
    """Compare what is on the server with what one process finds."""
    entries_of = Counter(result["source"]["entry"] for result in stored(server))
    assert {*entries_of.values()} == {1}
    judged: dict[str, Any] = {} if calls is None else {"config": CONFIG, "judge": Judge(calls)}
    results, aggregates = await in_one_process(entries, on_reject=lambda _: None, **judged)
    assert alike(stored(server)) == alike(results)
    async with watch_redis(server.url, "responses", group="eval", reference=REFERENCE) as run:
        await run.refresh()
        assert run.aggregates.snapshot(detail=True) == aggregates.snapshot(detail=True)
        assert run.aggregates.to_bytes() == aggregates.to_bytes()
    with client(server) as at:
        assert at.xpending("responses", "eval")["pending"] == 0
        assert int(at.hget(f"{GROUP}:counts", "results") or 0) == len(results)


# Workers that live


@pytest.mark.parametrize("workers", [1, 3])
async def test_each_entry_has_one_result(
    server: RedisServer, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "PART_BYTES", 1)  # So that parts are merged, several levels deep.
    monkeypatch.setattr(worker, "FAN", 2)
    entries = [response(number) for number in range(400)]
    fill(server, entries)
    found = await asyncio.gather(*(work(server) for _ in range(workers)))
    results = [result for each_ in found for result in each_]
    assert len(results) == 400
    assert alike(results) == alike(stored(server))
    assert not any("sample" in result for result in results)
    await check(server, entries)
    with client(server) as at:
        assert at.smembers(f"{GROUP}:answered") == {f"q{i}".encode() for i in range(QUESTIONS)}
        assert at.xinfo_consumers("responses", "eval") == []


async def test_results_beyond_the_maximum_are_deleted(server: RedisServer) -> None:
    fill(server, [response(number) for number in range(500)])
    assert len(await work(server, max_results=150)) == 500
    assert 150 <= len(stored(server)) < 500


async def test_entries_that_come_later(server: RedisServer) -> None:
    stream = evaluate_stream(REFERENCE, source_at(server))
    async with asyncio.timeout(SECONDS), stream:
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        fill(server, [response(0)])
        assert number_of(await waiting) == 0
        stream.stop()
        assert [result async for result in stream] == []


async def test_what_cannot_be_evaluated(server: RedisServer) -> None:
    fill(server, [b"{", b"", {"question_id": "nobody"}, response(0), b"[" * 100_000])
    with client(server) as at:
        at.xadd("responses", {"a": "1", "b": "2"})
        at.xadd("responses", {"whatever": b'{"question_id": "q1"}'})
    stream = evaluate_stream(REFERENCE, source_at(server, drain=True), max_line_bytes=90_000)
    with pytest.warns(GraphragEvalWarning, match="5 responses were rejected"):
        async with asyncio.timeout(SECONDS), stream:
            assert len([result async for result in stream]) == 2
    found = [(reject["reason"], "entry" in reject) for reject in rejected(server)]
    reasons = ["invalid_json", "invalid_json", "unknown_question_id", "too_long", "invalid_field"]
    assert sorted(found) == sorted((reason, True) for reason in reasons)
    with client(server) as at:
        assert at.xpending("responses", "eval")["pending"] == 0
        assert int(at.hget(f"{GROUP}:counts", "rejected:invalid_json") or 0) == 2


# Workers that die, and servers


async def disturb(
    server: RedisServer, calls: Path | str, count: int, *, workers: int, every: float, restarts: int
) -> int:
    """Run workers in processes until the stream is drained, killing one now and then; returns how many.

    On a busy machine, workers begin slowly; so the next is killed once there are more results. The judge
    does not answer the last fifth before the first is killed and the server has restarted. Only then are
    others killed, so that what is left to be claimed is no more than one worker has in flight.
    """
    rng = random.Random(1)
    # On a busy machine, a worker that lives may be silent for a second.
    options = {"max_deliveries": 1000, "claim_after_sec": 4.0, "judge": {"held_from": count * 4 // 5}}
    running = [await start_worker(server, calls, **options) for _ in range(workers)]
    kills = done = done_at_kill = 0
    go = Path(calls).with_name("go")
    async with asyncio.timeout(SECONDS * max(1, count // 1000)):
        while done < count:
            await asyncio.sleep(every)
            with client(server) as at:
                done = int(at.hget(f"{GROUP}:counts", "results") or 0)
            if restarts and done > count / (restarts + 2):
                restarts -= 1
                server.kill()
                await asyncio.sleep(every)
                server.start()
            if kills and not restarts:
                go.touch()
            if done_at_kill < done < count * 0.9 and (go.exists() or not kills):
                done_at_kill = done
                place = rng.randrange(workers)
                if running[place].returncode is None:
                    running[place].kill()
                    await running[place].wait()
                    kills += 1
                running[place] = await start_worker(server, calls, **options)
        assert [await process.wait() for process in running] == [0] * workers
    return kills


async def crowd(server: RedisServer, tmp_path: Path, count: int, **options: Any) -> None:
    calls = tmp_path / "calls"
    entries = [response(number) for number in range(count)]
    fill(server, entries)
    kills = await disturb(server, calls, count, **options)
    assert kills
    await check(server, entries, tmp_path / "other calls")
    asked = calls.read_text().split()
    judged = {f"{entry['number']}" for entry in entries if "error" not in entry}
    assert {*asked} == judged
    # Of a worker, so many calls are in flight; or results that are not committed yet.
    assert len(asked) - len(judged) <= kills * 256


async def test_killed_workers_and_a_server_that_restarts(server: RedisServer, tmp_path: Path) -> None:
    await crowd(server, tmp_path, 900, workers=2, every=0.7, restarts=1)


@pytest.mark.soak
@pytest.mark.timeout(1500)
async def test_killed_workers_for_long(server: RedisServer, tmp_path: Path) -> None:
    await crowd(server, tmp_path, 20_000, workers=4, every=1.0, restarts=2)


# What the server refuses


def forbid(command: str) -> tuple[Trouble, Trouble]:
    def change(sign: str) -> Trouble:
        return lambda at: at.acl_setuser("default", enabled=True, commands=[f"{sign}{command}"])

    return change("-"), change("+")


def occupy(key: str) -> tuple[Trouble, Trouble]:
    """Put a value of another type there for a while."""

    def take(at: redis.Redis) -> None:
        if at.exists(key):
            at.rename(key, f"{key}:away")
        at.zadd(key, {"member": 1})

    def free(at: redis.Redis) -> None:
        at.delete(key)
        if at.exists(f"{key}:away"):
            at.rename(f"{key}:away", key)

    return take, free


def run_out_of_memory() -> tuple[Trouble, Trouble]:
    return (lambda at: at.config_set("maxmemory", 1)), (lambda at: at.config_set("maxmemory", 0))


COMMANDS = ("xadd", "hset", "sadd", "xack", "xpending", "xclaim", "type")
PLACES = ("results", "rejects", "parts", "counts", "answered")
CAUSES = (
    {f"no permission {command}": forbid(command) for command in COMMANDS}
    | {f"wrong type {name}": occupy(f"{GROUP}:{name}") for name in PLACES}
    | {"out of memory": run_out_of_memory()}
)


@pytest.mark.parametrize("cause", CAUSES)
async def test_what_the_server_refuses_loses_nothing(server: RedisServer, cause: str) -> None:
    """After the cause is mended, each entry has one result or reject."""
    bring, mend = CAUSES[cause]
    entries = [response(number) for number in range(40)]
    with client(server) as at:
        fill(server, [*entries, b"{", b"}", b"["])
        source = source_at(server, drain=True, claim_after_sec=0.5, max_outage_sec=0.2)
        stream = evaluate_stream(REFERENCE, source, max_in_flight=4, on_reject=lambda _: None)
        async with asyncio.timeout(SECONDS), stream:
            await anext(stream)
            bring(at)
            with suppress(SourceError):
                async for _ in stream:
                    pass
        mend(at)
    await work(server, claim_after_sec=0.5)
    await check(server, entries)
    assert Counter(reject["reason"] for reject in rejected(server)) == {"invalid_json": 3}
    async with watch_redis(server.url, "responses", group="eval") as run:
        await run.refresh()
        await run.look()
        assert run.backlog[:3] == (0, 0, 0)
        assert run.rejects.total == 3


async def test_what_will_be_refused_is_said_before_anything_is_read(server: RedisServer) -> None:
    fill(server, [response(0)])
    with client(server) as at:
        for cause, said in [
            ("no permission xadd", "no permission for XADD .*; allow the user "),
            ("wrong type rejects", "rejects is a zset, expected a stream; delete this key, "),
        ]:
            bring, mend = CAUSES[cause]
            bring(at)
            with pytest.raises(SourceError, match=said):
                await work(server)
            mend(at)
            assert at.xinfo_groups("responses") == []


async def test_the_user_of_the_docs_is_allowed_enough(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "redis.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith("ACL SETUSER")]
    fill(server, [*[response(number) for number in range(20)], b"{"])
    with client(server) as at:
        at.execute_command(*(word.strip("'") for word in line.split()))
    monkeypatch.setenv("REDIS_USERNAME", "worker")
    monkeypatch.setenv("REDIS_PASSWORD", "PASSWORD")
    await asyncio.gather(*(work(server) for _ in range(2)))
    await check(server, [response(number) for number in range(20)])


async def test_a_worker_that_stops_leaves_its_entries_to_others(server: RedisServer, tmp_path: Path) -> None:
    entries = [response(number) for number in range(50)]
    fill(server, entries)
    judge, source = Judge(tmp_path / "calls"), source_at(server, claim_after_sec=1000.0)
    stream = evaluate_stream(REFERENCE, source, config=CONFIG, judge=judge, max_in_flight=10)
    async with asyncio.timeout(SECONDS), stream:
        await anext(stream)
    with client(server) as at:
        left = at.xpending_range("responses", "eval", "-", "+", 100)
        assert left
        assert {one["times_delivered"] for one in left} == {0}
        assert {one["consumer"] for one in left} == {worker.LEFT.encode()}
    await work(server, claim_after_sec=1000.0, calls=tmp_path / "calls")
    await check(server, entries, tmp_path / "calls")


async def test_entries_that_are_worked_on_are_not_claimed(server: RedisServer, tmp_path: Path) -> None:
    """A worker says so three times before others may claim them."""
    fill(server, [response(9)])
    calls, slow = tmp_path / "calls", {"seconds": 4.5}
    await asyncio.gather(*(work(server, calls=calls, judge=slow, claim_after_sec=3.0) for _ in range(2)))
    assert calls.read_text().split() == ["9"]


async def test_a_poisonous_entry_is_rejected(server: RedisServer) -> None:
    fill(server, [response(0), response(1)])
    with client(server) as at:
        at.xgroup_create("responses", "eval", "0")
        at.xreadgroup("eval", "dead", {"responses": ">"}, count=1)
        for _ in range(2):
            at.xclaim("responses", "eval", "dead", 0, [at.xrange("responses")[0][0]])
    results = await work(server, claim_after_sec=0.05, max_deliveries=3)
    assert [number_of(result) for result in results] == [1]
    (reject,) = rejected(server)
    assert reject["reason"] == "poison"
    assert "delivered 3 times and never finished" in reject["message"]
    assert '"number":0' in reject["content"]


async def test_entries_that_are_deleted_count_as_lost(server: RedisServer) -> None:
    """If a worker had taken them."""
    fill(server, [response(0)])
    await work(server)
    fill(server, [response(number) for number in range(10)])
    with client(server) as at:
        at.xreadgroup("eval", "dead", {"responses": ">"}, count=2)
        at.xtrim("responses", 6, approximate=False)
    assert len(await work(server, claim_after_sec=0.05)) == 6
    async with watch_redis(server.url, "responses", group="eval") as run:
        await anext(run)
        assert run.backlog == (0, 0, 2, 1)


async def test_entries_in_work_that_are_deleted_are_not_lost(server: RedisServer) -> None:
    """Whoever has them still finishes them, however often other workers look for entries to take over."""
    fill(server, [response(0)])
    await work(server)
    fill(server, [response(number) for number in range(10)])
    with client(server) as at:
        [(_, taken)] = at.xreadgroup("eval", "alive", {"responses": ">"}, count=2)
        at.xtrim("responses", 8, approximate=False)
        others = asyncio.create_task(work(server, claim_after_sec=30))
        async with asyncio.timeout(SECONDS):
            while len(stored(server)) < 9:  # noqa: ASYNC110  (the server is polled)
                await asyncio.sleep(0.01)
        assert at.xpending("responses", "eval")["pending"] == 2
        at.xack("responses", "eval", *[entry for entry, _ in taken])
        assert len(await others) == 8
    async with watch_redis(server.url, "responses", group="eval") as run:
        await anext(run)
        assert run.backlog.lost == 0


async def test_a_server_without_memory_of_anything(tmp_path: Path) -> None:
    """What is added after it lost its data is evaluated."""
    with redis_server(tmp_path, keep=False) as server:
        fill(server, [response(0)])
        stream = evaluate_stream(REFERENCE, source_at(server))
        async with asyncio.timeout(SECONDS), stream:
            assert number_of(await anext(stream)) == 0
            server.kill()
            server.start(keep=False)
            fill(server, [response(1)])
            assert number_of(await anext(stream)) == 1
            await check(server, [response(1)])
            with pytest.raises(SourceError, match="other conditions"):
                await anext(evaluate_stream(templates(1), source_at(server)))


async def test_a_server_that_lost_the_last_commit(server: RedisServer) -> None:
    """As with `appendfsync everysec`: the entry is evaluated again, and counts once."""
    fill(server, [response(0)])
    stream = evaluate_stream(REFERENCE, source_at(server))
    async with asyncio.timeout(SECONDS), stream:
        assert number_of(await anext(stream)) == 0
        with client(server) as at:
            at.delete(f"{GROUP}:results")
            at.hdel(f"{GROUP}:parts", *({*at.hkeys(f"{GROUP}:parts")} - {b"base"}))
            at.hset(f"{GROUP}:counts", "results", 0)
            at.xgroup_setid("responses", "eval", "0")
        assert number_of(await anext(stream)) == 0
    await check(server, [response(0)])


async def test_a_stream_that_is_deleted_while_a_worker_waits(server: RedisServer) -> None:
    fill(server, [response(0)])
    stream = evaluate_stream(REFERENCE, source_at(server))
    async with asyncio.timeout(SECONDS), stream:
        assert number_of(await anext(stream)) == 0
        with client(server) as at:
            while not at.info("clients")["blocked_clients"]:  # noqa: ASYNC110  (it tells nobody)
                await asyncio.sleep(0.01)
            at.delete("responses")
        fill(server, [response(1)])
        assert number_of(await anext(stream)) == 1


async def test_a_server_that_is_gone_ends_the_stream(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        stream = evaluate_stream(REFERENCE, source_at(server, max_outage_sec=0.3))
        fill(server, [response(0)])
        async with asyncio.timeout(SECONDS), stream:
            await anext(stream)
            server.kill()
            with pytest.raises(SourceError, match=r"redis://127\.0\.0\.1:\d+/0: .*; not reached for \d+ s"):
                await anext(stream)


async def test_an_entry_that_two_workers_evaluate(server: RedisServer, tmp_path: Path) -> None:
    """The first commit counts; the other result does not come out."""
    entries = [response(number) for number in (5, 9, 2)]
    fill(server, entries)
    judged: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path / "calls", held_from=9)}
    stream = evaluate_stream(REFERENCE, source_at(server, drain=True, claim_after_sec=50.0), **judged)
    async with asyncio.timeout(SECONDS), stream:
        results = [await anext(stream), await anext(stream)]
        with client(server) as at:  # As if another worker had finished the second entry.
            at.xack("responses", "eval", at.xrange("responses")[1][0])
        (tmp_path / "go").touch()
        results += [result async for result in stream]
    assert sorted(map(number_of, results)) == sorted(map(number_of, stored(server))) == [2, 5]


# Conditions, and options


async def test_another_reference_set_is_refused(server: RedisServer) -> None:
    fill(server, [response(0)])
    await work(server)
    other = evaluate_stream(templates(1), source_at(server, drain=True))
    with pytest.raises(SourceError, match=r"has begun under other conditions: reference; .* force=True"):
        await anext(other)
    forced = evaluate_stream(templates(1), source_at(server, drain=True, force=True))
    assert [result async for result in forced] == []
    assert await work(server, force=True) == []


async def test_a_wrong_password_is_said_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis_server(tmp_path, "--requirepass", "rightword") as server:
        monkeypatch.setenv("REDIS_PASSWORD", "wrongword")
        stream = evaluate_stream(REFERENCE, source_at(server))
        with pytest.raises(SourceError, match="check the address, its database and its password") as caught:
            await anext(stream)
        assert "wrongword" not in str(caught.value)
        monkeypatch.setenv("REDIS_PASSWORD", "rightword")
        assert [result async for result in evaluate_stream(REFERENCE, source_at(server, drain=True))] == []


async def test_names_on_several_nodes_of_a_cluster_are_refused_at_once(tmp_path: Path) -> None:
    cluster = ("--cluster-enabled", "yes", "--cluster-port", f"{free_port()}")
    with redis_server(tmp_path, *cluster) as server:
        with client(server) as at:
            at.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        stream = evaluate_stream(REFERENCE, source_at(server, results="elsewhere"))
        async with asyncio.timeout(SECONDS):
            with pytest.raises(SourceError, match="a common part in braces"):
                await anext(stream)


@each(
    "options",
    [{"group": ""}, {"drain": 1}, {"max_deliveries": 0}, {"claim_after_sec": 0}, {"max_results": 10**30}],
)
def test_options_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        redis_stream("redis://host", "responses", **{"group": "eval"} | options)


@each(
    "text",
    [
        "redis://host/responses",
        "redis://host?group=eval",
        "redis://host/responses?group=eval&drain=1",
        "redis://host/responses?group=eval&max_deliveries=none",
        "redis://:secretword@host/responses?groups=eval",
        "redis://host/responses?group=eval&password=secretword",
    ],
)
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        stream_at(text)
    assert "secretword" not in str(caught.value)


def test_an_address() -> None:
    text = "rediss://u:secretword@host:1/2/a%3Fb?group=eval&drain=yes&max_deliveries=9&max_results=7"
    source = stream_at(text, "redis://host:1/2/out").settings
    assert str(source) == "rediss://host:1/2/a?b"
    assert source.keys[:3] == ("a?b", "eval", "out")
    assert (source.drain, source.force) == (True, False)
    assert (source.max_deliveries, source.max_results, source.claim_after_sec) == (9, 7, None)
    with pytest.raises(UsageError, match="both must be in one"):
        stream_at("redis://host/a?group=b", "redis://other/c")
