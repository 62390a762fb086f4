"""The types of arguments and options, and how their texts are parsed.

Typer evaluates the types of a command's fields, so this module and `commands` cannot have `from __future__
import annotations`. Parsers are named, and imported when an option is given: `--help` needs none of them.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from importlib import import_module
from typing import Annotated, Any, Literal

import typer

from graphrag_eval_async.errors import UsageError

PANELS = ("Input", "Output", "Alerts", "Resume", "Judges", "Gates", "Statistics", "Advanced")
"""Groups of options in a help text, in their order."""


def parser(name: str, **given: Any) -> Callable[[str], Any]:
    """A parser that calls MODULE:FUNCTION, and turns its `ValueError` into the error that typer expects."""

    def parse(text: str) -> Any:
        module, _, function = name.partition(":")
        try:
            return getattr(import_module(f"graphrag_eval_async.{module}"), function)(text, **given)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def refuse(given: Any, names: str, message: str) -> None:
    """Raise a `UsageError` with `message` and, for its ``{}``, the first option of `names` that is given.

    `names` are those of fields. An option is given if it is not what it is by default.
    """
    for field in fields(given):
        default = [] if field.default is MISSING else field.default
        if field.name in names.split() and getattr(given, field.name) != default:
            name = field.name.removesuffix("_force").replace("_", "-")
            raise UsageError(message.format(f"--{name}"))


input_, output, alerts, resume, judges, gates, statistics, advanced = (
    partial(typer.Option, rich_help_panel=panel) for panel in PANELS
)

REPEATED: dict[str, Any] = {"default_factory": list, "show_default": False}
"""A field of an option that may be repeated has no default of its own."""

DURATION: dict[str, Any] = {"parser": parser("monitor.windows:parse_duration"), "metavar": "TIME"}
ADDRESS: dict[str, Any] = {"parser": parser("cli.parsing:parse_address")}

# Arguments

_REFERENCE = parser("cli.files:file_path", what="the reference set")
_FILES = (
    "Responses, JSONL or Parquet: a file (.gz too), a directory, a glob, an address such as s3://..., or "
    "- for standard input"
)
_RESULTS = parser("cli.files:input_path")
Reference = Annotated[
    str, typer.Argument(parser=_REFERENCE, metavar="REFERENCE", help="Reference set, YAML or JSON.")
]
OptionalReference = Annotated[
    str | None,
    typer.Argument(
        parser=parser("cli.files:reference_path"),
        metavar="REFERENCE",
        show_default=False,
        help="Reference set, YAML or JSON.",
    ),
]
Responses = Annotated[
    str | None,
    typer.Argument(parser=_RESULTS, metavar="RESPONSES", show_default=False, help=f"{_FILES}."),
]
LiveResponses = Annotated[
    str | None,
    typer.Argument(
        parser=parser("cli.files:responses_path"),
        metavar="RESPONSES",
        show_default=False,
        help=f"{_FILES}; or a stream of a Redis server: redis://HOST/STREAM?group=GROUP.",
    ),
]
ResponseFiles = Annotated[
    list[str],
    typer.Argument(
        parser=_RESULTS,
        metavar="RESPONSES...",
        help="Responses, JSONL or Parquet: files (.gz too), directories or globs.",
    ),
]
Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Logs of responses, JSONL: files, directories or globs, which may appear later; - for "
        "standard input; or redis://HOST/STREAM?group=GROUP, to show what all workers of a group find.",
        **REPEATED,
    ),
]
TraceLog = Annotated[
    str, typer.Argument(parser=_RESULTS, metavar="LOG", help="Traces, JSONL; - for standard input.")
]
Results = Annotated[
    str, typer.Argument(parser=_RESULTS, metavar="RESULTS", help="Results, JSONL; - for standard input.")
]
ResultFiles = Annotated[
    list[str],
    typer.Argument(parser=_RESULTS, metavar="RESULTS...", help="Results, JSONL; - for standard input."),
]
RunResults = Annotated[
    list[str],
    typer.Argument(parser=_RESULTS, metavar="RESULTS...", help="Results of one run, or of two, JSONL."),
]
OptionalResults = Annotated[
    list[str],
    typer.Argument(
        parser=_RESULTS,
        metavar="[RESULTS...]",
        help="Results of one run, or of two runs of the same questions, JSONL.",
        **REPEATED,
    ),
]
MergedResults = Annotated[
    list[str],
    typer.Argument(
        parser=parser("cli.files:results_path"),
        metavar="RESULTS...",
        help="Results, JSONL or Parquet, or .aggregates files; - for standard input; "
        "redis://HOST/RESULTS for those on a Redis server, or redis://HOST/STREAM?group=GROUP for the "
        "aggregates of all its workers.",
    ),
]
Baseline = Annotated[
    str,
    typer.Argument(
        parser=_RESULTS, metavar="BASELINE", help="Results of the earlier run, JSONL; - for standard input."
    ),
]
Candidate = Annotated[
    str, typer.Argument(parser=_RESULTS, metavar="CANDIDATE", help="Results of the other run, JSONL.")
]
Labels = Annotated[
    str,
    typer.Argument(parser=_RESULTS, metavar="LABELS", help="Labels, JSONL, such as sample-for-labels draws."),
]
Folder = Annotated[str, typer.Argument(metavar="DIR", help="Folder for the files; created if missing.")]
SchemaName = Annotated[
    Literal["reference", "responses", "results", "aggregates", "configuration"],
    typer.Argument(metavar="NAME", help="reference, responses, results, aggregates or configuration."),
]

# Input

NoReference = Annotated[
    str | None,
    input_(
        parser=parser("cli.files:responses_path"),
        metavar="RESPONSES",
        help="Evaluate these responses without a reference set; each has the text of its `question`. Steps "
        "are not scored.",
    ),
]
ReferenceOption = Annotated[
    str | None,
    input_(
        "--reference",
        parser=_REFERENCE,
        metavar="FILE",
        help="Reference set. Sets the order of templates and allows a gate on missing_rate.",
    ),
]
Questions = Annotated[
    str | None,
    input_(
        "--reference",
        parser=_REFERENCE,
        metavar="FILE",
        help="Reference set, to find each question's id by its text.",
    ),
]
Format = Annotated[
    str | None,
    input_(
        "--format",
        parser=parser("cli.parsing:parse_format"),
        metavar="FORMAT",
        help="Format of traces, one per line: openai, responses, agents, langchain, anthropic, pydantic-ai, "
        "llamaindex, mcp, or auto to recognise it; otlp for spans.",
    ),
]
Select = Annotated[
    str | None,
    input_(metavar="PATH", help="With --format: where the trace is in a line, such as payload.messages."),
]
QuestionId = Annotated[
    str | None,
    input_(
        metavar="PATH",
        help="With --format: where the question's id is in a line, such as meta.question; with otlp, the "
        "name of an attribute.  [default: find the question by its text]",
    ),
]
Failed = Annotated[
    list[str],
    input_(
        metavar="TEXT",
        help="With --format: count a call as failed if its result begins with TEXT and the trace does not "
        "say. Repeatable.  [default: Error: and fixed sentences of LangGraph, MCP and OpenAI Agents]",
        **REPEATED,
    ),
]
Grace = Annotated[
    float | None,
    input_(
        "--grace",
        parser=parser("monitor.windows:parse_duration"),
        metavar="SECONDS",
        help="With otlp, except in files: how long to wait for late spans after the root span of a trace.  "
        "[default: 10]",
    ),
]
StepNames = Annotated[
    list[Any],
    input_(
        "--step-name",
        parser=parser("cli.parsing:parse_step_name"),
        metavar="TOOL=STEP",
        help="With --format: name of the step that a tool is, such as run_sparql=sparql_query. Repeatable.",
        **REPEATED,
    ),
]
OtlpListen = Annotated[
    Any,
    input_(
        "--otlp-listen",
        **ADDRESS,
        metavar="HOST:PORT",
        help="Receive OpenTelemetry spans over HTTP instead of following logs, such as 127.0.0.1:4318.",
    ),
]
Start = Annotated[Literal["beginning", "end"], input_(help="Where to begin in files that already exist.")]
UntilIdle = Annotated[
    Any,
    input_(
        "--until-idle",
        **DURATION,
        help="Stop when nothing was written for this long, such as 30s; exit code 4 if no log ever existed.",
    ),
]
Exclude = Annotated[
    list[str],
    input_(
        metavar="GLOB",
        help="Skip logs with this name, or this path if GLOB has a slash: '*.debug.jsonl'. Repeatable.",
        **REPEATED,
    ),
]
IgnoreOlder = Annotated[
    Any,
    input_(
        "--ignore-older",
        **DURATION,
        help="Of logs last written longer ago than this, such as 24h, read only new lines.",
    ),
]
Shuffle = Annotated[
    int | None,
    input_(
        min=0,
        metavar="SEED",
        help="Read lines in random order, reproducible with SEED.  [default: 0 with --until]",
    ),
]
Shard = Annotated[
    str | None,
    input_(
        metavar="INDEX/COUNT",
        help="Evaluate one of COUNT equal parts, the first of which is 0/COUNT. Results have no "
        "`sample`; aggregate merges them.",
    ),
]
Strict = Annotated[
    bool,
    input_("--strict", help="Treat probable mistakes, such as unknown keys or names of steps, as problems."),
]
_CONFIG = parser("cli.files:file_path", what="the configuration")
AliasConfig = Annotated[
    str | None,
    input_(
        "--config",
        "-c",
        parser=_CONFIG,
        metavar="FILE",
        help="Configuration whose key `aliases` has other names of steps.",
    ),
]
BaselineResults = Annotated[
    str | None,
    input_("--baseline", parser=_RESULTS, metavar="FILE", help="Results of an earlier run, to compare with."),
]
Metric = Annotated[str, input_("--metric", metavar="METRIC", help="The metric.")]
JudgedMetric = Annotated[
    str | None,
    input_("--metric", metavar="METRIC", help="The judge's score.  [default: that of the labels]"),
]
StandardDeviation = Annotated[
    Any,
    input_(
        "--sd",
        parser=parser("cli.parsing:parse_positive"),
        metavar="X",
        help="Standard deviation of the metric, in place of RESULTS.",
    ),
]
SampleSize = Annotated[int, input_("-n", min=1, metavar="N", help="How many to draw.")]
Seed = Annotated[
    int,
    input_(
        "--seed",
        metavar="SEED",
        help="The same SEED draws the same results; a larger N then only adds to them.",
    ),
]
ChosenAtRandom = Annotated[
    bool,
    input_(
        "--chosen-at-random",
        help="Declare that the labelled results were chosen at random, if not by sample-for-labels.",
    ),
]
Answers = Annotated[
    str,
    input_(
        "--input",
        "-i",
        parser=parser("cli.files:file_path", what="the table"),
        metavar="FILE",
        help="Answers: TSV with the columns Question, Reference answer and Actual answer.",
    ),
]

# Output

_LINES = parser("cli.files:output_path")
_PAGE = parser("cli.files:html_path")
Output = Annotated[
    str | None,
    output(
        "--output",
        "-o",
        parser=_LINES,
        metavar="FILE",
        help="Write results here: .jsonl, or .csv or .parquet at the end of the run; - is standard "
        "output; redis://HOST/RESULTS for responses of that server.  [default: -, but nowhere if that "
        "is a terminal, or for responses of a server]",
    ),
]
JsonlOutput = Annotated[
    Any, output("--output", "-o", parser=_LINES, metavar="FILE", help="Write lines here, as JSONL.")
]
ComparisonOutput = Annotated[
    str | None,
    output(
        "--output",
        "-o",
        parser=parser("cli.files:aggregates_path"),
        metavar="FILE",
        help="Write the whole comparison here: .yaml, .yml or .json.",
    ),
]
PageOutput = Annotated[
    str | None,
    output(
        "--output",
        "-o",
        parser=_PAGE,
        metavar="FILE",
        help="Write a page here: one HTML file with scores, all results and details of the worst.",
    ),
]
PictureOutput = Annotated[
    str,
    output(
        "--output",
        "-o",
        parser=parser("cli.parsing:picture_path"),
        metavar="FILE",
        help="Write the page here: .svg, .png or .pdf.",
    ),
]
TableOutput = Annotated[
    str,
    output(
        "--output",
        "-o",
        parser=parser("cli.files:resumable_path"),
        metavar="FILE",
        help="Write one row per answer here, as TSV; rows that are already there are kept.",
    ),
]
Report = Annotated[
    str | None,
    output(
        "--report",
        parser=_PAGE,
        metavar="FILE",
        help="Write a report here at the end: one HTML file with scores, all results and details of the "
        "worst.",
    ),
]
ResultsFolder = Annotated[
    str,
    output(
        "--results",
        metavar="DIR",
        show_default=False,
        help="Directory for Parquet files of results, in results/, and of rejects, in rejects/.",
    ),
]
Aggregates = Annotated[
    str | None,
    output(
        "--aggregates",
        parser=parser("cli.files:state_path"),
        metavar="FILE",
        help="Write the aggregates here: .yaml, .yml or .json; or .aggregates, which aggregate merges.",
    ),
]
Rejects = Annotated[
    str | None,
    output("--rejects", parser=_LINES, metavar="FILE", help="Write rejected lines here, as JSONL."),
]
Detail = Annotated[
    bool,
    output("--detail", help="Print all means, missing values, intervals of templates, and quantiles, too."),
]
ComparisonDetail = Annotated[
    bool, output("--detail", help="Print wins, losses, ties and all templates, too.")
]
Worst = Annotated[
    int, output(min=0, metavar="N", help="How many of the questions that got worse, or are worst, to list.")
]
Ordered = Annotated[bool, output("--ordered", help="Write results in the order of the input.")]
Markdown = Annotated[
    str | None,
    output(
        parser=parser("cli.files:page_path"),
        metavar="FILE",
        help="Write Markdown for a pull request here: at most 60,000 characters; - for standard output.",
    ),
]
Junit = Annotated[
    str | None,
    output(
        parser=parser("cli.files:resumable_path"),
        metavar="FILE",
        help="Write JUnit XML here: a test case for each question and each gate.",
    ),
]
GitHub = Annotated[
    bool,
    output(
        "--github",
        help="Print annotations for GitHub Actions, and append the Markdown to $GITHUB_STEP_SUMMARY.",
    ),
]
PassIf = Annotated[
    list[Any],
    output(
        "--pass-if",
        parser=parser("records.conditions:parse_condition"),
        metavar="CONDITION",
        help="A question passes if its mean meets CONDITION, such as 'answer_f1 >= 0.8' or "
        "'lines:steps_score >= 0.5'. Repeatable.  [default: steps_score >= 1, answer_f1 >= 0.5 and "
        "ragas_answer_correctness >= 0.5, as far as the run has them]",
        **REPEATED,
    ),
]
Otel = Annotated[
    bool,
    output(
        "--otel",
        help="Send each score to an OpenTelemetry collector; the OTEL_* environment variables say where.",
    ),
]
OtlpMetrics = Annotated[
    bool,
    output("--otlp-metrics", help="Send means and counts to an OpenTelemetry collector as gauges."),
]
OtlpJson = Annotated[
    str | None,
    output(
        parser=parser("cli.files:resumable_path"),
        metavar="FILE",
        help="Append each score to this file as OTLP JSON, for a collector to tail.",
    ),
]
OtelMetrics = Annotated[
    list[str],
    output(
        "--otel-metric",
        metavar="METRIC",
        help="With --otel and --otlp-json: send only this score. Repeatable.",
        **REPEATED,
    ),
]
Window = Annotated[
    Any,
    output(
        parser=parser("monitor.windows:parse_window"),
        metavar="N|TIME",
        help="What counts as recent: a number of results, or a time such as 5m.",
    ),
]
Show = Annotated[
    Literal["last", "worst"],
    output(help="Which results to list: the last, or the worst (errors, then the lowest scores)."),
]
Every = Annotated[Any, output("--every", **DURATION, help="How often to print JSON without a terminal.")]
Metrics = Annotated[
    Any,
    output(
        "--metrics",
        **ADDRESS,
        metavar="[HOST:]PORT",
        help="Serve metrics for Prometheus at this address, such as :9464; without HOST, only to this "
        "machine. Port 0 selects a free one.",
    ),
]
Web = Annotated[
    Any,
    output(
        "--web",
        parser=parser("cli.parsing:parse_web"),
        metavar="[HOST:PORT]",
        help="Show the run in the browser at this address.  [default: 127.0.0.1:8080]",
    ),
]
EscapeFormulas = Annotated[
    bool,
    output(
        help="Put an apostrophe before cells that a spreadsheet could run as a formula: those that begin "
        "with =, +, -, @, a tab or a line break."
    ),
]

# Alerts

Alerts = Annotated[
    list[Any],
    alerts(
        "--alert",
        parser=parser("monitor.alerts:parse_alert"),
        metavar="CONDITION",
        help="Alert when the mean of recent values crosses a threshold: 'steps_score < 0.8 over 200', "
        "'TEMPLATE: error_rate > 0.1 over 5m'; when a quantile does: 'p95 elapsed_sec > 30'; or on "
        "'no lines for 10m'. Repeatable.  [default window: that of --window]",
        **REPEATED,
    ),
]
OnAlert = Annotated[
    str | None,
    alerts(
        metavar="COMMAND",
        help="Shell command to run when an alert starts or ends, with the facts as JSON on its standard "
        "input; killed after 30 s.",
    ),
]
OnAlertUrls = Annotated[
    list[Any],
    alerts(
        "--on-alert-url",
        parser=parser("monitor.webhooks:parse_address"),
        metavar="URL",
        help="Post the facts as JSON to this URL when an alert starts or ends; ${NAME} stands for an "
        "environment variable. The secret in GRAPHRAG_EVAL_WEBHOOK_SECRET signs it. Repeatable.",
        **REPEATED,
    ),
]

# Resume

Resume = Annotated[
    bool,
    resume(
        "--resume",
        help="Keep the output as a journal, and skip lines that are done. --resume=force resumes even if "
        "the reference set, the configuration or the version has changed.",
    ),
]
ResumeForce = Annotated[bool, typer.Option("--resume-force", hidden=True)]
ResumeFolder = Annotated[bool, resume("--resume", help="Skip responses that are done in DIR.")]
Fsync = Annotated[
    Literal["always", "interval", "never"] | None,
    resume(
        help="With --resume, when to flush results to the disk: after every result, once a second, or "
        "never.  [default: interval]"
    ),
]
Dedupe = Annotated[
    Literal["position", "content"],
    resume(
        help="How to recognise lines that were already evaluated: by position or by content. With "
        "content, equal lines count once."
    ),
]

# Judges

Config = Annotated[
    str | None,
    judges(
        "--config",
        "-c",
        parser=_CONFIG,
        metavar="FILE",
        help="Configuration of the judges, YAML or JSON.",
    ),
]
Llm = Annotated[
    str | None,
    judges(
        metavar="PROVIDER/MODEL",
        help="Judge answer correctness with this model, without a configuration: openai/gpt-4o-mini.",
    ),
]
DefaultLlm = Annotated[
    str | None,
    judges(
        "--llm",
        metavar="PROVIDER/MODEL",
        help="Model that judges, without a configuration.  [default: openai/gpt-4o-mini, if OPENAI_API_KEY "
        "is set]",
    ),
]
Embedding = Annotated[
    str | None,
    judges(
        metavar="PROVIDER/MODEL",
        help="With --llm: judge answer relevance too, with this embedding model.",
    ),
]
OnFatal = Annotated[
    Literal["raise", "continue"],
    judges(
        help="What to do on a wrong key, an unknown model or a used-up quota: raise stops the run, "
        "continue records an error for each metric."
    ),
]
Stages = Annotated[
    bool,
    judges(
        "--stages",
        help="Write each result twice: when its steps are scored, with pending metrics, and complete.",
    ),
]
DryRun = Annotated[
    bool,
    judges(
        "--dry-run", help="Estimate the calls, tokens and dollars of a run. Writes no file and makes no call."
    ),
]

# Gates

Gates = Annotated[
    list[Any],
    gates(
        "--gate",
        parser=parser("records.conditions:parse_condition"),
        metavar="CONDITION",
        help="Fail unless the mean meets CONDITION, such as 'steps_score >= 0.8' or "
        "'lines:error_rate < 0.1'. METRIC may also be error_rate or missing_rate. Repeatable.",
        **REPEATED,
    ),
]
MaxDrops = Annotated[
    list[Any],
    gates(
        "--max-drop",
        parser=parser("cli.gates:parse_max_drop"),
        metavar="METRIC=X",
        help="Fail if the mean of METRIC got worse by more than X, however uncertain. In scores up "
        "to 1, an error counts as 0. Repeatable.",
        **REPEATED,
    ),
]
MaxRegressions = Annotated[
    int | None,
    gates(
        min=0,
        metavar="N",
        help="Fail if more than N questions were right in the baseline and no longer are.",
    ),
]
FailOnRegression = Annotated[
    bool,
    gates(
        "--fail-on-regression",
        help="Fail if a primary metric got worse by more than chance, overall or in a template, "
        "if questions lost its values, or if there is no primary score to compare.",
    ),
]
AllowMissing = Annotated[
    bool,
    gates("--allow-missing", help="Let these gates hold even if the run lacks questions of the baseline."),
]

# Statistics

Until = Annotated[
    list[str] | None,  # To tell those who give several that only one can be.
    statistics(
        metavar="CONDITION",
        help="Stop as soon as it is decided whether CONDITION holds, such as 'steps_score >= 0.8'; "
        "[TEMPLATE:]METRIC with >=, >, <= or <. Also a gate: an undecided run fails it.",
    ),
]
StepsGroups = Annotated[
    Literal["last", "all"] | None,
    statistics(help="Which groups of reference steps to score.  [default: last, or as --config says]"),
]
IncludeErrors = Annotated[
    bool, statistics("--include-errors", help="Count tokens and seconds of error responses.")
]
Level = Annotated[
    Any,  # The default is text that is parsed as well.
    statistics(
        "--level",  # Typer would make it --LEVEL, since that is the metavar.
        parser=parser("cli.parsing:parse_level"),
        metavar="LEVEL",
        help="Confidence level of intervals and decisions, between 0 and 1.",
    ),
]
_KINDS = (
    "Kind of intervals: one_look, for finished runs; or anytime, wider, valid however often you look: choose "
    "it for results of a run that you or --until stopped.  [default: one_look"
)
_interval = partial(statistics, "--interval", parser=parser("cli.parsing:parse_interval"), metavar="KIND")
IntervalKind = Annotated[Any, _interval(help=f"{_KINDS}]")]
IntervalOfRun = Annotated[Any, _interval(help=f"{_KINDS}, but anytime if this run is stopped]")]
PrimaryConfig = Annotated[
    str | None,
    statistics(
        "--config",
        "-c",
        parser=_CONFIG,
        metavar="FILE",
        help="Configuration whose key `primary` names the metrics that are decided.",
    ),
]
WatchBaseline = Annotated[
    str | None,
    statistics(
        "--baseline",
        parser=parser("cli.files:file_path", what="the baseline"),
        metavar="FILE",
        help="Results of an earlier run, JSONL, to compare with question by question.",
    ),
]
Detect = Annotated[
    Any,
    statistics(
        "--detect",
        parser=parser("cli.parsing:parse_positive"),
        metavar="X",
        help="The change of the mean to be seen, such as 0.05.",
    ),
]

# Advanced

_count = partial(advanced, min=1, metavar="N")
MaxRejectBytes = Annotated[
    int | None,
    advanced(
        min=0,
        metavar="N",
        help="Size of the rejects file beyond which rejects are written without content.  [default: 1 GiB]",
    ),
]
Jobs = Annotated[
    int,
    advanced(
        min=0,
        metavar="N",
        help="Number of worker processes; 0 means one per core. Standard input, pipes, addresses, compressed "
        "files, Parquet, JSON arrays and judges use one.",
    ),
]
MaxInFlight = Annotated[int | None, _count(help="Responses in progress at once, at most.  [default: 64]")]
WorkerInFlight = Annotated[
    int | None, _count("--max-in-flight", help="Responses that a worker judges at once.  [default: 64]")
]
Concurrency = Annotated[int, _count(help="Number of workers, which are Ray actors.")]
BatchSize = Annotated[
    int | None,
    _count(
        help="Responses in a batch, which a worker that dies evaluates again.  [default: 2048, but 256 with "
        "a judge]"
    ),
]
MaxLineBytes = Annotated[
    int | None, _count(help="Length of a line beyond which it is rejected.  [default: 32 MiB]")
]
MaxResultBytes = Annotated[
    int | None,
    _count("--max-line-bytes", help="Length of a line beyond which it is rejected.  [default: 128 MiB]"),
]
PollInterval = Annotated[
    Any, advanced("--poll-interval", **DURATION, help="How often to look for new lines.")
]
