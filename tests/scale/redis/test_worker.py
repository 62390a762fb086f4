"""Workers of a consumer group: each entry has one result, whatever dies."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import GraphragEvalWarning, JournalMismatch, SourceError, UsageError, evaluate_stream
from graphrag_eval_async.scale import redis_stream, watch_redis
from graphrag_eval_async.scale.redis.source import stream_at
from tests.scale.redis.support import (
    GROUP,
    SECONDS,
    client,
    fill,
    number_of,
    source_at,
    start_worker,
    stored,
    work,
)
from tests.scale.responses import CONFIG, QUESTIONS, REFERENCE, Judge, alike, in_one_process, response
from tests.support.cases import each
from tests.support.data import templates
from tests.support.deadlines import until
from tests.support.redis_server import RedisServer, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def server(shared: RedisServer) -> RedisServer:
    """A server without data; tests that end one have one of their own."""
    with client(shared) as at:
        at.flushall()
        at.acl_setuser("default", enabled=True, commands=["+@all"])
        at.config_set("maxmemory", 0)
    return shared


async def check(server: RedisServer, entries: list[dict[str, Any]], folder: Path | None = None) -> None:
    """Compare what is on the server with what one process finds."""
    entries_of = Counter(result["source"]["entry"] for result in stored(server))
    assert {*entries_of.values()} == {1}
    judged: dict[str, Any] = {} if folder is None else {"config": CONFIG, "judge": Judge(folder)}
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


async def test_each_entry_has_one_result(server: RedisServer) -> None:
    entries = [response(number) for number in range(400)]
    fill(server, entries)
    found = await asyncio.gather(*(work(server) for _ in range(3)))
    results = [result for each_ in found for result in each_]
    assert len(results) == 400
    assert alike(results) == alike(stored(server))
    assert not any("sample" in result for result in results)
    await check(server, entries)
    with client(server) as at:
        assert at.smembers(f"{GROUP}:answered") == {f"q{i}".encode() for i in range(QUESTIONS)}
        assert at.xinfo_consumers("responses", "eval") == []


async def test_parts_of_the_aggregates_are_merged_again_and_again(server: RedisServer) -> None:
    """One result fills a part, since the names of its steps are long; 16 parts become one."""
    entries = [response(number) for number in range(300)]
    for number, entry in enumerate(entries):
        if steps := entry.get("actual_steps"):
            names = (f"{number % 50}-{i}-".ljust(200, "x") for i in range(45))
            entry["actual_steps"] = [*steps, *({**steps[0], "name": name, "id": name} for name in names)]
    fill(server, entries)
    await work(server, max_in_flight=1)
    await check(server, entries)
    with client(server) as at:
        assert at.hlen(f"{GROUP}:parts") < 100


async def test_results_beyond_the_maximum_are_deleted(server: RedisServer) -> None:
    fill(server, [response(number) for number in range(500)])
    assert len(await work(server, max_results=150)) == 500
    assert 150 <= len(stored(server)) < 500


async def test_what_cannot_be_evaluated(server: RedisServer) -> None:
    fill(server, [b"{", b"", {"question_id": "nobody"}, response(0), b"[" * 100_000])
    with client(server) as at:
        at.xadd("responses", {"a": "1", "b": "2"})
        at.xadd("responses", {"whatever": b'{"question_id": "q1"}'})
    stream = evaluate_stream(REFERENCE, source_at(server, drain=True), max_line_bytes=90_000)
    with pytest.warns(GraphragEvalWarning, match="5 responses were rejected"):
        async with asyncio.timeout(SECONDS), stream:
            assert len([result async for result in stream]) == 2
    found = [(reject["reason"], "entry" in reject) for reject in stored(server, "reject")]
    reasons = ["invalid_json", "invalid_json", "unknown_question_id", "too_long", "invalid_field"]
    assert sorted(found) == sorted((reason, True) for reason in reasons)
    with client(server) as at:
        assert at.xpending("responses", "eval")["pending"] == 0
        assert int(at.hget(f"{GROUP}:counts", "rejected:invalid_json") or 0) == 2


# Workers that die


def results_on(at: redis.Redis) -> int:
    return int(at.hget(f"{GROUP}:counts", "results") or 0)


def count_calls(folder: Path, entries: list[dict[str, Any]], repaid: int) -> None:
    """All were judged, and no more than these twice."""
    asked = (folder / "calls").read_text().split()
    judged = {f"{entry['number']}" for entry in entries if "error" not in entry}
    assert {*asked} == judged
    assert len(asked) - len(judged) <= repaid


async def test_a_killed_worker_and_a_server_that_restarts(tmp_path: Path) -> None:
    entries = [response(number) for number in range(200)]
    with redis_server(tmp_path) as server, client(server) as at:
        fill(server, entries)
        dead = await start_worker(server, tmp_path, held_from=100, max_in_flight=40)
        await until(lambda: results_on(at) >= 90)
        await until(lambda: at.xpending("responses", "eval")["pending"])
        living = asyncio.ensure_future(work(server, folder=tmp_path, held_from=100))
        await until(lambda: len(at.xinfo_consumers("responses", "eval")) == 2)
        server.kill()
        dead.kill()
        await dead.wait()
        server.start()
        (tmp_path / "go").touch()
        assert len(await living) >= 90
        count_calls(tmp_path, entries, repaid=40 + 64)
        await check(server, entries, tmp_path)


@pytest.mark.soak
async def test_killed_workers_for_long(tmp_path: Path) -> None:
    """20,000 entries have one result each though every second a worker dies, and the server twice; 3 min."""
    count, kills, rng = 20_000, 0, random.Random(1)
    entries = [response(number) for number in range(count)]
    options: dict[str, Any] = {"max_deliveries": 1000, "claim_after_sec": 4.0}
    with redis_server(tmp_path) as server:
        fill(server, entries)
        running = [await start_worker(server, tmp_path, **options) for _ in range(4)]
        restarts, done = [count // 3, count // 2], 0
        while done < count:
            await asyncio.sleep(1)
            with client(server) as at:
                before, done = done, results_on(at)
            if restarts and done > restarts[0]:
                restarts.pop(0)
                server.kill()
                server.start()
            elif before < done < count * 0.9:
                place = rng.randrange(4)
                running[place].kill()
                await running[place].wait()
                kills += 1
                running[place] = await start_worker(server, tmp_path, **options)
        assert [await process.wait() for process in running] == [0] * 4
        count_calls(tmp_path, entries, repaid=kills * 256)
        await check(server, entries, tmp_path)


async def test_a_worker_that_stops_leaves_its_entries_to_others(server: RedisServer, tmp_path: Path) -> None:
    entries = [response(number) for number in range(50)]
    fill(server, entries)
    judge, source = Judge(tmp_path, held_from=20), source_at(server, claim_after_sec=1000.0)
    stream = evaluate_stream(REFERENCE, source, config=CONFIG, judge=judge, max_in_flight=10)
    async with asyncio.timeout(SECONDS), stream:
        await anext(stream)
        stream.stop()
    with client(server) as at:
        left = at.xpending_range("responses", "eval", "-", "+", 100)
        assert left
        assert {one["times_delivered"] for one in left} == {0}
        assert {one["consumer"] for one in left} == {b"left"}
    (tmp_path / "go").touch()
    await work(server, claim_after_sec=1000.0, folder=tmp_path)
    await check(server, entries, tmp_path)


async def test_a_watcher_can_stop_while_the_server_is_away() -> None:
    run = watch_redis("redis://127.0.0.1:1", "responses", group="eval", max_outage_sec=None)
    async with asyncio.timeout(SECONDS), run:
        asyncio.get_running_loop().call_later(0.2, run.stop)
        assert [result async for result in run] == []


async def test_entries_that_are_worked_on_are_not_idle(server: RedisServer, tmp_path: Path) -> None:
    """A worker touches them, so that others do not claim them."""
    fill(server, [response(9)])
    working = asyncio.ensure_future(work(server, folder=tmp_path, held_from=0, claim_after_sec=0.6))
    idle = [0]

    def is_touched() -> bool:
        idle.extend(
            one["time_since_delivered"] for one in at.xpending_range("responses", "eval", "-", "+", 1)
        )
        return idle[-1] < max(idle)

    with client(server) as at:
        await until(lambda: at.xinfo_groups("responses"))
        await until(is_touched)
    (tmp_path / "go").touch()
    assert len(await working) == 1
    assert (tmp_path / "calls").read_text().split() == ["9"]


async def test_a_poisonous_entry_is_rejected(server: RedisServer) -> None:
    fill(server, [response(0), response(1)])
    with client(server) as at:
        at.xgroup_create("responses", "eval", "0")
        at.xreadgroup("eval", "dead", {"responses": ">"}, count=1)
        for _ in range(2):
            at.xclaim("responses", "eval", "dead", 0, [at.xrange("responses")[0][0]])
    results = await work(server, claim_after_sec=0.05, max_deliveries=3)
    assert [number_of(result) for result in results] == [1]
    (reject,) = stored(server, "reject")
    assert reject["reason"] == "poison"
    assert "delivered 3 times and never finished" in reject["message"]
    assert '"number":0' in reject["content"]


async def test_deleted_entries_that_a_dead_worker_had_are_lost(server: RedisServer) -> None:
    with client(server) as at:
        fill(server, [response(number) for number in range(10)])
        at.xgroup_create("responses", "eval", "0")
        at.xreadgroup("eval", "dead", {"responses": ">"}, count=2)
        at.xtrim("responses", 8, approximate=False)
    assert len(await work(server, claim_after_sec=0.05)) == 8
    async with watch_redis(server.url, "responses", group="eval") as run:
        await anext(run)
        assert run.backlog[:3] == (0, 0, 2)


async def test_an_entry_that_two_workers_evaluate(server: RedisServer, tmp_path: Path) -> None:
    """The first commit counts; the other result does not come out."""
    entries = [response(number) for number in (5, 9, 2)]
    fill(server, entries)
    judged: dict[str, Any] = {"config": CONFIG, "judge": Judge(tmp_path, held_from=9)}
    stream = evaluate_stream(REFERENCE, source_at(server, drain=True, claim_after_sec=50.0), **judged)
    async with asyncio.timeout(SECONDS), stream:
        results = [await anext(stream), await anext(stream)]
        with client(server) as at:  # As if another worker had finished the second entry.
            at.xack("responses", "eval", at.xrange("responses")[1][0])
        (tmp_path / "go").touch()
        results += [result async for result in stream]
    assert sorted(map(number_of, results)) == sorted(map(number_of, stored(server))) == [2, 5]


# Servers that refuse, forget, or are gone


@each(
    ("bring", "mend"),
    [
        ("ACL SETUSER default -xadd", "ACL SETUSER default +xadd"),
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    ],
)
def test_what_the_server_refuses_loses_nothing(server: RedisServer, bring: str, mend: str) -> None:
    """After the cause is mended, each entry has one result or reject."""
    entries = [response(number) for number in range(40)]

    async def refused(at: Any) -> None:
        at.flushall()
        fill(server, [*entries, b"{", b"}", b"["])
        source = source_at(server, drain=True, claim_after_sec=0.5, max_outage_sec=0.2)
        stream = evaluate_stream(REFERENCE, source, max_in_flight=4, on_reject=lambda _: None)
        async with asyncio.timeout(SECONDS), stream:
            await anext(stream)
            at.execute_command(*bring.split())
            with suppress(SourceError):
                async for _ in stream:
                    pass
        at.execute_command(*mend.split())
        await work(server, claim_after_sec=0.5)
        await check(server, entries)
        assert len(stored(server, "reject")) == 3

    with client(server) as at:
        asyncio.run(refused(at))


async def test_what_will_be_refused_is_said_before_anything_is_read(server: RedisServer) -> None:
    fill(server, [response(0)])
    with client(server) as at:
        at.zadd(f"{GROUP}:results", {"member": 1})
        with pytest.raises(SourceError, match="results is a zset, expected a stream; delete this key, "):
            await work(server)
        at.delete(f"{GROUP}:results")
        at.acl_setuser("default", enabled=True, commands=["-xadd"])
        with pytest.raises(SourceError, match=r"no permission for XADD .*; allow the user "):
            await work(server)
        assert at.xinfo_groups("responses") == []


async def test_the_user_of_the_docs_is_allowed_enough(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = inspect.getdoc(redis_stream) or ""
    lines = [line.split() for line in text.splitlines() if line.strip().startswith("ACL SETUSER")]
    assert len(lines) == 2
    fill(server, [*[response(number) for number in range(20)], b"{"])
    with client(server) as at:
        for words in lines:
            at.execute_command(*words)
    # The environment is how a worker learns the password.
    monkeypatch.setenv("REDIS_USERNAME", "worker")
    monkeypatch.setenv("REDIS_PASSWORD", "wrongword")
    with pytest.raises(SourceError, match="check the address, its database and its password") as caught:
        await work(server)
    assert "wrongword" not in str(caught.value)
    monkeypatch.setenv("REDIS_PASSWORD", "PASSWORD")
    await asyncio.gather(*(work(server) for _ in range(2)))
    await check(server, [response(number) for number in range(20)])


async def test_a_server_that_lost_its_data_and_one_that_is_gone(tmp_path: Path) -> None:
    """What is added after it lost its data is evaluated, under the same conditions."""
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
            with pytest.raises(JournalMismatch, match="other conditions"):
                await anext(evaluate_stream(templates(1), source_at(server)))
        fill(server, [response(2)])
        stream = evaluate_stream(REFERENCE, source_at(server, max_outage_sec=0.3))
        async with asyncio.timeout(SECONDS), stream:
            await anext(stream)
            server.kill()
            with pytest.raises(SourceError, match=r"redis://127\.0\.0\.1:\d+/0: .*; not reached for \d+ s"):
                await anext(stream)


# Conditions, and options


async def test_another_reference_set_is_refused(server: RedisServer) -> None:
    fill(server, [response(0)])
    await work(server)
    other = evaluate_stream(templates(1), source_at(server, drain=True))
    with pytest.raises(JournalMismatch, match=r"has begun under other conditions: reference; .* force=True"):
        await anext(other)
    forced = evaluate_stream(templates(1), source_at(server, drain=True, force=True))
    assert [result async for result in forced] == []


def test_options_and_addresses_that_are_none() -> None:
    for address in ("redis://host/responses", "redis://:secretword@host/responses?groups=eval"):
        with pytest.raises(UsageError, match=r"expected redis://|groups") as caught:
            stream_at(address)
        assert "secretword" not in str(caught.value)
    with pytest.raises(UsageError, match="max_deliveries"):
        redis_stream("redis://host", "responses", group="eval", max_deliveries=0)


def test_an_address() -> None:
    text = "rediss://u:secretword@host:1/2/a%3Fb?group=eval&drain=yes&max_deliveries=9&max_results=7"
    source = stream_at(text, "redis://host:1/2/out").settings
    assert str(source) == "rediss://host:1/2/a?b"
    assert source.keys[:3] == ("a?b", "eval", "out")
    assert (source.drain, source.force, source.max_deliveries, source.max_results) == (True, False, 9, 7)
    with pytest.raises(UsageError, match="both must be in one"):
        stream_at("redis://host/a?group=b", "redis://other/c")
