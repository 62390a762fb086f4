"""Results by the tags of their questions: tables, gates, comparison, reports and aggregates."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.support import REFERENCE, Folder, response, run

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
        ["hops=1", "2", "0.500"]
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


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        pytest.param(
            ["--by", "hop"],
            "--by: no result has the tag 'hop'; did you mean hops?",
            id="misspelt tag",
        ),
        pytest.param(
            ["--gate", "steps_score[hops=2] > 0"],
            "--gate: no result has the tag 'hops=2'; did you mean hops=1?",
            id="unknown value",
        ),
        pytest.param(
            ["--gate", "a:steps_score[hops=1] > 0"],
            "expected a template or a tag, not both",
            id="template and tag",
        ),
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
        table = capsys.readouterr().out.partition("### Means by tag")[2].partition("###")[0]
        assert re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE) == names
        html = (
            (folder.path / "p.html")
            .read_text()
            .partition('id="tags-table"')[2]
            .partition("</table>")[0]
        )
        assert re.findall('<th scope="row">(.*?)</th>', html) == names


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
    gate = ["--gate", "steps_score[hops=1] >= 1"]
    # Only a table that lacks tags has the note.
    for by, is_cut in (("hops", False), ("author", True), ("tags", True)):
        assert run("aggregate", output, "--by", by, *gate) == 0
        assert (note in " ".join(capsys.readouterr().out.split())) == is_cut
        assert run("report", output, "-o", page, "--markdown", "-", "--by", by) == 0
        assert (note in capsys.readouterr().out) == is_cut
        assert (note in (folder.path / "p.html").read_text()) == is_cut
    assert run("aggregate", output, "--gate", "steps_score[author=999] >= 1") == 2
    assert "the tag 'author=999' is unknown or cut, since" in capsys.readouterr().err


def many_tags(number: int, value: Any) -> dict[str, Any]:
    """Tags with 30 keys that come before `language` and `zone` in the alphabet."""
    features = {f"FEATURE_{feature}": value for feature in range(30)}
    return {**features, "language": "de" if number % 2 else "en", "zone": number}


QUESTIONS = 6
ALL_LANGUAGES = ["language=de", "language=en"]
ALL_ZONES = [f"zone={number}" for number in range(QUESTIONS)]


def write_many(folder: Folder, value: Any) -> list[str]:
    """Write a reference set whose questions have too many tags, and responses to it."""
    question = REFERENCE[0]["questions"][0]
    ids = [f"n{number}" for number in range(QUESTIONS)]
    questions = [
        {**question, "id": question_id, "tags": many_tags(number, value)}
        for number, question_id in enumerate(ids)
    ]
    path = folder.path / "many.json"
    path.write_bytes(orjson.dumps([{**REFERENCE[0], "questions": questions}]))
    return [str(path), folder.lines(*map(response, ids), name="many")]


def tags_in(table: str) -> list[str]:
    """The tags with values in a table on a terminal."""
    names = [line.split()[0] for line in table.splitlines() if line.strip()]
    return [name for name in names if name.startswith(("language=", "zone="))]


@pytest.mark.parametrize("value", [True, "x"], ids=["names", "values"])
@pytest.mark.parametrize("options", [[], ["--jobs", "2"]], ids=["one process", "two processes"])
def test_keys_of_by_and_gates_come_first(
    folder: Folder, options: list[str], value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    many = write_many(folder, value)
    output, kept = folder.file("many.jsonl"), folder.file("many.aggregates")
    by = ["--by", "language", "--gate", "steps_score[zone=3] <= 1"]
    assert run("evaluate", *many, "-o", output, "--aggregates", kept, *by, *options) == 0
    shown = capsys.readouterr()
    assert tags_in(shown.out) == ALL_LANGUAGES
    assert "not shown" not in shown.out
    assert "tags" not in shown.err

    # Of results, of several files of them, of aggregates that are kept, and of both.
    copies = [shutil.copy(path, folder.file(f"copy-{Path(path).name}")) for path in (output, kept)]
    for files in ([output], [output, copies[0]], [kept], [kept, copies[1]], [kept, copies[0]]):
        assert run("aggregate", *files, *by) == 0
        shown = capsys.readouterr()
        assert tags_in(shown.out) == ALL_LANGUAGES
        assert "not shown" not in shown.out
    assert run("report", output, "-o", folder.file("p.html"), "--markdown", "-", *by) == 0
    table = capsys.readouterr().out.partition("### Means by tag")[2].partition("###")[0]
    assert re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE) == ALL_LANGUAGES
    assert run("compare", output, output, "--by", "language") == 0


def test_keys_with_values_come_before_names(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    output, kept = folder.file("many.jsonl"), folder.file("many.aggregates")
    many = write_many(folder, True)
    assert run("evaluate", *many, "-o", output, "--aggregates", kept) == 0
    capsys.readouterr()
    for key, tags in (("language", ALL_LANGUAGES), ("zone", ALL_ZONES)):
        assert run("aggregate", kept, "--by", key) == 0
        assert tags_in(capsys.readouterr().out) == tags


def test_aggregates_that_lack_different_tags_are_not_merged(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    output = folder.file("many.jsonl")
    by_zone, by_language, plain = (
        folder.file(f"{name}.aggregates") for name in ("zone", "language", "plain")
    )
    assert run("evaluate", *write_many(folder, "x"), "-o", output) == 0
    assert run("aggregate", output, "--aggregates", by_zone, "--by", "zone") == 0
    assert run("aggregate", output, "--aggregates", by_language, "--by", "language") == 0
    assert run("aggregate", output, "--aggregates", plain) == 0
    capsys.readouterr()
    assert run("aggregate", by_zone, by_language) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "different keys came first: zone and language; use the same --by" in error
    # What was dropped is not counted in part.
    assert run("aggregate", plain, output, "--by", "zone") == 2
    assert "the tag 'zone' is unknown or cut" in capsys.readouterr().err
