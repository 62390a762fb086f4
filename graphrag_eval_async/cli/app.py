"""The commands, their arguments and options."""

import importlib.metadata
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from graphrag_eval_async.cli.aggregate import aggregate as run_aggregate
from graphrag_eval_async.cli.evaluate import evaluate as run_evaluate
from graphrag_eval_async.cli.exits import Exit
from graphrag_eval_async.cli.files import aggregates_path, input_path, output_path, reference_path
from graphrag_eval_async.cli.gates import Gate, parse_gate
from graphrag_eval_async.cli.interrupts import Interrupts
from graphrag_eval_async.cli.text import describe, tell
from graphrag_eval_async.cli.validate import validate as run_validate
from graphrag_eval_async.errors import ReferenceDataError, UsageError
from graphrag_eval_async.evaluator import StepsGroups
from graphrag_eval_async.stream import MAX_IN_FLIGHT, MAX_LINE_BYTES

T = TypeVar("T")
Command = Callable[[Interrupts], Exit]

PROGRAM = "graphrag-eval-async"

MAX_RESULT_BYTES = 4 * MAX_LINE_BYTES
"""A result holds its response and the reference steps."""

EXIT_CODES = (
    "Exit codes: 2 wrong usage or broken reference data, 4 the run itself failed, 3 lines were rejected, "
    "1 a gate does not hold, 130 Ctrl-C, else 0; the first that applies, in this order."
)

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 80},
)


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit; any failure is told in one line."""
    try:
        command = _parse(arguments)
        sys.exit(command if isinstance(command, int) else command(interrupts))
    except typer.TyperException as error:
        code, failure = Exit.USAGE, _shown(error)
    except (UsageError, ReferenceDataError) as error:
        code, failure = Exit.USAGE, f"Error: {describe(error)}"
    except Exception as error:  # noqa: BLE001
        code, failure = Exit.FAILED, f"Error: {describe(error)}"
    with suppress(OSError):
        tell(sys.stderr, failure)
    sys.exit(code)


def _parse(arguments: Sequence[str] | None) -> Command | int:
    """The command that `arguments` ask for, or an exit code where they asked for a text, which is shown.

    Nothing is left for typer to print, which has exit codes of its own where nobody reads.
    """
    with redirect_stdout(StringIO()) as text:
        command: Command | int = typer.main.get_command(app)(
            arguments, prog_name=PROGRAM, standalone_mode=False
        )
    if isinstance(command, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return command


def _shown(error: Any) -> str:
    """What typer would print: the usage, and what is wrong with it."""
    error.show(text := StringIO())
    return text.getvalue().removesuffix("\n")


def _parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """What typer asks of a parser: bad values raise its own error."""

    def parse_or_complain(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_complain


_input = _parser(input_path)
_reference = _parser(reference_path)

ReferencePath = Annotated[
    str, typer.Argument(parser=_reference, metavar="REFERENCE", help="Reference data, YAML or JSON.")
]
Rejects = Annotated[
    str | None,
    typer.Option(
        "--rejects", parser=output_path, metavar="FILE", help="Write rejected lines here, whole, as JSONL."
    ),
]
Aggregates = Annotated[
    str | None,
    typer.Option(
        "--aggregates",
        parser=_parser(aggregates_path),
        metavar="FILE",
        help="Write the aggregates here, by the suffix as YAML (.yaml, .yml) or JSON (.json).",
    ),
]
IncludeErrors = Annotated[
    bool, typer.Option("--include-errors", help="Let the metrics of error responses count.")
]
FailUnder = Annotated[
    list[Gate],
    typer.Option(
        "--fail-under",
        parser=_parser(partial(parse_gate, over=False)),
        metavar="[TEMPLATE:]METRIC=VALUE",
        help="Gate: the mean of METRIC, over all results or over one template's, must not be under VALUE. "
        "Repeatable.",
    ),
]
FailOver = Annotated[
    list[Gate],
    typer.Option(
        "--fail-over",
        parser=_parser(partial(parse_gate, over=True)),
        metavar="[TEMPLATE:]METRIC=VALUE",
        help="Gate: must not be over VALUE. METRIC may also be error_rate or missing_rate. Repeatable.",
    ),
]
MaxLineBytes = Annotated[
    int,
    typer.Option(
        "--max-line-bytes", min=1, metavar="N", help="Longer lines are rejected, and never held in memory."
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        try:
            version = importlib.metadata.version(PROGRAM)
        except importlib.metadata.PackageNotFoundError:
            version = "(not installed)"
        typer.echo(f"{PROGRAM} {version}")
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
    reference: ReferencePath,
    responses: Annotated[
        str,
        typer.Argument(parser=_input, metavar="RESPONSES", help="Responses, JSONL; - is standard input."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            parser=output_path,
            metavar="FILE",
            help="Write results here, as JSONL; - is stdout.",
        ),
    ] = "-",
    aggregates: Aggregates = None,
    rejects: Rejects = None,
    steps_groups: Annotated[
        StepsGroups, typer.Option("--steps-groups", help="Which groups of reference steps are scored.")
    ] = "last",
    fail_under: FailUnder = [],  # noqa: B006
    fail_over: FailOver = [],  # noqa: B006
    include_errors: IncludeErrors = False,
    ordered: Annotated[
        bool, typer.Option("--ordered", help="Write results in the order of the input.")
    ] = False,
    max_in_flight: Annotated[
        int,
        typer.Option(
            "--max-in-flight", min=1, metavar="N", help="How many responses may be in work at once."
        ),
    ] = MAX_IN_FLIGHT,
    max_line_bytes: MaxLineBytes = MAX_LINE_BYTES,
) -> Command:
    """Evaluate responses as they come.

    Each gives a result, and at the end there is a table of the aggregates.
    """
    return partial(
        run_evaluate,
        reference,
        responses,
        output=output,
        aggregates=aggregates,
        rejects=rejects,
        gates=[*fail_under, *fail_over],
        include_errors=include_errors,
        steps_groups=steps_groups,
        ordered=ordered,
        max_in_flight=max_in_flight,
        max_line_bytes=max_line_bytes,
    )


@app.command(epilog=EXIT_CODES)
def aggregate(
    *,
    results: Annotated[
        list[str],
        typer.Argument(parser=_input, metavar="RESULTS...", help="Results, JSONL; - is standard input."),
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            parser=_reference,
            metavar="FILE",
            help="Reference data: gives the templates their order, and lets missing_rate be a gate.",
        ),
    ] = None,
    aggregates: Aggregates = None,
    rejects: Rejects = None,
    fail_under: FailUnder = [],  # noqa: B006
    fail_over: FailOver = [],  # noqa: B006
    include_errors: IncludeErrors = False,
    max_line_bytes: MaxLineBytes = MAX_RESULT_BYTES,
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
        max_line_bytes=max_line_bytes,
    )


@app.command(epilog=EXIT_CODES)
def validate(
    *,
    reference: ReferencePath,
    responses: Annotated[
        str | None,
        typer.Argument(parser=_input, metavar="RESPONSES", help="Responses, JSONL; - is standard input."),
    ] = None,
    max_line_bytes: MaxLineBytes = MAX_LINE_BYTES,
) -> Command:
    """List all problems; evaluate nothing.

    They are those of the reference data or, where it has none, those of the responses.
    """
    return partial(run_validate, reference, responses, max_line_bytes=max_line_bytes)
