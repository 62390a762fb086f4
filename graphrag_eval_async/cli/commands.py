"""The commands: their arguments and options, and the function that runs each."""

from dataclasses import dataclass
from typing import ClassVar

from graphrag_eval_async.cli import options


class Command:
    """What every command has.

    Attributes:
        runs: MODULE:FUNCTION in this package; takes the command and how to be interrupted, and returns the
            exit code.
        example: its arguments in a typical call.
        common: fields of the options that `--help` shows; all if it is empty.
    """

    runs: ClassVar[str]
    example: ClassVar[str]
    common: ClassVar[frozenset[str]] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Init(Command):
    """Write a folder to start from.

    It has a small reference set, responses, a configuration of judges, and a harness that runs an agent.
    Overwrites nothing.
    """

    runs: ClassVar = "init:run"
    example: ClassVar = "init films"

    folder: options.Folder


@dataclass(frozen=True, kw_only=True)
class Reported(Command):
    """What commands have that end with a report."""

    gate: options.Gates
    include_errors: options.IncludeErrors = False
    level: options.Level = "0.95"
    aggregates: options.Aggregates = None
    rejects: options.Rejects = None
    max_reject_bytes: options.MaxRejectBytes = None
    detail: options.Detail = False


@dataclass(frozen=True, kw_only=True)
class Traces(Command):
    """What commands have that read traces."""

    format: options.Format = None
    select: options.Select = None
    question_id: options.QuestionId = None
    failed: options.Failed
    step_name: options.StepNames


@dataclass(frozen=True, kw_only=True)
class Evaluating(Reported, Traces):
    """What commands have that evaluate a stream."""

    reference: options.OptionalReference = None
    no_reference: options.NoReference = None
    output: options.Output = None
    resume: options.Resume = False
    resume_force: options.ResumeForce = False
    fsync: options.Fsync = None
    dedupe: options.Dedupe = "position"
    config: options.Config = None
    llm: options.Llm = None
    embedding: options.Embedding = None
    on_fatal: options.OnFatal = "raise"
    stages: options.Stages = False
    steps_groups: options.StepsGroups = None
    grace: options.Grace = None
    otel: options.Otel = False
    otlp_metrics: options.OtlpMetrics = False
    otlp_json: options.OtlpJson = None
    otel_metric: options.OtelMetrics
    ordered: options.Ordered = False
    max_in_flight: options.MaxInFlight = None
    max_line_bytes: options.MaxLineBytes = None

    @property
    def is_resumable(self) -> bool:
        return self.resume or self.resume_force


@dataclass(frozen=True, kw_only=True)
class Evaluate(Evaluating):
    """Evaluate responses as they arrive.

    Writes one result per response, and prints a page of scores at the end. Without --config or --llm, no
    model is called: only steps are scored.
    """

    runs: ClassVar = "evaluate:run"
    example: ClassVar = "evaluate reference.yaml responses.jsonl -o results.jsonl --gate 'steps_score >= 0.8'"
    common: ClassVar = frozenset(
        [
            "no_reference",
            "output",
            "report",
            "aggregates",
            "rejects",
            "detail",
            "resume",
            "config",
            "llm",
            "dry_run",
            "gate",
            "until",
            "jobs",
        ]
    )

    responses: options.LiveResponses = None
    report: options.Report = None
    dry_run: options.DryRun = False
    until: options.Until = None
    shuffle: options.Shuffle = None
    shard: options.Shard = None
    interval: options.IntervalOfRun = None
    jobs: options.Jobs = 1


@dataclass(frozen=True, kw_only=True)
class Watch(Evaluating):
    """Follow growing logs and show live scores.

    On a terminal, shows overall and recent scores; s sorts the templates, j, k, PgDn and PgUp scroll them.
    Without a terminal, prints one JSON object per interval. Ctrl-C stops it.
    """

    runs: ClassVar = "watch.command:run"
    example: ClassVar = "watch reference.yaml logs/ --alert 'steps_score < 0.8 over 200'"
    common: ClassVar = frozenset(
        [
            "no_reference",
            "start",
            "until_idle",
            "window",
            "show",
            "metrics",
            "web",
            "output",
            "resume",
            "config",
            "alert",
            "on_alert",
            "gate",
        ]
    )

    paths: options.Logs
    otlp_listen: options.OtlpListen = None
    start: options.Start = "beginning"
    until_idle: options.UntilIdle = None
    poll_interval: options.PollInterval = "50ms"
    exclude: options.Exclude
    ignore_older: options.IgnoreOlder = None
    window: options.Window = "200"
    show: options.Show = "last"
    every: options.Every = "10s"
    metrics: options.Metrics = None
    web: options.Web = None
    alert: options.Alerts
    on_alert: options.OnAlert = None
    on_alert_url: options.OnAlertUrls
    baseline: options.WatchBaseline = None


@dataclass(frozen=True, kw_only=True)
class Aggregate(Reported):
    """Aggregate results that are on disk.

    The results may be in several files, of one run or of many, or of the shards of a run. Files that end in
    .aggregates, which --aggregates writes, are merged as they are.
    """

    runs: ClassVar = "aggregate:run"
    example: ClassVar = "aggregate results.jsonl --aggregates aggregates.yaml"

    results: options.MergedResults
    reference: options.ReferenceOption = None
    interval: options.IntervalKind = None
    jobs: options.Jobs = 1
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Regressions(Command):
    """What commands have that may fail because a run got worse."""

    max_drop: options.MaxDrops
    max_regressions: options.MaxRegressions = None
    fail_on_regression: options.FailOnRegression = False
    allow_missing: options.AllowMissing = False


@dataclass(frozen=True, kw_only=True)
class Compare(Regressions):
    """Compare the results of two runs, question by question.

    Shows how much each metric changed, whether that may be chance, which questions got worse, and which only
    one run has.
    """

    runs: ClassVar = "compare:run"
    example: ClassVar = "compare baseline.jsonl candidate.jsonl --fail-on-regression"

    baseline: options.Baseline
    candidate: options.Candidate
    output: options.ComparisonOutput = None
    level: options.Level = "0.95"
    config: options.PrimaryConfig = None
    detail: options.ComparisonDetail = False
    worst: options.Worst = 10
    include_errors: options.IncludeErrors = False
    rejects: options.Rejects = None
    max_reject_bytes: options.MaxRejectBytes = None
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Report(Regressions):
    """Report on results for a pull request or a build.

    Shows gates, scores with intervals, templates, the worst questions and why they failed; with a baseline
    also what changed. Without an option for output, prints Markdown.
    """

    runs: ClassVar = "reporting:run"
    example: ClassVar = "report results.jsonl --baseline baseline.jsonl --github --junit junit.xml"

    results: options.ResultFiles
    baseline: options.BaselineResults = None
    reference: options.ReferenceOption = None
    output: options.PageOutput = None
    markdown: options.Markdown = None
    junit: options.Junit = None
    github: options.GitHub = False
    pass_if: options.PassIf
    worst: options.Worst = 10
    gate: options.Gates
    include_errors: options.IncludeErrors = False
    level: options.Level = "0.95"
    rejects: options.Rejects = None
    max_reject_bytes: options.MaxRejectBytes = None
    interval: options.IntervalKind = None
    config: options.PrimaryConfig = None
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Plan(Command):
    """Plan how many questions a comparison needs.

    Takes the spread of scores from results of one run, or of two runs of the same questions, and shows how
    many questions are needed to see a change of a given size.
    """

    runs: ClassVar = "plan:run"
    example: ClassVar = "plan --detect 0.05 results.jsonl"

    results: options.OptionalResults
    detect: options.Detect
    metric: options.Metric = "steps_score"
    sd: options.StandardDeviation = None
    level: options.Level = "0.95"
    config: options.PrimaryConfig = None
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Plot(Command):
    """Draw the scores of one run, or of two.

    Shows the mean with its interval as it narrowed, templates side by side, and for two runs each question in
    both. Needs the extra `plot`.
    """

    runs: ClassVar = "plot:run"
    example: ClassVar = "plot baseline.jsonl candidate.jsonl -o page.svg"

    results: options.RunResults
    output: options.PictureOutput
    metric: options.Metric = "steps_score"
    level: options.Level = "0.95"
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class SampleForLabels(Command):
    """Draw results at random, for people to label.

    People put a number from 0 to 1, true or false, into `value` of each line. `calibrate` reads the file.
    """

    runs: ClassVar = "calibrate:sample"
    example: ClassVar = "sample-for-labels results.jsonl -n 100 --seed 7 -o labels.jsonl"

    results: options.Results
    n: options.SampleSize = 100
    seed: options.Seed = 0
    metric: options.Metric = "answer_correctness"
    output: options.JsonlOutput = "-"
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Calibrate(Command):
    """Compare a judge's scores with labels of people.

    Shows how often both agree, how the judge errs and, from 100 randomly chosen labels on, the mean that
    people would give all results.
    """

    runs: ClassVar = "calibrate:run"
    example: ClassVar = "calibrate results.jsonl labels.jsonl"

    results: options.Results
    labels: options.Labels
    metric: options.JudgedMetric = None
    chosen_at_random: options.ChosenAtRandom = False
    output: options.ComparisonOutput = None
    level: options.Level = "0.95"
    max_line_bytes: options.MaxResultBytes = None


@dataclass(frozen=True, kw_only=True)
class Validate(Traces):
    """List the problems of a reference set and of responses.

    Checks responses only if the reference set is valid. Evaluates nothing.
    """

    runs: ClassVar = "validate:run"
    example: ClassVar = "validate reference.yaml responses.jsonl"

    reference: options.OptionalReference = None
    responses: options.Responses = None
    no_reference: options.NoReference = None
    strict: options.Strict = False
    config: options.AliasConfig = None
    max_line_bytes: options.MaxLineBytes = None


@dataclass(frozen=True, kw_only=True)
class Convert(Traces):
    """Convert logs of traces to responses.

    Evaluates nothing. The summary counts what was wrong with traces, such as calls without a result.
    """

    runs: ClassVar = "convert:run"
    example: ClassVar = "convert traces.jsonl -o responses.jsonl --reference reference.yaml"

    log: options.TraceLog
    output: options.JsonlOutput = "-"
    reference: options.Questions = None
    format: options.Format = "auto"
    max_line_bytes: options.MaxLineBytes = None


@dataclass(frozen=True, kw_only=True)
class ScaleRay(Reported):
    """Evaluate responses on a Ray cluster.

    Connects to the cluster that RAY_ADDRESS names, or starts Ray on this machine. All hosts need the files
    and DIR under the same path. Run it again with --resume after a failure.
    """

    runs: ClassVar = "scale:run"
    example: ClassVar = "scale ray reference.yaml responses.jsonl --results results --concurrency 2"

    reference: options.Reference
    responses: options.ResponseFiles
    results: options.ResultsFolder
    resume: options.ResumeFolder = False
    concurrency: options.Concurrency = 1
    batch_size: options.BatchSize = None
    config: options.Config = None
    llm: options.Llm = None
    steps_groups: options.StepsGroups = None
    max_in_flight: options.WorkerInFlight = None
    max_line_bytes: options.MaxLineBytes = None


@dataclass(frozen=True, kw_only=True)
class Schema(Command):
    """Print a JSON Schema, for editors and other programs."""

    runs: ClassVar = "schema:run"
    example: ClassVar = "schema reference > reference.schema.json"

    name: options.SchemaName


@dataclass(frozen=True, kw_only=True)
class Grafana(Command):
    """Print a Grafana dashboard for watch --metrics.

    It is JSON to import in Grafana.
    """

    runs: ClassVar = "schema:grafana"
    example: ClassVar = "grafana > dashboard.json"


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(Command):
    """Judge a table of answers with an LLM.

    Writes, for each row, how many claims the reference answer and the actual answer make, how many of them
    match, the reasoning, and any error. If the output is incomplete, a second run resumes after its last row.
    The exit code is also 0 if rows could not be judged.
    """

    runs: ClassVar = "correctness:run"
    example: ClassVar = "answer-correctness -i answers.tsv -o correctness.tsv --llm openai/gpt-4o-mini"

    answers: options.Answers
    output: options.TableOutput
    config: options.Config = None
    llm: options.DefaultLlm = None
    escape_formulas: options.EscapeFormulas = True


COMMANDS: dict[str, type[Command]] = {
    "init": Init,
    "evaluate": Evaluate,
    "watch": Watch,
    "aggregate": Aggregate,
    "compare": Compare,
    "report": Report,
    "plan": Plan,
    "plot": Plot,
    "sample-for-labels": SampleForLabels,
    "calibrate": Calibrate,
    "validate": Validate,
    "convert": Convert,
    "scale ray": ScaleRay,
    "schema": Schema,
    "grafana": Grafana,
    "answer-correctness": AnswerCorrectness,
}
