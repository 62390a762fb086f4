"""``compare`` of several systems."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async import compare
from tests.cli.support import Folder, run

if TYPE_CHECKING:
    Results = list[dict[str, Any]]

SYSTEMS = {"first": 24, "better": 36, "worse": 6, "same": 24}
"""How many of 40 questions a system answers right."""


def run_of(right: int, **more: Any) -> Results:
    return [
        {
            "template_id": "t",
            "question_id": f"q{i}",
            "status": "success",
            "steps_score": float(i < right),
            "elapsed_sec": 1.0,
            **more,
        }
        for i in range(40)
    ]


@pytest.fixture
def paths(folder: Folder) -> list[str]:
    return [folder.lines(*run_of(right), name=f"{name}.jsonl") for name, right in SYSTEMS.items()]


def test_a_table_has_the_systems_best_first(
    paths: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("compare", *paths) == 0
    out, err = capfd.readouterr()
    assert not err
    assert out.startswith(
        "Compared with first in steps_score: better is better (0.6 -> 0.9, +0.3), worse\n"
        "  is worse (0.6 -> 0.15, -0.45).\n"
    )
    table = out.split("steps_score (higher is better), best first\n")[1].split("\n\n")[0]
    rows = [re.split(r"\s{2,}", line) for line in table.partition("─\n")[2].splitlines()]
    assert [row[0] for row in rows] == ["better", "first", "same", "worse"]
    assert rows[1] == ["first", "0.600", "[0.45, 0.74]", "first"]
    assert rows[0][-1] == "better"
    assert rows[2][-2:] == ["1", "no change"]
    assert rows[3][-1] == "worse"
    assert max(map(len, out.splitlines())) <= 80
    assert "elapsed_sec" not in out


def test_the_whole_comparison_is_written(folder: Folder, paths: list[str]) -> None:
    """Changes are those of two runs, but share the error with all others."""
    assert run("compare", *paths, "-o", folder.file("all.json")) == 0
    written = json.loads((folder.path / "all.json").read_text())
    assert written["first"] == "first"
    assert written["ranking"]["steps_score"] == ["better", "first", "same", "worse"]
    assert written["lower_is_better"] == ["error_rate"]
    assert "change" not in written["systems"]["first"]["metrics"]["steps_score"]
    row = written["systems"]["worse"]["metrics"]["steps_score"]["change"]
    alone = compare(run_of(24), run_of(6))["overall"]["steps_score"]
    assert (row["difference"], row["p"]) == (alone["difference"], alone["p"])
    # Of all metrics of all systems, only the scores of two can have a verdict.
    assert row["p_adjusted"] == 2 * alone["p_adjusted"]
    assert row["interval"]["level"] == pytest.approx(0.975)
    assert row["interval"]["low"] < alone["interval"]["low"]


@pytest.mark.parametrize(
    ("format", "beginning", "row"),
    [
        pytest.param(
            "markdown",
            "## Comparison of systems\n",
            r"\| `better` \| 0.900 \| \[0.77, 0.96\] \| \+0.3 \|",
            id="markdown",
        ),
        pytest.param(
            "latex",
            "% Needs \\usepackage{booktabs} in the preamble.\n\n\\begin{table}\n",
            r"better & 0\.900 & \[0\.77, 0\.96\] & \+0\.3 & .* & better \\\\",
            id="latex",
        ),
        pytest.param("html", "<!doctype html>", r'<th scope="row">better</th>', id="html"),
    ],
)
@pytest.mark.parametrize("count", [2, 4])
def test_formats(
    paths: list[str],
    capfd: pytest.CaptureFixture[str],
    format: str,  # noqa: A002  (the name of the option)
    beginning: str,
    row: str,
    count: int,
) -> None:
    """Also for two systems, as a table for a paper."""
    assert run("compare", *paths[:count], "--format", format) == 0
    out, err = capfd.readouterr()
    assert not err
    assert out.startswith(beginning)
    assert re.search(row, out)
    if format == "latex":
        assert "caption{steps\\_score (higher is better), best first}" in out
        assert "& $-$0.45 &" in out or count == 2


EVIL = r"<b>&\input{x}|`$%_#~^"


@pytest.mark.parametrize("format", ["text", "markdown", "html", "latex"])
def test_names_are_data(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    format: str,  # noqa: A002  (the name of the option)
) -> None:
    first = folder.lines(*run_of(24), name="first.jsonl")
    evil = folder.lines(*run_of(30), name=f"{EVIL}\x1b[31m.jsonl")
    also = folder.lines(*run_of(20), name="--.jsonl")
    assert run("compare", first, evil, also, "--format", format) == 0
    out, _ = capfd.readouterr()
    assert "\x1b" not in out
    if format == "html":
        assert "<b>" not in out
        assert "&lt;b&gt;&amp;\\input{x}" in out
    if format == "latex":
        assert "\\input" not in out
        assert r"\textless{}b\textgreater{}\&\textbackslash{}input\{x\}\textbar{}" in out
        assert r"-{}- & " in out


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["a.jsonl", "b.jsonl.gz", "c.parquet"], ["a", "b", "c"], id="endings"),
        pytest.param(["gpt-4.1.jsonl", "gpt-4.5.jsonl"], ["gpt-4.1", "gpt-4.5"], id="dots"),
        pytest.param(["runs/x/results.jsonl", "runs/y/results.jsonl"], ["x", "y"], id="folders"),
        pytest.param(
            ["runs/x/results.jsonl", "other/x/results.jsonl"], ["runs", "other"], id="folders above"
        ),
        pytest.param(
            ["a.jsonl", "b/a.jsonl", "b/c.jsonl"],
            ["a.jsonl", "b/a.jsonl", "b/c.jsonl"],
            id="equal names",
        ),
    ],
)
def test_systems_have_short_and_different_names(
    folder: Folder,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    expected: list[str],
) -> None:
    monkeypatch.chdir(folder.path)
    for name in names:
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith((".gz", ".parquet")):
            # What is read does not matter here.
            pytest.importorskip("pyarrow", reason="needs the extra tables")
    readable = [name if name.endswith(".jsonl") else f"{name}.jsonl" for name in names]
    for place, name in enumerate(readable):
        folder.lines(*run_of(20 + place), name=name)
    if readable != names:
        expected = [name.removesuffix(".jsonl") for name in readable]
    assert run("compare", *readable, "--format", "markdown") == 0
    out, _ = capfd.readouterr()
    for name in expected:
        assert f"\n| `{name}` |" in out


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--fail-on-regression"], id="fail-on-regression"),
        pytest.param(["--max-drop", "steps_score=0.1"], id="max-drop"),
        pytest.param(["--by", "hops"], id="by"),
        pytest.param(["--worst", "3"], id="worst"),
    ],
)
def test_options_for_two_runs(
    paths: list[str], capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert run("compare", *paths, *options) == 2
    assert f"{options[0]} is for two runs, printed as text" in capfd.readouterr().err
    assert run("compare", *paths[:2], "--format", "latex", *options) == 2


@pytest.mark.parametrize(
    ("candidates", "told"),
    [
        pytest.param(
            [run_of(24), run_of(24)],
            "No difference: all systems have the same values as a.",
            id="no difference",
        ),
        pytest.param(
            [run_of(24)[:30], run_of(23)],
            "warning: b lacks 10 questions of a",
            id="missing questions",
        ),
        pytest.param(
            [run_of(23), run_of(25)],
            "Undecided: differences from a may be due to chance.",
            id="undecided",
        ),
        pytest.param(
            [run_of(24, steps_score=None)] * 2,
            "No score to compare: no question has a primary",
            id="no score",
        ),
        pytest.param([[], run_of(24)], "warning: b lacks 40 questions of a", id="no results"),
    ],
)
def test_what_a_comparison_says(
    folder: Folder, capfd: pytest.CaptureFixture[str], candidates: list[Results], told: str
) -> None:
    runs = [run_of(24), *candidates]
    files = [folder.lines(*lines, name=name) for name, lines in zip("abc", runs, strict=True)]
    assert run("compare", *files) == 0
    assert told in " ".join(capfd.readouterr().out.split())
