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
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from graphrag_eval_async.cli.command_table import COMMANDS
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

    from graphrag_eval_async.cli.command_table import Command
    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.cli.options import Option

PROGRAM = "graphrag-eval-async"
"""The name of the program in help texts and error messages."""

DEFAULT_WEB_ADDRESS = "127.0.0.1:8080"
"""The address of ``--web`` without a value."""

EXIT_CODES = (
    "Exit codes, the first that applies: 2 wrong usage or a broken reference set, 4 the run "
    "itself failed, 3 lines were rejected (unless interrupted), 1 a gate failed, 130 Ctrl-C, 143 "
    "SIGTERM, 0 none of these."
)

SHOWS_ALL_OPTIONS = "help-all"
"""The key in the `meta` of a context of click that says whether help shows all options."""

COMPLETING = "_GRAPHRAG_EVAL_ASYNC_COMPLETE"
"""The environment variable by which a shell asks for completions."""

COMPLETION = (
    "\b\nTo complete commands and options in bash (or zsh_source, fish_source):\n"
    f'  eval "$({COMPLETING}=bash_source {PROGRAM})"'
)


class CommandCall(NamedTuple):
    """A command that is to run.

    Attributes:
        command: its entry in the table of commands.
        values: the values of its options, by field.
        named_fields: the fields whose options are on the command line.
    """

    command: Command
    values: dict[str, Any]
    named_fields: frozenset[str]

    def run(self, interrupts: Interrupts) -> Exit:
        """Import the command and run it; return its exit code."""
        module_name, _, function_name = self.command.runs.partition(":")
        module = import_module(f"graphrag_eval_async.cli.commands.{module_name}")
        options_class = getattr(module, self.command.options_class)
        run_command: Callable[[Any, Interrupts], Exit] = getattr(module, function_name)
        options = options_class(named_fields=self.named_fields, **self.values)
        return run_command(options, interrupts)


class Group(click.Group):
    """The commands whose names begin with `prefix`; each is made when click asks for it."""

    def __init__(self, prefix: str, **keywords: Any) -> None:
        """Create a group.

        Args:
            prefix: beginning of the names, such as "scale "; empty for all commands.
            keywords: arguments of `click.Group`.
        """
        super().__init__(prefix.strip(), no_args_is_help=True, **keywords)
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands and groups in this group, without its prefix."""
        names = []
        for full_name in COMMANDS:
            if full_name.startswith(self._prefix):
                name, _, _ = full_name.removeprefix(self._prefix).partition(" ")
                if name not in names:
                    names.append(name)
        return names

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command or the group of this name; None if there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        full_name = f"{self._prefix}{cmd_name}"
        if full_name in COMMANDS:
            return GroupedCommand(full_name)
        return Group(f"{full_name} ", help="Evaluate on many machines.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with; fail with a similar name if there is none."""
        names = self.list_commands(ctx)
        if args[0] not in names:
            similar_names = get_close_matches(args[0], names, 1)
            if similar_names:
                ctx.fail(f"No such command {args[0]!r}. Did you mean {similar_names[0]!r}?")
        return super().resolve_command(ctx, args)


class GroupedCommand(click.Command):
    """A command whose help shows its options in groups.

    ``--help`` shows the options of most runs, ``--help-all`` shows all.
    """

    def __init__(self, full_name: str) -> None:
        """Create the command of an entry of `COMMANDS`, such as "scale ray"."""
        command = COMMANDS[full_name]
        option_by_key = options()
        self._full_name = full_name
        self._command = command
        self._options = [option_by_key[key] for key in command.option_keys]
        self._shown_options = [option_by_key[key] for key in command.shown.split()]

        parameters = [make_parameter(option) for option in self._options]
        parameters.append(_printing_option("--help-all", _help_all, "Show all options."))
        super().__init__(
            full_name.rpartition(" ")[2],
            callback=self._make_call,
            params=parameters,
            help=command.help,
            epilog=f"\b\nExample:\n  {PROGRAM} {command.example}",
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options by group, those with a short form first."""
        shows_all = ctx.meta.get(SHOWS_ALL_OPTIONS, False)
        shown_options = self._options if shows_all else self._shown_options

        # All groups, so that they are in the order of the table.
        rows_by_group: dict[str, list[tuple[str, str]]] = {
            option.group: [] for option in options().values()
        }
        for option in shown_options:
            rows_by_group[option.group].append(option.help_row())
        rows_by_group["Other"] = [("-h, --help", "Show this message and exit.")]
        if len(shown_options) < len(self._options):
            rows_by_group["Other"].append(("--help-all", "Show all options."))

        for group, rows in rows_by_group.items():
            if rows:
                with formatter.section(group):
                    formatter.write_dl(sorted(rows, key=_has_no_short_form))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after two changes that click does not know.

        A removed option is an error that names its successor, and ``--resume`` without a value
        gets one: with an optional value of click, a file behind ``--resume`` would be the value.
        """
        option_names = {name for option in self._options for name in option.names}
        for argument in args:
            name, _, _ = argument.partition("=")
            if name not in option_names:
                message = explain_removed(f"{self._full_name} {name}", name)
                if message is not None:
                    raise UsageError(message)

        can_resume = any(
            option.field == "resume" and not option.is_flag for option in self._options
        )
        if can_resume:
            args = [
                f"--resume={RESUMED}" if argument == "--resume" else argument for argument in args
            ]
        return super().parse_args(ctx, args)

    def _make_call(self, **values: Any) -> CommandCall:
        """Return the call of the command with the values that click has parsed."""
        source_of = click.get_current_context().get_parameter_source
        named_fields = {
            field for field in values if source_of(field) == ParameterSource.COMMANDLINE
        }
        for option in self._options:
            if option.is_repeated:
                # Click gives tuples.
                values[option.field] = list(values[option.field])
        return CommandCall(self._command, values, frozenset(named_fields))


def _has_no_short_form(help_row: tuple[str, str]) -> bool:
    """Return whether the option of a row of a help text has only one name."""
    names, _ = help_row
    return ", " not in names


class Parsed(click.ParamType):  # type: ignore[type-arg]  # only generic in newer versions
    """The type of values that a function of this package parses.

    The function is imported only when there is a value.
    """

    name = "text"

    def __init__(self, parser: str) -> None:
        """Create the type for a function, written as ``MODULE:FUNCTION``."""
        self._parser = parser

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that a text stands for.

        Raises:
            BadParameter: the text is wrong; the error names the option.
        """
        module_name, _, function_name = self._parser.partition(":")
        module = import_module(f"graphrag_eval_async.{module_name}")
        parse = getattr(module, function_name)
        try:
            return parse(value)
        except ValueError as error:
            message = str(error)
            if param is not None:
                # Some errors begin with the name, which click puts before them, too.
                message = message.removeprefix(f"{param.name}: ")
            argument_name = None
            if isinstance(param, click.Argument):
                # Click would quote the brackets of optional arguments.
                argument_name = f"'{str(param.metavar).strip('[]')}'"
            raise click.BadParameter(message, ctx, param, argument_name) from None


def make_parameter(option: Option) -> click.Parameter:
    """Return the parameter of click for an argument or an option."""
    keywords: dict[str, Any] = {"required": option.is_needed}
    # Click takes a default of None for a value.
    if option.default is not None:
        keywords["default"] = option.default
    if option.choices:
        keywords["type"] = click.Choice(option.choices)
    elif option.parser is not None:
        keywords["type"] = Parsed(option.parser)
    if option.is_path:
        keywords["shell_complete"] = _complete_path

    if option.is_argument:
        count = -1 if option.is_repeated else 1
        return click.Argument([option.field], nargs=count, metavar=option.usage, **keywords)

    # The last one is the name under which click passes the value.
    declarations = [*option.names, option.field]
    if option.is_flag:
        return click.Option(declarations, is_flag=True, default=False)
    if option.field == "web":
        # The value may be missing.
        keywords["is_flag"] = False
        keywords["flag_value"] = DEFAULT_WEB_ADDRESS
    return click.Option(
        declarations, multiple=option.is_repeated, metavar=option.metavar, **keywords
    )


def _complete_path(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return a completion that tells the shell to complete paths, since it knows the files."""
    return [CompletionItem(incomplete, type="file")]


def _printing_option(
    name: str, make_text: Callable[[click.Context], str], help_text: str
) -> click.Option:
    """Return an option that prints a text and ends the program.

    Args:
        name: the name of the option.
        make_text: returns the text.
        help_text: what the option does.
    """

    def print_and_exit(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
        if is_given:
            click.echo(make_text(context))
            context.exit()

    return click.Option(
        [name],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=print_and_exit,
        help=help_text,
    )


def _help_all(context: click.Context) -> str:
    """Return the help text of a command with all of its options."""
    context.meta[SHOWS_ALL_OPTIONS] = True
    return context.get_help()


def _version_text(_context: click.Context) -> str:
    """Return what ``--version`` prints."""
    return f"{PROGRAM} {version()}"


class _EscapingFormatter(logging.Formatter):
    """Formats log records in one line each, in which foreign text is escaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(record.message)


class _StandardErrorHandler(logging.Handler):
    """Prints log records on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            tell(sys.stderr, self.format(record))


def _show_warning(message: Warning | str, *_: object) -> None:
    """Print a warning of the module `warnings`, without its place in the code."""
    with suppress(OSError):
        tell(sys.stderr, f"Warning: {message}")


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit; a failure prints one line.

    Args:
        arguments: the arguments; None for those of the process.
        interrupts: handles the signals that end the command.
    """
    # `logging` prints records here if nothing else handles them.
    logging.lastResort = _StandardErrorHandler(logging.WARNING)
    logging.lastResort.setFormatter(_EscapingFormatter())
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        require_posix("the command line")
        call = _read_command_line(sys.argv[1:] if arguments is None else arguments)
        if isinstance(call, int):
            sys.exit(call)
        _make_custom_metrics_importable(call.values.get("config"))
        sys.exit(call.run(interrupts))
    except click.ClickException as error:
        usage = StringIO()
        error.show(usage)
        code = Exit.USAGE
        failure = usage.getvalue().removesuffix("\n")
    except (UsageError, ConfigError, ReferenceDataError, GraphragEvalWarning) as error:
        # A warning comes as an error if the interpreter runs with -W error.
        code = Exit.USAGE
        failure = f"Error: {describe(error)}"
    except Exception as error:  # noqa: BLE001
        code = Exit.FAILED
        failure = f"Error: {describe(error)}"
    with suppress(OSError):
        tell(sys.stderr, failure)
    sys.exit(code)


def _make_custom_metrics_importable(config_path: str | None) -> None:
    """Add the folders where `custom_metrics` of a configuration may be to the import path.

    They are the working directory and the folder of the configuration. They come last, so that
    their modules do not hide installed ones.
    """
    if config_path is not None:
        sys.path += [os.getcwd(), os.path.dirname(os.path.abspath(config_path))]


def _read_command_line(arguments: Sequence[str]) -> CommandCall | int:
    """Parse the arguments of the program.

    Returns:
        The call of the command; after printing help or the version, the exit code.
    """
    program = Group(
        "",
        params=[_printing_option("--version", _version_text, "Show the version.")],
        help="Evaluate question-answering agents over knowledge graphs while they run.",
        epilog=f"{EXIT_CODES}\n\n{COMPLETION}",
        context_settings={
            "help_option_names": ["-h", "--help", "--help-all"],
            "max_content_width": 120,
        },
    )
    if COMPLETING in os.environ:
        program(prog_name=PROGRAM)  # Prints, and exits.

    # Click must not print: where nobody reads, it ends with exit codes of its own.
    with redirect_stdout(StringIO()) as text:
        call: CommandCall | int = program.main([*arguments], PROGRAM, standalone_mode=False)
    if isinstance(call, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return call
