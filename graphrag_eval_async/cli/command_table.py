"""The commands: what they do, the function that runs each, its arguments and options, and their
values.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from graphrag_eval_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection


class Command(NamedTuple):
    """A command: what runs it, what help texts say, and the keys of its arguments and options."""

    runs: str  # MODULE:FUNCTION in this package, which returns the exit code
    example: str
    shown: str  # by `--help`
    help: str
    more: str = ""  # shown by `--help-all` only


TRACES = "select question_id failed step_name"
EVALUATING = "level on_fatal stages otel ordered"
READING = f"{EVALUATING} max_in_flight {TRACES} grace dedupe"
REGRESSIONS = "max_drop non_inferior max_regressions fail_on_regression allow_missing"

COMMANDS = {
    "init": Command(
        "init:run",
        "init films",
        "folder questions cypher",
        """Create a folder to start from.

        The folder holds a small reference set, responses, a configuration of judges, and a harness
        that runs an agent. With --cypher, they query a small graph in Cypher. With --questions, the
        reference set holds your questions. Overwrites nothing.""",
    ),
    "evaluate": Command(
        "evaluate:run",
        "evaluate reference.yaml responses.jsonl -o results.jsonl --gate 'steps_score >= 0.8'",
        "reference/optional responses format no_reference output report rejects by resume config "
        "llm dry_run gate until",
        """Evaluate responses as they arrive.

        Writes one result per response, and prints a summary at the end. Without --config or --llm,
        no LLM is called: steps, answers to questions with a `match`, and your own metrics are still
        scored.""",
        f"{READING} aggregates detail retry_failed jobs shuffle shard interval/run",
    ),
    "watch": Command(
        "watch.command:run",
        "watch reference.yaml logs/ --alert 'steps_score < 0.8 over 200'",
        "reference/optional paths format start until_idle output/watch web metrics window alert "
        "on_alert resume config",
        """Follow growing logs and show live metrics.

        On a terminal, shows overall and recent metrics, and the lowest templates. Without a
        terminal, prints one JSON object per interval. Ctrl-C stops it.""",
        f"{READING} no_reference otlp_listen exclude ignore_older aggregates rejects detail show "
        "every retry_failed llm gate",
    ),
    "ask": Command(
        "ask:run",
        "ask reference.yaml http://localhost:8000 -o results.jsonl --gate 'steps_score >= 0.8'",
        "reference/needed url method param body header answer query steps max_concurrency "
        "timeout repeats output report web by resume retry_errors config llm gate until",
        """Ask an agent over HTTP and evaluate its answers.

        Asks each question of the reference set, writes one result per response, and prints a
        summary at the end. Ctrl-C stops asking. The exit code is 4 if every call fails.""",
        f"{EVALUATING} retries aggregates rejects detail retry_failed/agent max_in_flight/agent "
        "interval/run",
    ),
    "aggregate": Command(
        "aggregate:run",
        "aggregate results.jsonl --aggregates aggregates.yaml",
        "results/merged repeats/merged reference aggregates rejects detail by gate level interval",
        """Compute the aggregates of finished results.

        Results may come from several files of one system: repeats, or the shards of a run; compare
        compares systems. Files that end in .aggregates, which --aggregates writes, are merged as
        they are.""",
    ),
    "compare": Command(
        "compare:run",
        "compare baseline.jsonl candidate.jsonl --fail-on-regression",
        "baseline/argument candidates format/table output/comparison by worst "
        f"{REGRESSIONS} config/primary",
        """Compare the results of two runs, question by question.

        Shows how much each metric changed, whether that may be chance, which questions got worse,
        and which only one run has. With several CANDIDATES, shows a table of systems for each
        primary metric, the best first, and compares each with BASELINE.""",
        "rejects level",
    ),
    "report": Command(
        "report:run",
        "report results.jsonl --baseline baseline.jsonl --github --junit junit.xml",
        "results/files repeats/merged reference baseline output/page markdown junit github by gate "
        "max_drop non_inferior max_regressions fail_on_regression config/primary",
        """Report on results for a pull request or a build.

        Shows gates, metrics with intervals, templates, and why the worst responses are wrong; with
        a baseline, also what changed. Without an output option, prints Markdown.""",
        "pass_if worst rejects allow_missing level interval",
    ),
    "plan": Command(
        "plan:run",
        "plan --detect 0.05 results.jsonl",
        "results/plan detect metric sd level config/primary",
        """Plan how many questions a comparison needs.

        Estimates the spread of the metric from results of one run, or of two runs of the same
        questions. Shows how many questions are needed to detect a change of a given size.""",
    ),
    "plot": Command(
        "plot:run",
        "plot baseline.jsonl candidate.jsonl -o plot.svg",
        "results/runs output/picture metric level",
        """Draw the metrics of one run, or of two.

        Shows how the interval of the mean narrowed, templates side by side, and for two runs each
        question in both. Needs the extra `plot`.""",
    ),
    "sample-for-labels": Command(
        "calibrate:sample",
        "sample-for-labels results.jsonl -n 100 --seed 7 -o labels.jsonl",
        "results n seed metric/sampled output/lines",
        """Draw results at random, for people to label.

        People put a number from 0 to 1, true or false, into `value` of each line. `calibrate` reads
        the file.""",
    ),
    "calibrate": Command(
        "calibrate:run",
        "calibrate results.jsonl labels.jsonl",
        "results labels metric/judged chosen_at_random output/comparison level",
        """Compare a judged metric with human labels.

        Shows how often both agree and how the judge errs. From at least 100 randomly chosen labels,
        estimates the mean label of all results.""",
    ),
    "validate": Command(
        "validate:run",
        "validate reference.yaml responses.jsonl",
        f"reference/optional responses no_reference format {TRACES} strict config/aliases",
        """List the problems of a reference set and of responses.

        Checks responses only if the reference set is valid. Evaluates nothing.""",
    ),
    "convert": Command(
        "convert:run",
        "convert traces.jsonl -o responses.jsonl --reference reference.yaml",
        f"log output/converted reference/questions format/convert from question "
        f"query/key answer/key id language score {TRACES}",
        """Convert logs of traces, or public benchmarks.

        Writes responses, or with --from a reference set. Evaluates nothing. The summary counts
        problems of traces, such as calls without a result.""",
    ),
    "schema": Command(
        "init:schema",
        "schema reference > reference.schema.json",
        "name",
        "Print a JSON Schema, for editors and other programs.",
    ),
    "grafana": Command(
        "init:grafana",
        "grafana > dashboard.json",
        "",
        """Print a Grafana dashboard for watch --metrics.

        Import the JSON in Grafana.""",
    ),
    "answer-correctness": Command(
        "correctness:run",
        "answer-correctness -i answers.tsv -o correctness.tsv --llm openai/gpt-4o-mini",
        "input output/table config llm/default",
        """Judge a table of answers with an LLM.

        Writes, for each row, how many claims the reference answer and the actual answer make, how
        many of them match, the reasoning, and any error. OUTPUT.journal keeps finished rows: a
        second run judges the rest. The exit code is 0 even if some rows could not be judged.""",
    ),
    "scale ray": Command(
        "scale:run",
        "scale ray reference.yaml responses.jsonl -o results.jsonl --concurrency 2",
        "reference/needed responses/files output/joined aggregates rejects detail config llm "
        "gate concurrency",
        """Evaluate responses on a Ray cluster.

        Connects to the cluster that RAY_ADDRESS names, or starts Ray on this machine. All machines
        need the files, and the folder of OUTPUT, under the same path. After a failure, run the same
        command again: it evaluates what is missing.""",
        "level max_in_flight/worker",
    ),
}


class Given(SimpleNamespace):
    """The values of the options of a command, by field."""

    def __init__(self, given: Collection[str], /, **values: Any) -> None:
        """`given` are the fields that are on the command line."""
        super().__init__(**values)
        self._given = given

    def replace(self, **values: Any) -> Self:
        """Return the same with some values changed."""
        return type(self)(self._given, **{**vars(self), **values})


def refuse(given: Given, names: str, message: str) -> None:
    """Raise a `UsageError` with `message` and, for its ``{}``, the first of the fields `names` that
    is given.

    A field is given if it is on the command line.
    """
    for name in names.split():
        if name in given._given:
            raise UsageError(message.format(f"--{name.replace('_', '-')}"))
