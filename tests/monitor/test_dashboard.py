"""The pages of a running evaluation, fetched over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from graphrag_eval_async import Dashboard, UsageError, evaluate_stream, run_evaluation
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor.dashboard_server import MAX_CLIENTS, TOKEN
from tests.cli.support import (
    COLOURS,
    DEADLINE_SECONDS,
    REFERENCE,
    finish,
    response,
    start,
    told,
)
from tests.support import hostile
from tests.support.dashboard import RESPONSES, fetch, finished, get, text_of
from tests.support.summaries import JUDGE, MODEL, with_answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cli.support import Folder

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")


async def listening(url: str, query: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has asked for the updates of a page."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET /events{query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return reader, writer


async def test_the_page_has_the_numbers_of_the_snapshot() -> None:
    alerts = ["error_rate > 0 over 1", "p95 elapsed_sec > 9"]
    async with finished(title="Nightly", alerts=alerts) as dashboard:
        status, headers, html = await get(dashboard.url)
        snapshot = dashboard.aggregates.snapshot(detail=True, interval="anytime")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    steps, shown = snapshot["micro"]["steps_score"], text_of(html)
    assert text_of(html, "h1") == "Nightly"
    ends = "{low:.2f} to {high:.2f}".format_map(steps["interval"])
    for text in (
        "Too early to say: 4 ",
        "Most failures: agent_error: no answer 1 of 2 failures so far",
        "1 active alert error_rate > 0 over 1 mean of error_rate is now 1 since ",
        f"steps_score {steps['mean']:.3f} all 4 results over 3 questions",
        f"95% interval {ends}",
        "error_rate 16.7% over 3 questions",
        "agent_error 1\N{MULTIPLICATION SIGN} : no answer the agent failed",
        "error: no answer",
        "Not active: p95 elapsed_sec > 9 An alert can start once its window is full.",
    ):
        assert text in shown


async def test_a_result_and_a_question_have_pages_of_their_own() -> None:
    async with finished() as dashboard:
        status, _, html = await get(f"{dashboard.url}results/2")
        for path in ("results/99", f"results/{'9' * 5000}", "results/x", "results/at/5", "nothing"):
            assert (await get(f"{dashboard.url}{path}"))[0] == 404
        assert (await get(f"{dashboard.url}events?page=nothing"))[0] == 404
        assert (await get(f"{dashboard.url}question?id=q3"))[2].count("/results/") == 2
        missing, _, absent = await get(f"{dashboard.url}question?id=q9")
        worst = text_of((await get(f"{dashboard.url}worst"))[2])
    assert (status, missing) == (200, 404)
    assert (
        "There is no result of question q9 among those kept, the latest 200 and the worst 200."
        in absent
    )
    shown = text_of(html)
    assert "What of q2?" in shown
    assert '<a href="/question?id=q2">All results of this question</a>' in html
    assert f'<a href="/template?id={COLOURS}">All questions of this template</a>' in html
    assert (
        shown.index("different") < shown.index("blue") < shown.index("wrong", shown.index("blue"))
    )
    assert worst.index("What of q3?") < worst.index("What of q2?")


async def test_a_question_has_all_results_of_the_output(folder: Folder) -> None:
    results = await run_evaluation(REFERENCE, RESPONSES, missing="skip")
    async with finished(output=folder.lines(*results, *results, name="o.jsonl")) as dashboard:
        html = (await get(f"{dashboard.url}question?id=q1"))[2]
    assert "In o.jsonl. As of " in html
    assert html.count("/results/at/") == 2


async def next_event(reader: asyncio.StreamReader) -> str:
    # Other events say in words that the run has ended.
    while not (line := await reader.readline()).startswith(b'data: "'):
        assert line
    return str(json.loads(line.removeprefix(b"data: ")))


async def test_lists_follow_the_run() -> None:
    gate = asyncio.Event()

    async def responses() -> AsyncIterator[Any]:
        await gate.wait()
        yield RESPONSES[1]

    lists = [(name, f"page={name}", f"{name.capitalize()} results") for name in ("latest", "worst")]
    lists.append((f"template?id={COLOURS}", f"template={COLOURS}", f"Questions of {COLOURS}"))
    stream = evaluate_stream(REFERENCE, responses())
    async with Dashboard(stream, port=0) as dashboard, asyncio.timeout(DEADLINE_SECONDS):
        listeners = []
        for page, query, title in lists:
            status, _, html = await get(f"{dashboard.url}{page}")
            assert (status, text_of(html, "h1")) == (200, title)
            assert f'data-events="/events?{query}"' in html
            assert "What of q2?" not in html
            reader, writer = await listening(dashboard.url, f"?{query}")
            assert "What of q2?" not in await next_event(reader)
            listeners.append((page, reader, writer))
        gate.set()
        await anext(dashboard)
        for page, reader, writer in listeners:
            last = await next_event(reader)
            assert "What of q2?" in last
            assert last in (await get(f"{dashboard.url}{page}"))[2]
            writer.close()


async def test_clients_are_counted_and_hold_nobody_up() -> None:
    """Those that ask for updates and never read them, as many as there may be, and more."""
    responses = [RESPONSES[i % 3] for i in range(300)]
    async with Dashboard(evaluate_stream(REFERENCE, responses), port=0) as dashboard:

        async def ask() -> tuple[str, asyncio.StreamWriter]:
            reader, writer = await listening(dashboard.url)
            return (await reader.readline()).split()[1].decode(), writer

        async with asyncio.timeout(DEADLINE_SECONDS):
            asked = await asyncio.gather(*(ask() for _ in range(MAX_CLIENTS + 4)))
            assert sorted(status for status, _ in asked) == ["200"] * MAX_CLIENTS + ["503"] * 4
            assert len([result async for result in dashboard]) == 300
            while "Ended after 300 results" not in (await get(dashboard.url))[2]:
                pass
            for _, writer in asked:
                writer.close()
            while (again := await ask())[0] != "200":
                again[1].close()
            again[1].close()


async def test_every_response_has_the_headers_that_keep_pages_safe() -> None:
    async with finished() as dashboard:
        for path in ("", "style.css", "live.js", "icon.svg", "results/1", "nothing", "events/x"):
            _, headers, _ = await get(f"{dashboard.url}{path}")
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers
        # A tunnel may have another port.
        for host in ("localhost:9999", "LOCALHOST:9999", "127.0.0.1", "[::1]:80"):
            assert (await get(dashboard.url, Host=host, Origin=f"http://{host.lower()}"))[0] == 200
        for host in ("evil.example", "evil.example:8080", "localhost.evil.example"):
            assert (await get(dashboard.url, Host=host))[0] == 403
        for origin in ("http://evil.example", "null"):
            assert (await get(dashboard.url, Origin=origin))[0] == 403


async def test_for_other_machines_the_address_has_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A random one, or that of the environment, which outlasts a restart."""
    everywhere = "0.0.0.0"  # noqa: S104
    async with finished(host=everywhere) as dashboard:
        parts = urlsplit(dashboard.url)
        assert len(parts.path) > 20
        local = f"http://127.0.0.1:{parts.port}"
        status, _, html = await get(f"{local}{parts.path}")
        assert (status, (await get(local + "/"))[0]) == (200, 404)
        assert f'href="{parts.path}style.css"' in html
        assert (await get(f"{local}{parts.path}style.css"))[0] == 200
    monkeypatch.setenv(TOKEN, "c" * 32)
    async with finished(host=everywhere) as dashboard:
        assert urlsplit(dashboard.url).path == f"/{'c' * 32}/"
    for weak in ("", "short", "a/b" * 10):
        monkeypatch.setenv(TOKEN, weak)
        with pytest.raises(UsageError, match="openssl rand"):
            Dashboard(evaluate_stream(REFERENCE, []), host=everywhere, port=0)


async def test_a_baseline_is_refused_with_what_to_use() -> None:
    removed: Any = {"baseline": "baseline.jsonl"}
    with pytest.raises(UsageError, match="baseline= is gone; a Dashboard shows one run"):
        Dashboard(evaluate_stream(REFERENCE, []), port=0, **removed)


async def test_markup_in_any_field_stays_text() -> None:
    async with finished(hostile.responses(), hostile.reference(), window=Last(1)) as dashboard:
        question = quote(hostile.QUESTION)
        for path in ("", "results/1", "results/2", "worst", "latest", f"question?id={question}"):
            status, _, html = await get(f"{dashboard.url}{path}")
            assert status == 200
            hostile.check(html)


def test_watch_ends_at_once_with_a_browser_attached(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    log, out = folder.file("responses.jsonl"), folder.file("out.jsonl")
    process = start("watch", folder.reference, log, "--web", "127.0.0.1:0", "-o", out)
    url = told(process, "http://").split()[-1]
    with closing(
        http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE_SECONDS)
    ) as connection:
        connection.request("GET", "/events")
        events = connection.getresponse()
        while b"all 4 results<" not in (line := events.readline()):
            assert line, "the results are not on the page"
        offset = fetch(f"{url}question?id=q3")[2].partition("/results/at/")[2].partition('"')[0]
        assert "What of q3?" in fetch(f"{url}results/at/{offset}")[2]
        for number in ("1", "9" * 18, "9" * 23):
            assert fetch(f"{url}results/at/{number}")[0] == 404
        process.send_signal(signal.SIGTERM)
        assert finish(process)[0] == 143


async def test_judges_and_their_agreement_are_shown() -> None:
    judges = dict.fromkeys("ab", JUDGE)
    config = {
        "llm": {"judges": dict.fromkeys("ab", MODEL)},
        "answer_correctness": {"judges": ["a", "b"]},
    }
    answers = [
        response(name, right, actual_answer="a") for name, right in (("q1", True), ("q1", False))
    ]
    stream = evaluate_stream(with_answers(REFERENCE), answers, config=config, judge=judges)
    async with Dashboard(stream, port=0) as dashboard:
        assert len([result async for result in dashboard]) == 2
        shown = text_of((await get(dashboard.url))[2])
        page = text_of((await get(f"{dashboard.url}results/1"))[2])
    assert "Judge calls 4" in shown
    assert "Agreement of judges" in shown
    assert (
        "one right (pass@k) all right (pass^k) 1 0.500 0.500 2 1.000 0.000 Over 1 question."
        in shown
    )
    assert "Right means: no error, steps_score >= 1, answer_match >= 0.5, " in shown
    assert "steps_score: variance 0.5 between samples of a question" in shown
    for text in ("answer_f1", "answer_recall", "cost", "a: so"):
        assert text in page
