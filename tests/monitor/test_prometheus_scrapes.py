"""Prometheus itself scrapes a run, and answers the queries of the dashboard."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.monitor.prometheus_server import MetricsServer
from tests.deadlines import WAIT_SECONDS, in_time
from tests.monitor.test_grafana import expressions, printed
from tests.monitor.test_prometheus import judged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMETHEUS = shutil.which("prometheus")


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, MetricsServer]]:
    """A server of Prometheus that scrapes metrics, and the server of these."""
    if PROMETHEUS is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with MetricsServer("127.0.0.1", 0) as server:
        target = urllib.parse.urlsplit(server.address).netloc
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
            f"scrape_configs: [{{job_name: watch, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        command = [PROMETHEUS, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}"]
        with (tmp_path / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, cwd=tmp_path
            )
        try:
            yield f"http://127.0.0.1:{port}", server
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(WAIT_SECONDS)


def ask(address: str, path: str, **parameters: str) -> Any:
    """The data of a reply; None if there is no server yet."""
    url = f"{address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    try:
        with closing(urllib.request.urlopen(url, timeout=WAIT_SECONDS)) as reply:  # noqa: S310
            return json.load(reply)["data"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 503:  # It has just started.
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None
    except urllib.error.URLError:
        pass
    return None


async def until_scraped(address: str, times: int) -> None:
    end = monotonic() + WAIT_SECONDS
    while True:
        found = await asyncio.to_thread(
            ask, address, "query", query="count_over_time(graphrag_eval_info[1h])"
        )
        if found and found["result"] and int(found["result"][0]["value"][1]) >= times:
            return
        assert monotonic() < end, f"waited {WAIT_SECONDS} s for a scrape"
        await asyncio.sleep(0.05)


@in_time
async def test_prometheus_scrapes_and_answers_the_dashboard(
    prometheus: tuple[str, MetricsServer], capfd: pytest.CaptureFixture[str]
) -> None:
    address, server = prometheus
    stream, collector, _ = await judged(50)
    await server.run(until_scraped(address, 3), lambda: collector)
    micro = stream.aggregates.snapshot()["micro"]
    found = await asyncio.to_thread(
        ask, address, "query", query="last_over_time(graphrag_eval_score_sum[1m])"
    )
    sums = {each["metric"]["metric"]: float(each["value"][1]) for each in found["result"]}
    assert sums["steps_score"] == micro["steps_score"]["sum"]
    for expression in expressions(printed(capfd)):
        query = expression.replace("$__rate_interval", "1m")
        for name in ("instance", "template", "metric"):
            query = query.replace(f'"${name}"', '".*"')
        found = await asyncio.to_thread(ask, address, "query", query=query)
        assert found["result"], f"nothing is found by {query}"
