"""Ten metrics of ragas, from a YAML file and a server to a report, and once more from the cache."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.judged import KEY, serving
from tests.cli.support import run
from tests.metrics.ragas_cases import REFERENCE, RESPONSE, filled
from tests.support.deadlines import PROCESS_SECONDS
from tests.support.judge_server import completion, reply_to

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.judge_server import Reply, Request

pytestmark = pytest.mark.ragas

CONFIGURATION = """
llm:
  generation: {{provider: openai, model: gpt-4o-mini, base_url: {url}, api_key: {key}}}
  embedding: {{provider: openai, model: text-embedding-3-small, base_url: {url}, api_key: {key}}}
  cache: cache.sqlite
ragas:
  faith: Faithfulness
  factual: {{metric: FactualCorrectness, arguments: {{mode: precision}}}}
  tone: {{metric: AspectCritic, arguments: {{definition: "Is the answer polite?"}}}}
  recall: ContextRecall
  ranking: ContextPrecisionWithoutReference
  grounded: ResponseGroundedness
  alike: SemanticSimilarity
  relevancy: {{metric: AnswerRelevancy, arguments: {{strictness: 1}}}}
  calls: ToolCallF1
  quoted: QuotedSpansAlignment
"""

VALUES = {
    "alike": None,
    "calls": 0.6667,
    "factual": 1.0,
    "faith": 1.0,
    "grounded": 1.0,
    "quoted": 1.0,
    "ranking": 0.9999999999666667,
    "recall": 1.0,
    "relevancy": None,
    "tone": 1.0,
}
"""The values that the replies of the server give; cosines depend on its vectors."""


def reply(request: Request) -> Reply:
    """The reply that fits the schema, where a verdict is 1."""
    form = request.body.get("response_format")
    if form is None:
        return reply_to(request)
    schema = form["json_schema"]["schema"]
    value = filled(schema, schema)
    if "noncommittal" in value:
        value["noncommittal"] = 0
    return completion(value)


def test_ten_metrics_from_a_file_to_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.json").write_text(json.dumps(REFERENCE))
    (tmp_path / "responses.jsonl").write_text(json.dumps(RESPONSE) + "\n")
    results: list[dict[str, Any]] = []
    requests: list[int] = []
    with serving(reply) as server:
        text = CONFIGURATION.format(url=server.base_url, key=KEY)
        (tmp_path / "ragas.yaml").write_text(text)
        for name in ("first", "second"):
            arguments = ["reference.json", "responses.jsonl", "--config", "ragas.yaml"]
            arguments += ["-o", f"{name}.jsonl", "--gate", "faith >= 1"]
            before = len(server.requests)
            assert run("evaluate", *arguments) == 0, capsys.readouterr()
            requests.append(len(server.requests) - before)
            results.append(json.loads((tmp_path / f"{name}.jsonl").read_text()))
    printed = capsys.readouterr().out
    assert "gate held: faith >= 1" in printed

    first, second = results
    assert [key for key in first if key.endswith("_error")] == []
    for name, value in VALUES.items():
        assert first[name] == second[name]
        if value is not None:
            assert first[name] == pytest.approx(value, abs=1e-9), name
    assert requests == [15, 0]
    assert sorted(first["judge"]["outputs"]) == [*VALUES]

    assert run("report", "first.jsonl", "-o", "report.html") == 0, capsys.readouterr()
    report = (tmp_path / "report.html").read_text()
    assert [name for name in VALUES if name not in report] == []


LABELS = """
llm:
  generation: {{provider: openai, model: gpt-4o-mini, base_url: {url}, api_key: {key}}}
{section}
"""

DISCRETE_METRIC = """
ragas:
  tone:
    metric: ragas.metrics:DiscreteMetric
    arguments: {prompt: "Is it polite? {response}", allowed_values: ["yes", "no"]}
"""

TYPED_OUTPUT = """
custom_evaluations:
  - name: manners
    inputs: [actual_answer]
    instructions: Is it polite?
    outputs: {tone: {description: "yes or no", type: string}}
"""

UNTYPED_OUTPUT = TYPED_OUTPUT.replace('{description: "yes or no", type: string}', "yes or no")


def label(request: Request) -> Reply:
    """A reply that fits the schema, with a text for each output."""
    schema = request.body["response_format"]["json_schema"]["schema"]
    value = filled(schema, schema)
    return completion(value | {"tone": "yes"} if "tone" in value else value)


@pytest.mark.parametrize(
    "section",
    [
        pytest.param(DISCRETE_METRIC, id="metric-of-ragas"),
        pytest.param(TYPED_OUTPUT, id="typed-output"),
        pytest.param(UNTYPED_OUTPUT, id="untyped-output"),
    ],
)
def test_a_metric_whose_values_are_texts_was_judged(
    section: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.json").write_text(json.dumps(REFERENCE))
    (tmp_path / "responses.jsonl").write_text(json.dumps(RESPONSE) + "\n")
    with serving(label) as server:
        text = LABELS.format(url=server.base_url, key=KEY, section=section)
        (tmp_path / "labels.yaml").write_text(text)
        files = ["reference.json", "responses.jsonl", "-o", "results.jsonl"]
        assert run("evaluate", *files, "--config", "labels.yaml") == 0, capsys.readouterr()
    result = json.loads((tmp_path / "results.jsonl").read_text())
    assert result["tone"] in {"yes", "no"}
    printed = capsys.readouterr()
    assert "not judged" not in printed.out + printed.err


NEVER_A_NUMBER = """
ragas:
  faith: Faithfulness
"""


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_metric_that_gives_no_value_is_counted_and_its_reason_is_quoted(
    jobs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a response without statements, ragas gives NaN."""

    def say_nothing(request: Request) -> Reply:
        schema = request.body["response_format"]["json_schema"]["schema"]
        return completion(filled(schema, schema) | {"statements": []})

    monkeypatch.chdir(tmp_path)
    (tmp_path / "reference.json").write_text(json.dumps(REFERENCE))
    (tmp_path / "responses.jsonl").write_text(json.dumps(RESPONSE) + "\n")
    with serving(say_nothing) as server:
        text = LABELS.format(url=server.base_url, key=KEY, section=NEVER_A_NUMBER)
        (tmp_path / "faith.yaml").write_text(text)
        files = ["reference.json", "responses.jsonl", "-o", "results.jsonl"]
        options = ["--config", "faith.yaml", "--jobs", jobs]
        assert run("evaluate", *files, *options) == 0, capsys.readouterr()
    printed = capsys.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert "metrics: 0 ok, 1 without a value, 0 skipped, 0 errors" in lines
    reason = "ragas gave no value"
    assert f"not judged: faith gave no value, for the first result: {reason}" in lines


LLM = "llm: {generation: {provider: openai, model: gpt-4o-mini}}\n"
WRONG_METRICS = """
ragas:
  faith: Faithfulnes
  factual: {metric: FactualCorrectness, arguments: {mode: presicion}}
  recall: ContextRecall
"""
WRONG_NAMES = """
ragas:
  faithfulness: Faithfulness
  recall: ContextRecall
"""


@pytest.mark.parametrize(
    ("metrics", "problems"),
    [
        (
            WRONG_METRICS,
            [
                "ragas.faith: 'Faithfulnes' is no metric of ragas; did you mean",
                "ragas.factual.arguments.mode: expected 'precision'",
            ],
        ),
        (WRONG_NAMES, ["ragas.faithfulness: 'faithfulness' is already"]),
    ],
    ids=["metrics", "names"],
)
def test_validate_says_of_metrics_what_a_run_says(
    metrics: str,
    problems: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (tmp_path / "reference.json").write_text(json.dumps(REFERENCE))
    (tmp_path / "responses.jsonl").write_text(json.dumps(RESPONSE) + "\n")
    (tmp_path / "ragas.yaml").write_text(LLM + metrics)
    files = ["reference.json", "responses.jsonl", "--config", "ragas.yaml"]
    errors = []
    for command in (["evaluate", *files, "-o", "results.jsonl"], ["validate", *files]):
        assert run(*command) == 2
        errors.append(capsys.readouterr().err)
    by_run, by_validate = errors
    assert by_validate == by_run
    assert [problem for problem in problems if problem not in by_validate] == []
    assert by_validate.count("\n  ragas.") == len(problems)


WITHOUT_RAGAS = """
import runpy, sys
sys.modules["ragas"] = None
sys.argv = ["graphrag-eval-async", *sys.argv[1:]]
runpy.run_module("graphrag_eval_async", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("config", "code", "told"),
    [
        pytest.param("{ragas: {recall: ContextRecall}}", 2, "it needs the extra ragas", id="ragas"),
        pytest.param("{aliases: {retrieval: [search]}}", 0, "", id="other"),
    ],
)
def test_validate_needs_ragas_only_for_its_metrics(
    tmp_path: Path, config: str, code: int, told: str
) -> None:
    (tmp_path / "reference.json").write_text(json.dumps(REFERENCE))
    (tmp_path / "config.yaml").write_text(config)
    arguments = ["validate", "reference.json", "--config", "config.yaml"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAGAS, *arguments],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
