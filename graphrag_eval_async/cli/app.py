"""The commands."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from graphrag_eval_async.cli import compare_options as of_compare
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.aggregate import aggregate as run_aggregate
from graphrag_eval_async.cli.compare import compare as run_compare
from graphrag_eval_async.cli.correctness import correctness as run_correctness
from graphrag_eval_async.cli.dry import estimate
from graphrag_eval_async.cli.evaluate import evaluate as run_evaluate
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.models import Models
from graphrag_eval_async.cli.outputs import Outputs
from graphrag_eval_async.cli.until import only_condition
from graphrag_eval_async.cli.validate import validate as run_validate
from graphrag_eval_async.cli.watch import options as of_watch
from graphrag_eval_async.cli.watch.command import watch as run_watch
from graphrag_eval_async.cli.watch.counting import Showing
from graphrag_eval_async.cli.watch.following import Following
from graphrag_eval_async.resultfiles import MAX_RESULT_BYTES
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES
from graphrag_eval_async.version import version

Command = Callable[[Interrupts], Exit]

PROGRAM = "graphrag-eval-async"

EXIT_CODES = (
    "Exit codes: 2 wrong usage or broken reference data, 4 the run itself failed, 3 lines were rejected, "
    "1 a gate does not hold, 130 Ctrl-C, 143 SIGTERM, else 0; the first that applies, in this order."
)
EXIT_CODES_OF_ROWS = (
    "Exit codes: 2 wrong usage, 4 the run itself failed, 130 Ctrl-C, 143 SIGTERM, else 0, also where rows "
    "could not be judged; the first that applies, in this order."
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 80},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version()}")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Evaluate question-answering agents over knowledge graphs while they run."""


@app.command(epilog=EXIT_CODES)
def evaluate(
    *,
    reference: options.ReferencePath,
    responses: options.Responses,
    output: options.Output = "-",
    resume: options.Resume = False,
    resume_force: options.ResumeForce = False,
    fsync: options.FsyncOption = None,
    dedupe: options.DedupeOption = "position",
    config: options.Config = None,
    llm: options.Llm = None,
    embedding: options.Embedding = None,
    on_fatal: options.OnFatalOption = "raise",
    stages: options.Stages = False,
    dry_run: options.DryRun = False,
    aggregates: options.Aggregates = None,
    rejects: options.Rejects = None,
    steps_groups: options.StepsGroupsOption = None,
    fail_under: options.FailUnder = [],  # noqa: B006
    fail_over: options.FailOver = [],  # noqa: B006
    include_errors: options.IncludeErrors = False,
    until: options.UntilOption = [],  # noqa: B006
    level: options.Level = "0.95",
    shuffle: options.Shuffle = None,
    ordered: options.Ordered = False,
    max_in_flight: options.MaxInFlight = MAX_IN_FLIGHT,
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES,
) -> Command:
    """Evaluate responses as they come.

    Each gives a result, and at the end there is a table of the aggregates.
    Without --config or --llm no LLM is asked, and only the steps are scored.
    """
    command = partial(
        estimate if dry_run else run_evaluate,
        reference,
        responses,
        models=Models(config, llm, embedding),
        steps_groups=steps_groups,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
    )
    if dry_run:
        return command
    return partial(
        command,
        outputs=Outputs(output, aggregates, rejects, resume or resume_force, resume_force, fsync),
        gates=[*fail_under, *fail_over],
        include_errors=include_errors,
        dedupe=dedupe,
        on_fatal=on_fatal,
        stages=stages,
        ordered=ordered,
        until=only_condition(until, level),
        level=level,
        shuffle=shuffle,
    )


@app.command(epilog=EXIT_CODES)
def watch(
    *,
    reference: options.ReferencePath,
    paths: of_watch.Paths,
    start: of_watch.StartOption = "beginning",
    until_idle: of_watch.UntilIdle = None,
    poll_interval: of_watch.PollInterval = "50ms",
    window: of_watch.WindowOption = "200",
    show: of_watch.ShowOption = "last",
    interval: of_watch.Interval = "10s",
    alert: of_watch.AlertOption = [],  # noqa: B006
    on_alert: of_watch.OnAlert = None,
    baseline: of_watch.BaselineOption = None,
    output: of_watch.Output = None,
    resume: options.Resume = False,
    resume_force: options.ResumeForce = False,
    fsync: options.FsyncOption = None,
    dedupe: options.DedupeOption = "position",
    config: options.Config = None,
    llm: options.Llm = None,
    embedding: options.Embedding = None,
    on_fatal: options.OnFatalOption = "raise",
    stages: options.Stages = False,
    aggregates: options.Aggregates = None,
    rejects: options.Rejects = None,
    steps_groups: options.StepsGroupsOption = None,
    fail_under: options.FailUnder = [],  # noqa: B006
    fail_over: options.FailOver = [],  # noqa: B006
    include_errors: options.IncludeErrors = False,
    level: options.Level = "0.95",
    ordered: options.Ordered = False,
    max_in_flight: options.MaxInFlight = MAX_IN_FLIGHT,
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES,
) -> Command:
    """Evaluate responses while they are written, and watch it.

    Logs are followed as they grow, are rotated and appear. A terminal shows how the agents do that write
    them, all in all and of late; without one, there is a line of JSON every so often. It ends at Ctrl-C.
    """
    return partial(
        run_watch,
        reference,
        Following(paths, start, poll_interval, until_idle),
        models=Models(config, llm, embedding),
        outputs=Outputs(output, aggregates, rejects, resume or resume_force, resume_force, fsync),
        showing=Showing(window, show, interval, alert, on_alert, baseline, level),
        gates=[*fail_under, *fail_over],
        include_errors=include_errors,
        dedupe=dedupe,
        on_fatal=on_fatal,
        stages=stages,
        steps_groups=steps_groups,
        ordered=ordered,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
    )


@app.command(epilog=EXIT_CODES)
def aggregate(
    *,
    results: options.Results,
    reference: options.ReferenceOption = None,
    aggregates: options.Aggregates = None,
    rejects: options.Rejects = None,
    fail_under: options.FailUnder = [],  # noqa: B006
    fail_over: options.FailOver = [],  # noqa: B006
    include_errors: options.IncludeErrors = False,
    level: options.Level = "0.95",
    max_line_bytes: options.MaxLineBytes = MAX_RESULT_BYTES,
) -> Command:
    """Aggregate results that are on disk.

    They may be in several files, of one run or of many.
    """
    return partial(
        run_aggregate,
        results,
        reference_path=reference,
        aggregates=aggregates,
        rejects=rejects,
        gates=[*fail_under, *fail_over],
        include_errors=include_errors,
        level=level,
        max_line_bytes=max_line_bytes,
    )


@app.command(epilog=EXIT_CODES)
def compare(
    *,
    baseline: of_compare.Baseline,
    candidate: of_compare.Candidate,
    output: of_compare.ComparisonOutput = None,
    fail_on_regression: of_compare.FailOnRegression = False,
    level: options.Level = "0.95",
    worst: of_compare.Worst = 10,
    include_errors: options.IncludeErrors = False,
    rejects: options.Rejects = None,
    max_line_bytes: options.MaxLineBytes = MAX_RESULT_BYTES,
) -> Command:
    """Compare the results of two runs, question by question.

    It tells by how much each metric has changed, whether that can be chance, which questions got worse, and
    which are on one side only.
    """
    return partial(
        run_compare,
        baseline,
        candidate,
        output=output,
        rejects=rejects,
        fail_on_regression=fail_on_regression,
        level=level,
        worst=worst,
        include_errors=include_errors,
        max_line_bytes=max_line_bytes,
    )


@app.command(epilog=EXIT_CODES)
def validate(
    *,
    reference: options.ReferencePath,
    responses: Annotated[str | None, options.RESPONSES] = None,
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES,
) -> Command:
    """List all problems; evaluate nothing.

    They are those of the reference data or, where it has none, those of the responses.
    """
    return partial(run_validate, reference, responses, max_line_bytes=max_line_bytes)


@app.command(epilog=EXIT_CODES_OF_ROWS)
def answer_correctness(
    *,
    answers: options.Answers,
    output: options.AnswersOutput,
    config: options.Config = None,
    llm: options.Llm = None,
) -> Command:
    """Let an LLM compare answers with reference answers.

    For each row of the input, it writes how many claims the reference answer and the actual answer make and
    how many of them match, the reasoning, and an error, if there was one. Started again on an output that is
    not complete, it goes on where it stopped.
    """
    return partial(run_correctness, answers, output, models=Models(config, llm))
