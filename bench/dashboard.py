"""What a dashboard with 20 browsers and metrics scraped each second cost a run; the size of its page and of a
report; and what it takes to write OTLP.

python -m bench.dashboard
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import suppress
from statistics import median
from time import perf_counter, process_time
from typing import Any
from urllib.parse import urlsplit

from graphrag_eval_async import (
    Dashboard,
    PrometheusCollector,
    RunningAggregates,
    evaluate_stream,
    run_evaluation_sync,
)
from graphrag_eval_async.monitor.otlp import OtlpFile
from graphrag_eval_async.monitor.prometheus import MetricsServer
from graphrag_eval_async.monitor.report import ReportResults, html_report

CLIENTS, TEMPLATES, QUESTIONS = 20, 30, 10
SECONDS, RATE = 8, 1000
ROUNDS = 3

STEP = {
    "name": "sparql_query",
    "args": {"query": "SELECT ?a WHERE { ?a ?b ?c }"},
    "output": '{"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "1"}}]}}',  # noqa: E501
    "output_media_type": "application/sparql-results+json",
}
REFERENCE = [
    {
        "template_id": f"template_{template}",
        "questions": [
            {"id": f"{template}-{i}", "question_text": f"Question {i}?", "reference_steps": [[STEP]]}
            for i in range(QUESTIONS)
        ],
    }
    for template in range(TEMPLATES)
]


def response(number: int) -> dict[str, Any]:
    """The response to one of the questions; one in five is wrong."""
    output = STEP["output"] if number % 5 else '{"head": {"vars": ["a"]}, "results": {"bindings": []}}'
    steps = [{"id": "1", "name": "sparql_query", "args": {}, "status": "success", "output": output}]
    question = f"{number % TEMPLATES}-{number // TEMPLATES % QUESTIONS}"
    return {"question_id": question, "actual_answer": "a", "actual_steps": steps, "elapsed_sec": 1.5}


async def paced(count: int, rate: float) -> Any:
    """Responses at a rate, in bursts of 10; as fast as they are taken if it is 0."""
    start = perf_counter()
    for number in range(count):
        if rate and number % 10 == 0:
            await asyncio.sleep(max(0.0, start + number / rate - perf_counter()))
        yield response(number)


async def run(count: int, rate: float, clients: int | None) -> tuple[float, float]:
    """The results a second, and the seconds of CPU; without dashboard and metrics if `clients` is None."""
    if clients is None:
        return await timed(evaluate_stream(REFERENCE, paced(count, rate)), count)
    with MetricsServer("127.0.0.1", 0) as server:
        stream = evaluate_stream(REFERENCE, paced(count, rate))
        took: list[tuple[float, float]] = []

        async def work() -> None:
            took.append(await timed(Dashboard(stream, port=0), count, server.address, clients))

        await server.run(work(), lambda: PrometheusCollector(stream))
    return took[0]


async def timed(stream: Any, count: int, metrics: str = "", clients: int = 0) -> tuple[float, float]:
    """The same of a stream, while another process has these clients."""
    process = None
    async with stream:
        if clients:
            command = [sys.executable, "-m", "bench.dashboard", "--clients"]
            command += [stream.url, metrics, str(clients)]
            process = subprocess.Popen(command)  # noqa: ASYNC220  (it takes a moment)
            await asyncio.sleep(1.5)
        start, cpu = perf_counter(), process_time()
        async for _ in stream:
            pass
        took = count / (perf_counter() - start), process_time() - cpu
    if process is not None:
        process.kill()
        process.wait()
    return took


async def read_all(url: str, metrics: str, clients: int) -> None:
    """Browsers, as far as the server sees them, and a scraper that gets the metrics once a second."""
    parts, scraped = urlsplit(url), urlsplit(metrics)

    async def listen(path: str) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        while await reader.read(1 << 16):
            pass

    async def scrape() -> None:
        while True:
            reader, writer = await asyncio.open_connection(scraped.hostname, scraped.port)
            writer.write(f"GET /metrics HTTP/1.1\r\nHost: {scraped.netloc}\r\n\r\n".encode())
            await reader.read()
            writer.close()
            await asyncio.sleep(1)

    with suppress(OSError):
        await asyncio.gather(scrape(), *(listen("/events") for _ in range(clients)))


async def page_bytes() -> int:
    """The size of a snapshot of 30 templates."""
    async with Dashboard(evaluate_stream(REFERENCE, paced(3000, 0)), port=0) as dashboard:
        async for _ in dashboard:
            pass
        parts = urlsplit(dashboard.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n".encode())
        size = len(await reader.read())
        writer.close()
        return size


def report(count: int) -> None:
    """Print the size of a report of so many results, and the time it takes."""
    results = run_evaluation_sync(REFERENCE, map(response, range(count)), missing="skip")
    start = process_time()
    collected, aggregates = ReportResults(), RunningAggregates()
    for result in results:
        collected.add(result)
        aggregates.add(result)
    page = html_report(aggregates.snapshot(detail=True), collected)
    took = process_time() - start
    print(f"report of {count} results: {len(page.encode()) / 1e6:.1f} MB (5 wanted), {took:.1f} s")
    start, file = process_time(), OtlpFile("/dev/null")
    for result in results:
        file.add(result)
    file.close()
    print(f"OTLP in JSON: {(process_time() - start) / count * 1e6:.0f} us a result")


def main() -> None:
    """Print the ratios of the figures with a dashboard to those without, median of the rounds."""
    report(10_000)
    print(f"page of {TEMPLATES} templates: {asyncio.run(page_bytes()) / 1000:.0f} kB (100 wanted)")
    for name, count, rate in (
        (f"{RATE} results a second", SECONDS * RATE, RATE),
        ("as fast as possible", 30_000, 0),
    ):
        for clients in (0, CLIENTS):
            pairs = [
                (asyncio.run(run(count, rate, None)), asyncio.run(run(count, rate, clients)))
                for _ in range(ROUNDS)
            ]
            rates = median(shown[0] / plain[0] for plain, shown in pairs)
            cpu = median((shown[1] - plain[1]) / count * 1e6 for plain, shown in pairs)
            plain = median(each[0][0] for each in pairs)
            print(
                f"{name}, {clients} browsers: {rates:.2f}x of {plain:.0f}/s (0.9 wanted), "
                f"{cpu:.0f} us of CPU a result more"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--clients"]:
        asyncio.run(read_all(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    else:
        main()
