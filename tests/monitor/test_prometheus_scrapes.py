"""Prometheus itself scrapes a run, and answers the queries of the dashboard."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.monitor.prometheus_server import MetricsServer
from tests.monitor.test_dashboard import fetch
from tests.monitor.test_grafana import expressions, printed
from tests.monitor.test_prometheus import judged
from tests.support.deadlines import WAIT_SECONDS, in_time
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMETHEUS = shutil.which("prometheus")


def test_metrics_on_loopback_are_for_this_machine_only() -> None:
    with MetricsServer("127.0.0.1", 0) as server:
        for headers, status in [
            ({}, 200),
            ({"Host": "localhost:9999"}, 200),
            ({"Host": "evil.example"}, 403),
            ({"Host": "evil.example:9464"}, 403),
            ({"Origin": "http://evil.example"}, 403),
        ]:
            assert fetch(server.address, **headers)[0] == status
    with MetricsServer("0.0.0.0", 0) as server:  # noqa: S104
        address = server.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        assert fetch(address, Host="prometheus.example")[0] == 200


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, MetricsServer]]:
    """A server of Prometheus that scrapes metrics, and the server of these."""
    if PROMETHEUS is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    port = free_port()
    with MetricsServer("127.0.0.1", 0) as server:
        target = urllib.parse.urlsplit(server.address).netloc
        (tmp_path / "prometheus.yml").write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
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


async def found_by(address: str, query: str) -> list[dict[str, Any]]:
    """Wait for a query to find something: a scrape that took too long leaves nothing until the next."""
    end = monotonic() + WAIT_SECONDS
    while True:
        found = await asyncio.to_thread(ask, address, "query", query=query)
        if found and found["result"]:
            result: list[dict[str, Any]] = found["result"]
            return result
        assert monotonic() < end, f"waited {WAIT_SECONDS} s: nothing is found by {query}"
        await asyncio.sleep(0.05)


@in_time
async def test_prometheus_scrapes_and_answers_the_dashboard(
    prometheus: tuple[str, MetricsServer], capfd: pytest.CaptureFixture[str]
) -> None:
    address, server = prometheus
    stream, collector, _ = await judged(50)
    sums = {
        name: stats["sum"]
        for name, stats in stream.aggregates.snapshot()["micro"].items()
        if name in ("steps_score", "answer_f1")
    }

    async def check() -> None:
        await found_by(address, "count_over_time(graphrag_eval_info[1h]) >= 3")
        found = await found_by(address, "graphrag_eval_score_sum")
        shown = {each["metric"]["metric"]: float(each["value"][1]) for each in found}
        assert {name: shown[name] for name in sums} == sums
        for expression in expressions(printed(capfd)):
            query = expression.replace("$__rate_interval", "1m")
            for name in ("instance", "template", "metric"):
                query = query.replace(f'"${name}"', '".*"')
            await found_by(address, query)

    await server.run(check(), lambda: collector)
