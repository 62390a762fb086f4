from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from tests.cli.support import failed, question, response, run

if TYPE_CHECKING:
    import pytest

    from tests.cli.support import Folder


def test_a_valid_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("validate", folder.reference) == 0
    assert capfd.readouterr() == ("reference set valid (templates: 2, questions: 3)\n", "")


def test_every_problem_of_a_reference(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    questions = [question("q1", "a"), question("q1", "b"), {"id": "x\ny"}]
    broken = [{"template_id": "t", "questions": questions}]
    reference = folder.write("broken.json", orjson.dumps(broken))
    assert run("validate", reference, folder.lines(b"{")) == 2
    out, err = capfd.readouterr()
    first, *problems = out.splitlines()
    assert first == f"reference set: {len(problems)} problems in {reference}"
    assert [problem.split(":")[0] for problem in problems] == [
        "  templates[0].questions[1].id",
        "  templates[0].questions[2]",
    ]
    assert not err


def test_every_problem_of_responses(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    bad = [b"{"] * 20
    responses = folder.lines(response("q1"), *bad, failed("q3"), response("q9", n="n" * 300))
    assert run("validate", folder.reference, responses, "--max-line-bytes", "400") == 3
    out, err = capfd.readouterr()
    *rejects, missing, summary = out.splitlines()
    assert [int(line.split(" line ")[1].split()[0]) for line in rejects] == [*range(2, 22), 23]
    assert all(line.startswith(f"{responses}: line ") for line in rejects)
    assert missing == "question 'q2': no response"
    assert summary == (
        "reference set valid (templates: 2, questions: 3); "
        "responses: 2, rejected lines: 21, questions without a response: 1"
    )
    assert not err
