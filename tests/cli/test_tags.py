"""Results by the tags of their questions: tables, gates, comparison, reports and aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.cli.support import REFERENCE, Folder, response, run
from tests.support.cases import each

if TYPE_CHECKING:
    from pathlib import Path

TAGGED: list[dict[str, Any]] = [
    {**REFERENCE[0], "tags": {"hops": 1}},
    {**REFERENCE[1], "tags": ["hard"]},
]
RIGHT = ["steps_score[hops=1] >= 0.5", "steps_score[ hard ] >= 1", "error_rate[hard=true] <= 0"]
WRONG = {
    "steps_score[hops=1] >= 0.6": "steps_score[hops=1] >= 0.6: the mean is 0.5",
    "missing_rate[hard] > 0": "missing_rate[hard] > 0: the mean is 0",
}


@pytest.fixture
def results(folder: Folder) -> Path:
    (folder.path / "tagged.json").write_bytes(orjson.dumps(TAGGED))
    responses = folder.lines(response("q1"), response("q2", False), response("q3"))
    assert (
        run("evaluate", folder.file("tagged.json"), responses, "-o", folder.file("results.jsonl"))
        == 0
    )
    return folder.path / "results.jsonl"


def test_tables_and_gates_of_results(
    folder: Folder, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = [part for gate in RIGHT for part in ("--gate", gate)]
    responses = [
        folder.file("tagged.json"),
        folder.lines(response("q1"), response("q2", False), response("q3")),
    ]
    assert run("evaluate", *responses, "-o", folder.file("o.jsonl"), "--by", "hops", *gates) == 0
    shown = capsys.readouterr().out
    assert [line.split()[:3] for line in shown.splitlines() if "hops=1  " in line] == [
        ["hops=1", "2", "0"]
    ]
    assert "gate held: steps_score[hard] >= 1: the mean is 1" in shown
    reference = ["--reference", folder.file("tagged.json")]
    for command in ("aggregate", "report"):
        for gate, told in WRONG.items():
            assert run(command, str(results), *reference, "--gate", gate) == 1
            assert f"gate failed: {told}" in capsys.readouterr().err
    state = folder.file("a.aggregates")
    assert run("aggregate", str(results), "--aggregates", state) == 0
    assert (
        run("aggregate", state, str(results), "--by", "tags", "--aggregates", folder.file("a.json"))
        == 0
    )
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines() if "=1" in line] == [
        ["hops=1", "4"]
    ]
    per_tag = orjson.loads((folder.path / "a.json").read_bytes())["per_tag"]
    assert per_tag["hops"]["1"]["steps_score"]["mean"] == 0.5
    assert per_tag["hard"]["true"]["steps_score"]["coverage"]["values"] == 2


@each(
    ("option", "problem"),
    [
        (["--by", "hop"], "--by: no result has the tag 'hop'; did you mean hops?"),
        (
            ["--gate", "steps_score[hops=2] > 0"],
            "--gate: no result has the tag 'hops=2'; did you mean hops=1?",
        ),
        (["--gate", "a:steps_score[hops=1] > 0"], "expected a template or a tag, not both"),
    ],
)
def test_what_names_no_tag_is_wrong_usage(
    folder: Folder,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    option: list[str],
    problem: str,
) -> None:
    for command in (
        ["evaluate", folder.file("tagged.json"), folder.lines(response("q1"))],
        ["aggregate", str(results)],
        ["report", str(results)],
    ):
        assert run(*command, *option) == 2
        assert problem in capsys.readouterr().err
    assert run("evaluate", folder.reference, folder.lines(response("q1")), "--by", "hops") == 2
    assert "there are no tags" in capsys.readouterr().err
    assert run("report", str(results), "--pass-if", "steps_score[hops=1] > 0") == 2
    assert "only a gate can be on a tag, [hops=1]" in capsys.readouterr().err


def test_comparisons_and_reports(
    folder: Folder, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [orjson.loads(line) for line in results.read_bytes().splitlines()]
    plain = [
        {key: value for key, value in each.items() if key != "tags"} | {"steps_score": 0}
        for each in lines
    ]
    baseline = folder.lines(*plain, name="baseline")
    output = folder.file("c.json")
    assert run("compare", baseline, str(results), "--by", "tags", "-o", output) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["hops=1", "steps_score", "0", "0.5", "+0.5", "undecided", "1"] in rows
    assert (
        orjson.loads((folder.path / "c.json").read_bytes())["per_tag"]["hops"]["1"]["steps_score"][
            "pairs"
        ]
        == 2
    )
    assert run("compare", baseline, str(results), "--by", "hop") == 2
    assert (
        "no question on both sides has the tag 'hop'; did you mean hops?" in capsys.readouterr().err
    )
    page = folder.file("p.html")
    for by, names in (([], ["hard", "hops=1"]), (["--by", "hops"], ["hops=1"])):
        assert run("report", str(results), "-o", page, "--markdown", "-", *by) == 0
        table = capsys.readouterr().out.partition("### Tags")[2].partition("###")[0]
        assert [row.split("`")[1] for row in table.splitlines()[4:] if row] == names
        html = (
            (folder.path / "p.html")
            .read_text()
            .partition('id="tags-table"')[2]
            .partition("</table>")[0]
        )
        assert [row.split('"')[1] for row in html.split("<tr data-key=")[1:]] == names


def test_tags_beyond_the_limits_are_said_to_be_cut(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        {"template_id": "t", "question_id": f"q{i}", "status": "success", "steps_score": 1}
        | {"tags": {"author": i, "hops": i % 2}}
        for i in range(250)
    ]
    output, page = folder.lines(*results), folder.file("p.html")
    note = "Other tags are not shown: results are grouped by at most 20 keys and 200 values."
    assert run("aggregate", output, "--by", "hops", "--gate", "steps_score[hops=1] >= 1") == 0
    assert note in " ".join(capsys.readouterr().out.split())
    assert run("report", output, "-o", page, "--markdown", "-", "--by", "hops") == 0
    assert note in capsys.readouterr().out
    assert note in (folder.path / "p.html").read_text()
    assert run("aggregate", output, "--gate", "steps_score[author=249] >= 1") == 2
    assert "the tag 'author=249' is unknown or cut, since" in capsys.readouterr().err
