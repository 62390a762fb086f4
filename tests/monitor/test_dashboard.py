"""The pages of a running evaluation, fetched over HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest

from graphrag_eval_async import Dashboard, UsageError, evaluate_stream
from graphrag_eval_async.aggregates import Last
from graphrag_eval_async.monitor import dashboard_server as module
from tests.cli.support import COLOURS, DEADLINE_SECONDS, REFERENCE, failed, finish, response, start, told
from tests.metrics.support import Judge
from tests.metrics.test_panel import REFERENCE as JUDGED
from tests.metrics.test_panel import RESPONSE as ANSWER
from tests.metrics.test_panel import claims, settings
from tests.monitor import hostile

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cli.support import Folder

pytest.importorskip("jinja2")
pytest.importorskip("uvicorn")

RESPONSES = [response("q1"), response("q2", False), response("q3"), failed("q3")]


class Cells(HTMLParser):
    """The texts of elements, by their tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002  (its signature)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self._open[-1] if self._open else "", " ".join(data.split())))

    def of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=DEADLINE_SECONDS)
    try:
        query = f"?{parts.query}" if parts.query else ""
        connection.request("GET", f"{parts.path}{query}", headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


async def get(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    return await asyncio.wait_for(asyncio.to_thread(fetch, url, **headers), DEADLINE_SECONDS)


async def listening(
    dashboard: Dashboard, query: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that has asked for the updates of a page."""
    parts = urlsplit(dashboard.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET /events{query} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return reader, writer


@asynccontextmanager
async def finished(
    responses: Any = RESPONSES, reference: Any = REFERENCE, **options: Any
) -> AsyncIterator[Dashboard]:
    """A dashboard whose stream has ended."""
    stream = evaluate_stream(reference, responses, ordered=True)
    async with Dashboard(stream, port=0, **options) as dashboard:
        async for _ in dashboard:
            pass
        yield dashboard


async def test_the_page_has_the_numbers_of_the_snapshot() -> None:
    stream = evaluate_stream(REFERENCE, RESPONSES, ordered=True)
    alerts = ["error_rate > 0 over 1", "p95 elapsed_sec > 9"]
    async with Dashboard(stream, port=0, title="Nightly", alerts=alerts) as dashboard:
        results = [result async for result in dashboard]
        status, headers, html = await get(dashboard.url)
    assert len(results) == 4
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    detailed = stream.aggregates.snapshot(detail=True, interval="anytime")["micro"]["steps_score"]
    shown = Cells(html)
    assert shown.of("h1") == ["Nightly"]
    interval = detailed["interval"]
    ends = "[{low:.2f}, {high:.2f}]".format_map(interval)
    assert f"steps_score {detailed['mean']:.3f} {ends} over 3 of 4 results" in html
    assert f"{detailed['mean']:.3f}" in shown.of("span")
    assert "1 of 4 responses are errors (25.0%), the latest: no answer" in shown.of("dd")
    assert "error: no answer (1 of 1 failures)" in shown.of("td")
    assert f"{COLOURS}</a><br>steps_score 0.500" in html
    assert "1 active" in shown.of("strong")
    assert "steps_score 0 over 1 result; wrong_query_result" in html
    assert "error_rate &gt; 0 over 1, since " in html
    assert "An alert ends once its condition has not held for a whole window." in shown.of("p")
    assert "Not active: p95 elapsed_sec > 9. An alert can start once its window is full." in shown.of("p")


async def test_a_result_has_a_page_of_its_own() -> None:
    async with finished() as dashboard:
        shown_as, _, html = await get(f"{dashboard.url}results/2")
        for number in ("99", "9" * 23, "9" * 5000, "x", "at/5", f"at/{'9' * 23}"):
            assert (await get(f"{dashboard.url}results/{number}"))[0] == 404
        assert (await get(f"{dashboard.url}question?id=q3"))[2].count("/results/") == 2
        status, _, absent = await get(f"{dashboard.url}question?id=q9")
        assert status == 404
        assert (
            "There is no result of question q9 among those kept, the latest 200 and the worst 200." in absent
        )
        assert (await get(f"{dashboard.url}nothing"))[0] == 404
        worst = Cells((await get(f"{dashboard.url}worst"))[2])
    assert shown_as == 200
    shown = Cells(html)
    assert "What of q2?" in shown.of("p")
    assert '<a href="/question?id=q2">All results of this question</a>' in html
    assert f'<a href="/template?id={COLOURS}">All questions of this template</a>' in html
    assert [text for text in shown.of("pre") if text in {"blue", "wrong"}] == ["blue", "wrong"]
    assert "different" in shown.of("span")
    assert worst.of("a")[-2:] == ["What of q3?", "What of q2?"]


@pytest.mark.parametrize(
    ("page", "query", "title"),
    [
        ("latest", "page=latest", "Latest results"),
        ("worst", "page=worst", "Worst results"),
        (f"template?id={quote(COLOURS)}", f"template={quote(COLOURS)}", f"Questions of {COLOURS}"),
    ],
)
async def test_lists_follow_the_run(page: str, query: str, title: str) -> None:
    gate = asyncio.Event()

    async def responses() -> AsyncIterator[Any]:
        await gate.wait()
        yield RESPONSES[1]

    async with Dashboard(evaluate_stream(REFERENCE, responses()), port=0) as dashboard:
        status, _, html = await get(f"{dashboard.url}{page}")
        assert (status, Cells(html).of("h1")) == (200, [title])
        assert f'data-events="/events?{query}"' in html
        assert "What of q2?" not in html
        reader, writer = await listening(dashboard, f"?{query}")
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert "What of q2?" not in await _event(reader)
            gate.set()
            await anext(dashboard)
            last = await _event(reader)
        writer.close()
        assert "What of q2?" in last
        assert last in (await get(f"{dashboard.url}{page}"))[2]
        assert (await get(f"{dashboard.url}events?page=nothing"))[0] == 404


async def _event(reader: asyncio.StreamReader) -> str:
    while not (line := await reader.readline()).startswith(b"data: "):
        assert line
    return str(json.loads(line.removeprefix(b"data: ")))


async def test_clients_that_come_at_once_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 3)
    async with finished() as dashboard:

        async def ask() -> tuple[str, asyncio.StreamWriter]:
            reader, writer = await listening(dashboard)
            return (await reader.readline()).split()[1].decode(), writer

        async with asyncio.timeout(DEADLINE_SECONDS):
            asked = await asyncio.gather(*(ask() for _ in range(7)))
            assert sorted(status for status, _ in asked) == ["200"] * 3 + ["503"] * 4
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


async def test_other_hosts_and_origins_are_refused() -> None:
    """A tunnel may have another port."""
    async with finished() as dashboard:
        for host in ("localhost:9999", "LOCALHOST:9999", "127.0.0.1", "[::1]:80"):
            assert (await get(dashboard.url, Host=host, Origin=f"http://{host.lower()}"))[0] == 200
        for host in ("evil.example", "evil.example:8080", "localhost.evil.example"):
            assert (await get(dashboard.url, Host=host))[0] == 403
        for origin in ("http://evil.example", "null"):
            assert (await get(dashboard.url, Origin=origin))[0] == 403


async def test_the_secret_may_outlast_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.TOKEN, "c" * 32)
    async with finished(host="0.0.0.0") as dashboard:  # noqa: S104
        assert urlsplit(dashboard.url).path == f"/{'c' * 32}/"
    for weak in ("", "short", "a/b" * 10):
        monkeypatch.setenv(module.TOKEN, weak)
        with pytest.raises(UsageError, match="openssl rand"):
            Dashboard(evaluate_stream(REFERENCE, []), host="0.0.0.0", port=0)  # noqa: S104


async def test_elsewhere_than_on_this_machine_the_address_has_a_secret() -> None:
    async with finished(host="0.0.0.0") as dashboard:  # noqa: S104
        parts = urlsplit(dashboard.url)
        assert len(parts.path) > 20
        local = f"http://127.0.0.1:{parts.port}"
        status, _, html = await get(f"{local}{parts.path}")
        assert (status, (await get(local + "/"))[0]) == (200, 404)
        assert f'href="{parts.path}style.css"' in html
        assert (await get(f"{local}{parts.path}style.css"))[0] == 200


async def test_markup_in_any_field_stays_text() -> None:
    async with finished(hostile.responses(), hostile.reference(), window=Last(1)) as dashboard:
        question = quote(hostile.QUESTION)
        pages = ("", "results/1", "results/2", "worst", "latest", f"question?id={question}")
        for path in pages:
            status, _, html = await get(f"{dashboard.url}{path}")
            assert status == 200
            assert "<img" not in html
            assert html.count("<script") == 1
            assert not {"\x1b", "\x07", "\u202e", "\u2028"} & {*html}


def test_watch_ends_at_once_with_a_browser_attached(folder: Folder) -> None:
    folder.lines(*RESPONSES)
    log, out = folder.file("responses.jsonl"), folder.file("out.jsonl")
    process = start("watch", folder.reference, log, "--web", "127.0.0.1:0", "-o", out)
    url = told(process, "http://").split()[-1]
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE_SECONDS)
    connection.request("GET", "/events")
    events = connection.getresponse()
    end = monotonic() + DEADLINE_SECONDS
    while b"over 3 of 4 results" not in events.readline():
        assert monotonic() < end, "the results are not on the page"
    listed = fetch(f"{url}question?id=q3")[2]
    offset = listed.partition("/results/at/")[2].partition('"')[0]
    assert "What of q3?" in fetch(f"{url}results/at/{offset}")[2]
    for number in ("1", "9" * 18, "9" * 23):
        assert fetch(f"{url}results/at/{number}")[0] == 404
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    connection.close()


async def test_a_client_that_does_not_read_holds_nobody_up() -> None:
    responses = [RESPONSES[i % 3] for i in range(300)]
    async with Dashboard(evaluate_stream(REFERENCE, responses), port=0) as dashboard:
        _, writer = await listening(dashboard)
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert len([result async for result in dashboard]) == 300
            while "over 300 results" not in (await get(dashboard.url))[2]:
                pass
        writer.close()


async def test_judges_and_their_agreement_are_shown() -> None:
    judges = {"a": Judge("m-a", claims(1, 1, 1)), "b": Judge("m-b", claims(1, 1, 0))}
    config = settings({"answer_correctness": {"judges": ["a", "b"]}}, names="ab")
    stream = evaluate_stream(JUDGED, [ANSWER], config=config, judge=judges)
    async with Dashboard(stream, port=0) as dashboard:
        _ = [result async for result in dashboard]
        shown = Cells((await get(dashboard.url))[2])
        page = Cells((await get(f"{dashboard.url}results/1"))[2])
    assert {"Judge", "Agreement of judges"} <= {*shown.of("h2")}
    assert {"answer_f1", "answer_recall", "cost"} <= {*page.of("dt")}
    assert any(text.startswith("a: ") for text in page.of("p"))
