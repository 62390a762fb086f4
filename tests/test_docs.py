"""The pages of documentation say what the code does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from docs.make import DRAWN, MADE, MADE_WITH_RAGAS
from graphrag_eval_async import __all__, config, scale, traces
from graphrag_eval_async.cli.command_table import COMMANDS
from graphrag_eval_async.cli.exits import DRAIN_SECONDS
from graphrag_eval_async.cli.options import options
from graphrag_eval_async.records.line import LARGE_BYTES
from graphrag_eval_async.steps import comparators
from graphrag_eval_async.steps.failure import CLASSES
from tests.steps import test_comparators
from tests.support.deadlines import PROCESS_SECONDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "graphrag_eval_async"
LIMITS = (ROOT / "docs" / "limits.md").read_text()


DEFAULTS = {
    "reply to `http_agent`": "stream.http_agent.MAX_REPLY_BYTES",
    "redirects of `http_agent` and endpoints": "execution.http_connections.MAX_REDIRECTS",
    "nesting of lists and objects": "records.decoding.MAX_DEPTH",
    "size of a JSON array of responses": "sources.lines.MAX_DOCUMENT_BYTES",
    "rejects kept in `stream.rejects`": "records.reject.KEPT_REJECTS",
    "size of the file of rejects": "sinks.rejects.MAX_REJECT_BYTES",
    "open log files": "sources.follow.descriptors.MAX_OPEN",
    "traces in progress": "traces.grouping.MAX_TRACES traces.grouping.MAX_BYTES",
    "comparisons per response": "steps.budget.STEPS",
    "characters that `match` reads": "steps.answers.MAX_CHARACTERS",
    "step names per template": "aggregates.steps.MOST_NAMES",
    "keys and values of tags": "catalogue.tags.MOST_KEYS catalogue.tags.MOST_VALUES",
    "live browsers": "monitor.dashboard_server.MAX_CLIENTS",
    "connections to the live page or the OTLP receiver": "helpers.connections.MAX_CONNECTIONS",
    "connections to the metrics": "exporters.scrape_server.MAX_SCRAPES",
    "time until a request is complete": "helpers.connections.REQUEST_SECONDS",
    "time until a response is read": "helpers.web_server.READING_SECONDS",
    "details in a report": (
        "reports.report_results.DETAILED reports.report_results.DETAIL_CHARACTERS"
    ),
    "rows in a report": "reports.report_page.LISTED",
    "wait for the OpenTelemetry collector": "exporters.otel.CLOSING_SECONDS",
}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def test_limits_have_their_defaults() -> None:
    cells = [line.strip("|").split("|") for line in LIMITS.splitlines() if line.startswith("| ")]
    rows = {limit.strip(): default for limit, default, *_ in cells}
    for limit, names in DEFAULTS.items():
        found = re.findall(r"([\d.,]*\d)(?: (\wiB))?", rows[limit])
        figures = [float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]
        expected = [resolve_name(f"graphrag_eval_async.{name}") for name in names.split()]
        assert figures == expected, limit


@pytest.mark.parametrize("name", MADE)
def test_pages_and_pictures_are_those_of_the_code(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == MADE[name](), "python -m docs.make writes it"


@pytest.mark.ragas
@pytest.mark.parametrize("name", MADE_WITH_RAGAS)
def test_pages_about_ragas_are_those_of_the_code(name: str) -> None:
    pytest.importorskip("ragas", reason="needs ragas: pip install '.[ragas]'")
    pytest.importorskip("rapidfuzz", reason="needs what metrics of ragas need: the extra dev")
    assert (ROOT / "docs" / name).read_text() == MADE_WITH_RAGAS[name]()


@pytest.mark.parametrize("name", DRAWN)
def test_plots_are_drawn(name: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    assert (ROOT / "docs" / name).exists()
    assert DRAWN[name]().startswith("<?xml")


def test_the_reference_has_all_that_is_public() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    names = re.findall(r"^::: graphrag_eval_async\.([\w.]+)$", page, re.MULTILINE)
    elsewhere = {f"config.{name}" for name in vars(config) if name.endswith("Config")}
    elsewhere |= {f"scale.{name}" for name in scale.__all__ if name not in __all__}
    elsewhere |= {f"traces.{name}" for name in traces.__all__ if name != "TraceOptions"} | {
        "sources.Lag",
        "testing.assert_evaluation",
    }
    assert sorted(names) == sorted({*__all__} | elsewhere)


def test_other_figures() -> None:
    assert f"Lines of {LARGE_BYTES >> 10} KiB or more" in LIMITS
    assert f"has {DRAIN_SECONDS:g} seconds to finish" in LIMITS


def test_the_page_of_results_lists_the_reasons_of_failures() -> None:
    section = (ROOT / "docs" / "results.md").read_text().partition("## Why a response is wrong")[2]
    rows = [
        line.split("|")[1]
        for line in section.partition("## ")[0].splitlines()
        if line.startswith("| `")
    ]
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted({*CLASSES} | {"failure"})


def test_there_is_not_too_much_to_read() -> None:
    """README, reference that is made from the code, and the page for contributors do not count."""
    others = {"api.md", "configuration.md", "prometheus-metrics.md", "ragas.md", "contributing.md"}
    pages = [path.read_text() for path in (ROOT / "docs").glob("*.md") if path.name not in others]
    assert len(pages) <= 21
    assert sum(len(page.split()) for page in pages) <= 19_800


def test_each_option_of_the_command_line_is_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        name for page in pages for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", page.read_text())
    }
    keys = {
        key for command in COMMANDS.values() for key in f"{command.shown} {command.more}".split()
    }
    found = [options()[key].names for key in keys]
    unnamed = {names[-1] for names in found if names[0].startswith("-") and named.isdisjoint(names)}
    assert not unnamed


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_list_of_long_tests_has_all() -> None:
    section = (ROOT / "tests" / "README.md").read_text().partition("## Long tests")[2]
    soak = re.compile(r"pytest\.mark\.soak|^from tests\.fuzz\.seeds import .*\bsizes", re.MULTILINE)
    modules = (ROOT / "tests").rglob("test_*.py")
    found = [
        str(path.relative_to(ROOT / "tests")) for path in modules if soak.search(path.read_text())
    ]
    assert sorted(re.findall(r"`(\S+\.py)`", section)) == sorted(found)


CONTRIBUTING = (ROOT / "docs" / "contributing.md").read_text()
MULTILINE_DOTALL = re.MULTILINE | re.DOTALL
PYTHON_OF_CONTRIBUTING = re.findall(r"^```python\n(.*?)^```$", CONTRIBUTING, MULTILINE_DOTALL)


def test_the_comparator_of_contributing_works(monkeypatch: pytest.MonkeyPatch) -> None:
    test, module, *_ = PYTHON_OF_CONTRIBUTING
    names: dict[str, Any] = {}
    exec(module, names)  # noqa: S102
    entries = re.findall(r'^ +"(\w+)": (\w+),$', CONTRIBUTING, re.MULTILINE)
    own = {name: names[function] for name, function in entries}
    monkeypatch.setattr(comparators, "COMPARATORS", {**comparators.COMPARATORS, **own})
    names |= vars(test_comparators)
    exec(test, names)  # noqa: S102
    [name] = re.findall(r"^def (\w+)", test)
    names[name]()


USES_TONE = """
import asyncio, json, sys
from docs.make import configuration, judged_metrics
from graphrag_eval_async import Evaluator, RunningAggregates, load_config
from graphrag_eval_async.catalogue.conditions import parse_gate
from graphrag_eval_async.reference.schemas import json_schema

class Judge:
    async def complete(self, messages, schema):
        return {"reason": "Thanks!", "rating": 2}, None

response = {"question": "Who?", "template": "all", "actual_answer": "Thanks, Nordnett.", "id": "1"}

async def main():
    judge = Judge()
    async with Evaluator(None, config={"tone": {}}, judge=judge) as evaluator:
        result = await evaluator.evaluate(response)
    aggregates = RunningAggregates()
    aggregates.add(result)
    stats = aggregates.snapshot(detail=True)["micro"]["tone"]
    print(json.dumps([result["tone"], result["tone_reason"], stats["mean"], "bounds" in stats]))

asyncio.run(main())
assert "tone" in json_schema("configuration")["$defs"]["Config"]["properties"]
assert "## `tone`" in configuration()
assert "| `tone` | how polite the answer is |" in judged_metrics()
try:
    parse_gate("tone >= 2")
except ValueError as error:
    print(error)
"""


def test_the_judged_metric_of_contributing_is_one_module_and_one_declaration(
    tmp_path: Path,
) -> None:
    [declaration] = re.findall(
        r"^```text\n(JudgedMetric\(.*?)^```$", CONTRIBUTING, MULTILINE_DOTALL
    )
    _, _, module = PYTHON_OF_CONTRIBUTING
    for folder in ("graphrag_eval_async", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    package = tmp_path / "graphrag_eval_async"
    (package / "metrics" / "tone.py").write_text(module)
    catalogue = package / "catalogue" / "judged.py"
    text = catalogue.read_text()
    assert text.count("\nJUDGED = (\n") == 1
    catalogue.write_text(text.replace("\nJUDGED = (\n", f"\nJUDGED = (\n{declaration.rstrip()},\n"))

    done = subprocess.run(
        [sys.executable, "-c", USES_TONE],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        '[1.0, "Thanks!", 1.0, true]',
        "tone is from 0 to 1, not 2; for 2%, write 0.02",
    ]


def test_the_package_is_installed_from_a_checkout() -> None:
    """It is in no package index."""
    names = ("quickstart", "contributing", "ci", "statistics", "watch", "monitoring")
    pages = [ROOT / "docs" / f"{name}.md" for name in names]
    for path in [ROOT / "README.md", *pages, *(ROOT / "examples").glob("*.*")]:
        assert not re.search(r"pip install '?graphrag-eval-async", path.read_text()), path.name
