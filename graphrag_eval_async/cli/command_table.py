"""The commands: what each does, the function that runs it, and its arguments and options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from graphrag_eval_async.errors import UsageError


class Command(NamedTuple):
    """A command of the command line.

    Attributes:
        runs: the function that runs it, as ``MODULE:FUNCTION`` in the package `cli.commands`. It is
            called with the values of the options and returns the exit code.
        options_class: the class of the values of the options, in the same module.
        example: arguments that show a typical call.
        shown: keys in `options()` of the arguments and options that ``--help`` shows.
        help: what the command does.
        more: keys of the options that only ``--help-all`` shows.
    """

    runs: str
    options_class: str
    example: str
    shown: str
    help: str
    more: str = ""

    @property
    def option_keys(self) -> list[str]:
        """The keys of all arguments and options, in the order of help texts."""
        return f"{self.shown} {self.more}".split()


TRACES = "select question_id failed step_name"
EVALUATING = "level on_fatal stages otel ordered"
READING = f"{EVALUATING} max_in_flight {TRACES} grace dedupe"
REGRESSIONS = "max_drop non_inferior max_regressions fail_on_regression allow_missing"

COMMANDS = {
    "init": Command(
        runs="init:run",
        options_class="InitOptions",
        example="init films",
        shown="folder questions cypher",
        help="""Create a folder to start from.

        The folder holds a small reference set, responses, a configuration of judges, and a harness
        that runs an agent. With --cypher, they query a small graph in Cypher. With --questions, the
        reference set holds your questions. Overwrites nothing.""",
    ),
    "evaluate": Command(
        runs="evaluate:run",
        options_class="EvaluateOptions",
        example=(
            "evaluate reference.yaml responses.jsonl -o results.jsonl --gate 'steps_score >= 0.8'"
        ),
        shown=(
            "reference/optional responses format no_reference output report rejects by resume "
            "config llm dry_run gate until"
        ),
        help="""Evaluate responses as they arrive.

        Writes one result per response, and prints a summary at the end. Without --config or --llm,
        no LLM is called: steps, answers to questions with a `match`, and your own metrics are still
        scored.""",
        more=f"{READING} aggregates detail retry_failed jobs shuffle shard interval/run",
    ),
    "watch": Command(
        runs="watch.command:run",
        options_class="WatchOptions",
        example="watch reference.yaml logs/ --alert 'steps_score < 0.8 over 200'",
        shown=(
            "reference/optional paths format start until_idle output/watch web metrics window "
            "alert on_alert resume config"
        ),
        help="""Follow growing logs and show live metrics.

        On a terminal, shows overall and recent metrics, and the lowest templates. Without a
        terminal, prints one JSON object per interval. Ctrl-C stops it.""",
        more=(
            f"{READING} no_reference otlp_listen exclude ignore_older aggregates rejects detail "
            "show every retry_failed llm gate"
        ),
    ),
    "ask": Command(
        runs="ask:run",
        options_class="AskOptions",
        example=(
            "ask reference.yaml http://localhost:8000 -o results.jsonl --gate 'steps_score >= 0.8'"
        ),
        shown=(
            "reference/needed url method param body header answer query steps max_concurrency "
            "timeout repeats output report web by resume retry_errors config llm gate until"
        ),
        help="""Ask an agent over HTTP and evaluate its answers.

        Asks each question of the reference set, writes one result per response, and prints a
        summary at the end. Ctrl-C stops asking. The exit code is 4 if every call fails.""",
        more=(
            f"{EVALUATING} retries aggregates rejects detail retry_failed/agent "
            "max_in_flight/agent interval/run"
        ),
    ),
    "aggregate": Command(
        runs="aggregate:run",
        options_class="AggregateOptions",
        example="aggregate results.jsonl --aggregates aggregates.yaml",
        shown=(
            "results/merged repeats/merged reference aggregates rejects detail by gate level "
            "interval"
        ),
        help="""Compute the aggregates of finished results.

        Results may come from several files of one system: repeats, or the shards of a run; compare
        compares systems. Files that end in .aggregates, which --aggregates writes, are merged as
        they are.""",
    ),
    "compare": Command(
        runs="compare:run",
        options_class="CompareOptions",
        example="compare baseline.jsonl candidate.jsonl --fail-on-regression",
        shown=(
            f"baseline/argument candidates format/table output/comparison by worst {REGRESSIONS} "
            "config/primary"
        ),
        help="""Compare the results of two runs, question by question.

        Shows how much each metric changed, whether that may be chance, which questions got worse,
        and which only one run has. With several CANDIDATES, shows a table of systems for each
        primary metric, the best first, and compares each with BASELINE.""",
        more="rejects level",
    ),
    "report": Command(
        runs="report:run",
        options_class="ReportOptions",
        example="report results.jsonl --baseline baseline.jsonl --github --junit junit.xml",
        shown=(
            "results/files repeats/merged reference baseline output/page markdown junit github by "
            "gate max_drop non_inferior max_regressions fail_on_regression config/primary"
        ),
        help="""Report on results for a pull request or a build.

        Shows gates, metrics with intervals, templates, and why the worst responses are wrong; with
        a baseline, also what changed. Without an output option, prints Markdown.""",
        more="pass_if worst rejects allow_missing level interval",
    ),
    "plan": Command(
        runs="plan:run",
        options_class="PlanOptions",
        example="plan --detect 0.05 results.jsonl",
        shown="results/plan detect metric sd level config/primary",
        help="""Plan how many questions a comparison needs.

        Estimates the spread of the metric from results of one run, or of two runs of the same
        questions. Shows how many questions are needed to detect a change of a given size.""",
    ),
    "plot": Command(
        runs="plot:run",
        options_class="PlotOptions",
        example="plot baseline.jsonl candidate.jsonl -o plot.svg",
        shown="results/runs output/picture metric level",
        help="""Draw the metrics of one run, or of two.

        Shows how the interval of the mean narrowed, templates side by side, and for two runs each
        question in both. Needs the extra `plot`.""",
    ),
    "sample-for-labels": Command(
        runs="calibrate:sample",
        options_class="SampleOptions",
        example="sample-for-labels results.jsonl -n 100 --seed 7 -o labels.jsonl",
        shown="results n seed metric/sampled output/lines",
        help="""Draw results at random, for people to label.

        People put a number from 0 to 1, true or false, into `value` of each line. `calibrate` reads
        the file.""",
    ),
    "calibrate": Command(
        runs="calibrate:run",
        options_class="CalibrateOptions",
        example="calibrate results.jsonl labels.jsonl",
        shown="results labels metric/judged chosen_at_random output/comparison level",
        help="""Compare a judged metric with human labels.

        Shows how often both agree and how the judge errs. From at least 100 randomly chosen labels,
        estimates the mean label of all results.""",
    ),
    "validate": Command(
        runs="validate:run",
        options_class="ValidateOptions",
        example="validate reference.yaml responses.jsonl",
        shown=f"reference/optional responses no_reference format {TRACES} strict config/aliases",
        help="""List the problems of a reference set and of responses.

        Checks responses only if the reference set is valid. Evaluates nothing.""",
    ),
    "convert": Command(
        runs="convert:run",
        options_class="ConvertOptions",
        example="convert traces.jsonl -o responses.jsonl --reference reference.yaml",
        shown=(
            "log output/converted reference/questions format/convert from question query/key "
            f"answer/key id language score {TRACES}"
        ),
        help="""Convert logs of traces, or public benchmarks.

        Writes responses, or with --from a reference set. Evaluates nothing. The summary counts
        problems of traces, such as calls without a result.""",
    ),
    "schema": Command(
        runs="init:schema",
        options_class="SchemaOptions",
        example="schema reference > reference.schema.json",
        shown="name",
        help="Print a JSON Schema, for editors and other programs.",
    ),
    "grafana": Command(
        runs="init:grafana",
        options_class="OptionValues",
        example="grafana > dashboard.json",
        shown="",
        help="""Print a Grafana dashboard for watch --metrics.

        Import the JSON in Grafana.""",
    ),
    "answer-correctness": Command(
        runs="correctness:run",
        options_class="CorrectnessOptions",
        example="answer-correctness -i answers.tsv -o correctness.tsv --llm openai/gpt-4o-mini",
        shown="input output/table config llm/default",
        help="""Judge a table of answers with an LLM.

        Writes, for each row, how many claims the reference answer and the actual answer make, how
        many of them match, the reasoning, and any error. OUTPUT.journal keeps finished rows: a
        second run judges the rest. The exit code is 0 even if some rows could not be judged.""",
    ),
    "scale ray": Command(
        runs="scale:run",
        options_class="RayOptions",
        example="scale ray reference.yaml responses.jsonl -o results.jsonl --concurrency 2",
        shown=(
            "reference/needed responses/files output/joined aggregates rejects detail config llm "
            "gate concurrency"
        ),
        help="""Evaluate responses on a Ray cluster.

        Connects to the cluster that RAY_ADDRESS names, or starts Ray on this machine. All machines
        need the files, and the folder of OUTPUT, under the same path. After a failure, run the same
        command again: it evaluates what is missing.""",
        more="level max_in_flight/worker",
    ),
}


@dataclass(frozen=True, kw_only=True)
class OptionValues:
    """The values of the arguments and options of a command.

    Each command has a subclass with a field for each of its options. Options that several commands
    share are fields of a class beside the function that needs them.

    Attributes:
        named_fields: the fields whose options are on the command line; the others have defaults.
    """

    named_fields: frozenset[str]

    def refuse(self, *fields: str, message: str) -> None:
        """Check that none of some options is on the command line.

        Args:
            fields: the fields of the options.
            message: says what is wrong, with ``{}`` for the name of the option.

        Raises:
            UsageError: an option is on the command line; the error names the first one.
        """
        for field in fields:
            if field in self.named_fields:
                option_name = field.replace("_", "-")
                raise UsageError(message.format(f"--{option_name}"))
