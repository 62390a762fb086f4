"""Parses the command line, runs the command, and returns its exit code."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import redirect_stdout, suppress
from difflib import get_close_matches
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from graphrag_eval_async.cli.command_table import COMMANDS, Given
from graphrag_eval_async.cli.exits import Exit
from graphrag_eval_async.cli.options import options
from graphrag_eval_async.cli.parsing import RESUMED
from graphrag_eval_async.errors import (
    ConfigError,
    GraphragEvalWarning,
    ReferenceDataError,
    UsageError,
)
from graphrag_eval_async.helpers.posix import require_posix
from graphrag_eval_async.helpers.text import describe, one_line, tell
from graphrag_eval_async.removed import explain_removed
from graphrag_eval_async.version import version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.cli.options import Option

PROGRAM = "graphrag-eval-async"
WEB = "127.0.0.1:8080"
"""The address of ``--web`` without a value."""

EXIT_CODES = (
    "Exit codes, the first that applies: 2 wrong usage or a broken reference set, 4 the run "
    "itself failed, 3 lines were rejected (unless interrupted), 1 a gate failed, 130 Ctrl-C, 143 "
    "SIGTERM, 0 none of these."
)

COMPLETING = "_GRAPHRAG_EVAL_ASYNC_COMPLETE"
"""The environment variable by which a shell asks for completions."""

COMPLETION = (
    "\b\nTo complete commands and options in bash (or zsh_source, fish_source):\n"
    f'  eval "$({COMPLETING}=bash_source {PROGRAM})"'
)


class Group(click.Group):
    """The commands whose names begin with `prefix`; each is made when it is asked for."""

    def __init__(self, prefix: str, **more: Any) -> None:
        super().__init__(prefix.strip(), no_args_is_help=True, **more)
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of commands and of groups."""
        own = (
            name.removeprefix(self._prefix) for name in COMMANDS if name.startswith(self._prefix)
        )
        return [*dict.fromkeys(name.partition(" ")[0] for name in own)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command or the group of this name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        name = f"{self._prefix}{cmd_name}"
        return (
            GroupedCommand(name)
            if name in COMMANDS
            else Group(f"{name} ", help="Evaluate on many machines.")
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; if there is none, say which was probably meant."""
        known = self.list_commands(ctx)
        if args[0] not in known and (near := get_close_matches(args[0], known, 1)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups: those of most runs, or with
    ``--help-all`` all.
    """

    def __init__(self, name: str) -> None:
        command, known = COMMANDS[name], options()
        self._command = name
        self._runs = command.runs
        self._options = [known[key] for key in f"{command.shown} {command.more}".split()]
        self._shown = self._options[: len(command.shown.split())]
        super().__init__(
            name.rpartition(" ")[2],
            callback=self._given,
            params=[
                *map(_parameter, self._options),
                _eager("--help-all", _help_all, "Show all options."),
            ],
            help=command.help,
            epilog=f"\b\nExample:\n  {PROGRAM} {command.example}",
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options by group, those with a short form first."""
        shown = self._options if ctx.meta.get("help-all") else self._shown
        groups: dict[str, list[tuple[str, str]]] = {
            option.group: [] for option in options().values()
        }
        for option in shown:
            groups[option.group].append(option.record())
        groups["Other"] = [("-h, --help", "Show this message and exit.")]
        if len(shown) < len(self._options):
            groups["Other"].append(("--help-all", "Show all options."))
        for name, records in groups.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(sorted(records, key=lambda record: ", " not in record[0]))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name what replaced removed options, and give `--resume` its usual value.

        With options of click, a file after `--resume` would be the value.
        """
        names = {name for option in self._options for name in option.names}
        for argument in args:
            name = argument.partition("=")[0]
            if name not in names:
                message = explain_removed(f"{self._command} {name}", name)
                if message is not None:
                    raise UsageError(message)
        if any(option.field == "resume" and not option.is_flag for option in self._options):
            args = [
                f"--resume={RESUMED}" if argument == "--resume" else argument for argument in args
            ]
        return super().parse_args(ctx, args)

    def _given(self, **values: Any) -> tuple[str, Given]:
        """Return the function that runs the command, and what it was given."""
        source = click.get_current_context().get_parameter_source
        given = {name for name in values if source(name) == ParameterSource.COMMANDLINE}
        values |= {
            option.field: [*values[option.field]] for option in self._options if option.is_repeated
        }
        return self._runs, Given(given, **values)


class Parsed(click.ParamType):  # type: ignore[type-arg]  # only generic in newer versions
    """A value that a function of this package parses; it is imported when there is a value."""

    name = "text"

    def __init__(self, parses: str) -> None:
        self._parses = parses

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text."""
        module, _, function = self._parses.partition(":")
        try:
            return getattr(import_module(f"graphrag_eval_async.{module}"), function)(value)
        except ValueError as error:
            hint = (
                f"'{str(param.metavar).strip('[]')}'" if isinstance(param, click.Argument) else None
            )
            told = str(error).removeprefix(f"{param.name}: " if param is not None else "")
            raise click.BadParameter(told, ctx, param, hint) from None


def _parameter(option: Option) -> click.Parameter:
    more: dict[str, Any] = {"required": option.is_needed}
    if option.default is not None:  # A default of None would stand for a value.
        more["default"] = option.default
    if option.choices:
        more["type"] = click.Choice(option.choices)
    elif option.parses is not None:
        more["type"] = Parsed(option.parses)
    if option.is_path:
        more["shell_complete"] = _complete_path
    if option.is_argument:
        return click.Argument(
            [option.field], nargs=-1 if option.is_repeated else 1, metavar=option.usage, **more
        )
    if option.field == "web":
        more |= {"is_flag": False, "flag_value": WEB}
    if option.is_flag:
        return click.Option([*option.names], is_flag=True, default=option.default is not None)
    return click.Option(
        [*option.names], multiple=option.is_repeated, metavar=option.metavar, **more
    )


def _complete_path(
    _: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Leave it to the shell, which knows the files."""
    return [CompletionItem(incomplete, type="file")]


def _eager(name: str, text: Callable[[click.Context], str], help_: str) -> click.Option:
    """Return an option that prints a text and ends."""

    def show(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(text(context))
            context.exit()

    return click.Option(
        [name], is_flag=True, is_eager=True, expose_value=False, callback=show, help=help_
    )


def _help_all(context: click.Context) -> str:
    context.meta["help-all"] = True
    return context.get_help()


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
        require_posix("the command line")
        found = _read(sys.argv[1:] if arguments is None else arguments)
        if isinstance(found, int):
            sys.exit(found)
        if getattr(found[1], "config", None) is not None:
            # Where its `custom_metrics` may be; last, so that they hide nothing.
            sys.path += [os.getcwd(), os.path.dirname(os.path.abspath(found[1].config))]
        module, _, function = found[0].partition(":")
        command = getattr(import_module(f"graphrag_eval_async.cli.commands.{module}"), function)
        sys.exit(command(found[1], interrupts))
    except click.ClickException as error:
        error.show(text := StringIO())
        code, failure = Exit.USAGE, text.getvalue().removesuffix("\n")
    except (UsageError, ConfigError, ReferenceDataError, GraphragEvalWarning) as error:
        # A warning comes as an error if the interpreter runs with -W error.
        code, failure = Exit.USAGE, f"Error: {describe(error)}"
    except Exception as error:  # noqa: BLE001
        code, failure = Exit.FAILED, f"Error: {describe(error)}"
    with suppress(OSError):
        tell(sys.stderr, failure)
    sys.exit(code)


def _read(arguments: Sequence[str]) -> tuple[str, Given] | int:
    """Return the function that runs a command and what it is given; print help or a version and
    return 0.

    Nothing is left for click to print, which has exit codes of its own where nobody reads.
    """
    program = Group(
        "",
        params=[_eager("--version", lambda _: f"{PROGRAM} {version()}", "Show the version.")],
        help="Evaluate question-answering agents over knowledge graphs while they run.",
        epilog=f"{EXIT_CODES}\n\n{COMPLETION}",
        context_settings={
            "help_option_names": ["-h", "--help", "--help-all"],
            "max_content_width": 120,
        },
    )
    if COMPLETING in os.environ:
        program(prog_name=PROGRAM)  # Prints, and exits.
    with redirect_stdout(StringIO()) as text:
        found: tuple[str, Given] | int = program.main([*arguments], PROGRAM, standalone_mode=False)
    if isinstance(found, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return found
