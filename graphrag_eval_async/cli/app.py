"""Parses the command line, runs the command, and returns its exit code."""

from __future__ import annotations

import logging
import os
import re
import sys
import warnings
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

from graphrag_eval_async.cli.commands import COMMANDS
from graphrag_eval_async.cli.exits import Exit
from graphrag_eval_async.cli.options import PANELS
from graphrag_eval_async.cli.parsing import with_address
from graphrag_eval_async.errors import ConfigError, GraphragEvalWarning, ReferenceDataError, UsageError
from graphrag_eval_async.text import describe, one_line, tell
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.commands import Command
    from graphrag_eval_async.cli.exits import Interrupts

PROGRAM = "graphrag-eval-async"

EXIT_CODES = (
    "Exit codes, the first that applies: 2 wrong usage or a broken reference set, 4 the run itself failed, 3 "
    "lines were rejected (unless interrupted), 1 a gate failed, 130 Ctrl-C, 143 SIGTERM, 0 none of these."
)
WIDTH = 120
"""Maximum columns of help texts: longer lines are hard to read."""

COMPLETING = "_GRAPHRAG_EVAL_ASYNC_COMPLETE"
"""The environment variable by which a shell asks for completions."""

REMOVED = {
    "--fail-under": "--gate 'METRIC >= VALUE'",
    "--fail-over": "--gate 'METRIC <= VALUE'",
}
"""Options of earlier versions, and what to write instead."""


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help shows options in groups: the common ones, or with ``--help-all`` all.

    Attributes:
        shows_all: whether ``--help-all`` was given.
    """

    shows_all = False

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by group, those with a short form first."""
        common: frozenset[str] = (
            frozenset() if self.shows_all else getattr(self.callback, "common", frozenset())
        )
        groups: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS, "Other")}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_argument = isinstance(parameter, typer.core.TyperArgument)
                panel = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None)
                is_shown = is_argument or panel is None or not common or parameter.name in common
                text = re.sub(r"; x>=\d+|  \[x>=\d+\]", "", record[1])
                text = re.sub(r"default: \((.+?)\)", r"default: \1", text)
                if is_shown:
                    groups[panel or "Other"].append((record[0], text))
        if common:
            groups["Other"].append(("--help-all", "Show all options."))
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(sorted(records, key=lambda record: ", " not in record[0]))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{PROGRAM} {version()}")
        raise typer.Exit


app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDTH},
)


@app.callback(epilog=EXIT_CODES)
def _main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Evaluate question-answering agents over knowledge graphs while they run."""


_scale = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Evaluate on many machines.")
app.add_typer(_scale, name="scale")
for _name, _command in COMMANDS.items():
    _group, _, _own = _name.rpartition(" ")
    (_scale if _group else app).command(
        _own, cls=GroupedCommand, epilog=f"\b\nExample:\n  {PROGRAM} {_command.example}"
    )(_command)


class _Escaped(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(record.message)


class _Logged(logging.Handler):
    """Prints unhandled log records on stderr, like `logging` itself, but escaped."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            tell(sys.stderr, self.format(record))


def _show_warning(message: Warning | str, *_: object) -> None:
    with suppress(OSError):
        tell(sys.stderr, f"Warning: {message}")


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit; a failure prints one line."""
    logging.lastResort = _Logged(logging.WARNING)
    logging.lastResort.setFormatter(_Escaped())
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        command = _parse(arguments)
        sys.exit(command if isinstance(command, int) else _run(command, interrupts))
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


def _run(command: Command, interrupts: Interrupts) -> Exit:
    module, _, function = command.runs.partition(":")
    code: Exit = getattr(import_module(f"graphrag_eval_async.cli.{module}"), function)(command, interrupts)
    return code


def _parse(arguments: Sequence[str] | None) -> Command | int:
    """Return the command in `arguments`; print help or a version, and return the exit code.

    Nothing is left for typer to print, which has exit codes of its own where nobody reads.
    """
    if COMPLETING in os.environ:
        typer.main.get_command(app)(prog_name=PROGRAM)  # Prints, and exits.
    with redirect_stdout(StringIO()) as text:
        given = sys.argv[1:] if arguments is None else arguments
        for argument in given:
            if argument.startswith("--resume=") and argument != "--resume=force":
                raise UsageError(f"{argument}: expected --resume or --resume=force")
            if (option := argument.partition("=")[0]) in REMOVED:
                raise UsageError(f"{option} is gone; write {REMOVED[option]}")
        # An option of typer takes a value always or never.
        known = ["--resume-force" if argument == "--resume=force" else argument for argument in given]
        GroupedCommand.shows_all = "--help-all" in known
        known = with_address("--help" if argument == "--help-all" else argument for argument in known)
        command: Command | int = typer.main.get_command(app)(known, prog_name=PROGRAM, standalone_mode=False)
    if isinstance(command, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return command


def _shown(error: Any) -> str:
    """Return what typer would print: the usage and the error."""
    error.show(text := StringIO())
    return text.getvalue().removesuffix("\n")
