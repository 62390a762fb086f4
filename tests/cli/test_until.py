"""``evaluate --until`` and ``--shuffle``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from tests.cli.support import COLOURS, failed, response, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cli.support import Folder

SORTED = [response("q3")] * 600 + [response("q1", False)] * 300 + [response("q2", False)] * 100
"""Sorted by template: a share of 0.6 is right."""


def evaluate(folder: Folder, *options: str, items: Sequence[object] | None = None) -> int:
    responses = folder.lines(*(SORTED if items is None else items))
    return run(
        "evaluate", folder.reference, responses, "-o", folder.file("results.jsonl"), *options
    )


@pytest.mark.parametrize(
    ("condition", "code", "found"),
    [
        ("steps_score >= 0.4", 0, "holds"),
        ("steps_score >= 0.8", 1, "does not hold"),
        (f"{COLOURS}:steps_score >= 0.9", 1, "does not hold"),
    ],
)
def test_it_ends_when_it_is_decided(
    folder: Folder, capfd: pytest.CaptureFixture[str], condition: str, code: int, found: str
) -> None:
    assert (
        evaluate(folder, "--until", condition, "--aggregates", folder.file("aggregates.json"))
        == code
    )
    out, err = capfd.readouterr()
    count = len(folder.read("results.jsonl"))
    assert 10 < count < 500
    *_, decided, saved = out.splitlines()
    template = condition.rpartition(":")[0]
    counted = [
        each for each in folder.read("results.jsonl") if template in {"", each["template_id"]}
    ]
    asked = {each["question_id"] for each in counted}
    told = (
        f"decided after {len(counted)} responses to {len(asked)} questions: {condition} {found} "
        "(95%: "
    )
    assert decided.startswith(told)
    assert saved == f"skipped: {1000 - count} responses"
    aggregates = orjson.loads((folder.path / "aggregates.json").read_bytes())
    decision = aggregates.pop("decision")
    assert (decision["condition"], decision["holds"]) == (condition, found == "holds")
    assert (decision["responses"], decision["remaining"]) == (len(counted), 1000 - count)
    order = ["--until: read in a shuffled order (--shuffle 0), since files are often sorted"]
    assert err.splitlines() == order + [f"gate failed: {condition}: decided so"] * code


def test_undecided_conditions_fail(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    assert (
        evaluate(
            folder, "--until", "steps_score > 0.5", items=[*[response("q1")] * 5, failed("q3")]
        )
        == 1
    )
    out, err = capfd.readouterr()
    assert out.splitlines()[-1].startswith(
        "not decided after 6 responses to 2 questions: steps_score > 0.5 is open (95%: 0.1"
    )
    assert err.splitlines()[-1] == "gate failed: steps_score > 0.5: not decided"


def test_options_that_are_named(folder: Folder, capfd: pytest.CaptureFixture[str]) -> None:
    for option, value, told in [
        ("--until", "error_rate <= 0.5", "takes scores from 0 to 1"),
        ("--shard", "4/4", "expected INDEX/COUNT"),
    ]:
        assert evaluate(folder, option, value) == 2
        assert f"'{option}': {told}" in capfd.readouterr().err
