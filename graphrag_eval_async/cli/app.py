"""From arguments to a command, and from a command to an exit code."""

from __future__ import annotations

import inspect
import logging
import sys
import warnings
from contextlib import redirect_stdout, suppress
from dataclasses import fields
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Protocol

import typer

from graphrag_eval_async.cli.aggregate import Aggregate
from graphrag_eval_async.cli.compare import Compare
from graphrag_eval_async.cli.convert import Convert
from graphrag_eval_async.cli.correctness import AnswerCorrectness
from graphrag_eval_async.cli.evaluate import Evaluate
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.init import Init
from graphrag_eval_async.cli.options import AFTER
from graphrag_eval_async.cli.schema import Schema
from graphrag_eval_async.cli.text import describe, one_line, tell
from graphrag_eval_async.cli.validate import Validate
from graphrag_eval_async.cli.watch.command import Watch
from graphrag_eval_async.errors import ConfigError, GraphragEvalWarning, ReferenceDataError, UsageError
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "graphrag-eval-async"

EXIT_CODES = (
    "Exit codes: 2 wrong usage or broken reference data, 4 the run itself failed, 3 lines were rejected "
    "(unless interrupted), 1 a gate does not hold, 130 Ctrl-C, 143 SIGTERM, else 0; the first that applies, "
    "in this order."
)
EXIT_CODES_OF_ROWS = (
    "Exit codes: 2 wrong usage, 4 the run itself failed, 130 Ctrl-C, 143 SIGTERM, else 0, also where rows "
    "could not be judged; the first that applies, in this order."
)


class Command(Protocol):
    """A frozen dataclass of arguments and options."""

    def run(self, interrupts: Interrupts) -> Exit:
        """Run the command."""


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
def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Evaluate question-answering agents over knowledge graphs while they run."""


def _add(name: str, command: Any, epilog: str = EXIT_CODES) -> None:
    """Let typer call the dataclass with what is given on the command line."""
    order: list[str] = []
    place = 0
    for field in fields(command):
        if AFTER in field.metadata:
            option = field.metadata[AFTER]
            place = 0 if option is None else order.index(option) + 1
        order.insert(place, field.name)
        place += 1
    signature = inspect.signature(command)
    command.__signature__ = signature.replace(parameters=[signature.parameters[each] for each in order])
    app.command(name, epilog=epilog)(command)


_add("init", Init)
_add("evaluate", Evaluate)
_add("watch", Watch)
_add("aggregate", Aggregate)
_add("compare", Compare)
_add("validate", Validate)
_add("convert", Convert)
_add("schema", Schema)
_add("answer-correctness", AnswerCorrectness, EXIT_CODES_OF_ROWS)


class _Escaped(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(record.message)


class _Logged(logging.Handler):
    """Shows on stderr what no other handler takes, as `logging` itself does, but escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            tell(sys.stderr, self.format(record))


def _show_warning(message: Warning | str, *_: object) -> None:
    with suppress(OSError):
        tell(sys.stderr, f"Warning: {message}")


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit; any failure is told in one line."""
    logging.lastResort = _Logged(logging.WARNING)
    logging.lastResort.setFormatter(_Escaped())
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        command = _parse(arguments)
        sys.exit(command if isinstance(command, int) else command.run(interrupts))
    except typer.TyperException as error:
        code, failure = Exit.USAGE, _shown(error)
    except (UsageError, ConfigError, ReferenceDataError, GraphragEvalWarning) as error:
        # A warning comes as an error if the interpreter runs with -W error.
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
        given = sys.argv[1:] if arguments is None else arguments
        for argument in given:
            if argument.startswith("--resume=") and argument != "--resume=force":
                raise UsageError(f"{argument}: expected --resume or --resume=force")
        # An option of typer takes a value always or never.
        known = ["--resume-force" if argument == "--resume=force" else argument for argument in given]
        command: Command | int = typer.main.get_command(app)(known, prog_name=PROGRAM, standalone_mode=False)
    if isinstance(command, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return command


def _shown(error: Any) -> str:
    """What typer would print: the usage, and what is wrong with it."""
    error.show(text := StringIO())
    return text.getvalue().removesuffix("\n")
