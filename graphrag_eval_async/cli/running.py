"""From arguments to an exit code."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.app import PROGRAM, app
from graphrag_eval_async.cli.exits import Exit
from graphrag_eval_async.cli.text import describe, tell
from graphrag_eval_async.errors import ConfigError, ReferenceDataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.app import Command
    from graphrag_eval_async.cli.exits import Interrupts


def run(arguments: Sequence[str] | None, interrupts: Interrupts) -> NoReturn:
    """Run the command line and exit; any failure is told in one line."""
    try:
        command = _parse(arguments)
        sys.exit(command if isinstance(command, int) else command(interrupts))
    except typer.TyperException as error:
        code, failure = Exit.USAGE, _shown(error)
    except (UsageError, ConfigError, ReferenceDataError) as error:
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
        if wrong := [
            argument for argument in given if argument.startswith("--resume=") and argument[9:] != "force"
        ]:
            raise UsageError(f"{wrong[0]}: expected --resume or --resume=force")
        known = [options.RESUME_FORCE if argument == "--resume=force" else argument for argument in given]
        command: Command | int = typer.main.get_command(app)(known, prog_name=PROGRAM, standalone_mode=False)
    if isinstance(command, int):
        tell(sys.stdout, text.getvalue().removesuffix("\n"))
    return command


def _shown(error: Any) -> str:
    """What typer would print: the usage, and what is wrong with it."""
    error.show(text := StringIO())
    return text.getvalue().removesuffix("\n")
