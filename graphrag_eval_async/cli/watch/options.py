"""Arguments and options that only ``watch`` has."""

from functools import partial
from typing import Annotated, Any, Literal

import typer

from graphrag_eval_async.cli.files import file_path, output_path
from graphrag_eval_async.cli.options import parser
from graphrag_eval_async.cli.watch.alerts import Alert, parse_alert
from graphrag_eval_async.cli.watch.durations import parse_duration, parse_window
from graphrag_eval_async.cli.watch.results import Show

Start = Literal["beginning", "end"]

_duration = partial(typer.Option, parser=parser(parse_duration), metavar="TIME")

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Logs of responses, JSONL: files, directories or patterns, there already or not.",
    ),
]
StartOption = Annotated[
    Start, typer.Option("--start", help="Where to begin in the files that are there already.")
]
UntilIdle = Annotated[
    float | None, _duration("--until-idle", help="End once nothing was written for so long, such as 30s.")
]
# Any, of what is parsed, since the defaults are text that is parsed as well.
PollInterval = Annotated[Any, _duration("--poll-interval", help="How often to look for what is new.")]
WindowOption = Annotated[
    Any,
    typer.Option(
        "--window",
        parser=parser(parse_window),
        metavar="N|TIME",
        help="What counts as of late: the last N results, or those of the last TIME, such as 5m.",
    ),
]
ShowOption = Annotated[
    Show,
    typer.Option(
        "--show",
        help="Which results to list: the last, or the worst, which are errors and then those with the lowest "
        "mean of their scores.",
    ),
]
Interval = Annotated[Any, _duration("--interval", help="How often to print JSON, without a terminal.")]
AlertOption = Annotated[
    list[Alert],
    typer.Option(
        "--alert",
        parser=parser(parse_alert),
        metavar="[TEMPLATE:]METRIC<VALUE [over N|TIME]",
        help="Tell when the mean of the last values of METRIC, or error_rate, begins and ceases to be so; "
        "also with <=, > and >=. It begins once as many values or as much time was seen, and has ceased when "
        "it was not so for as many or as long; it begins again only after as many more, or as long. "
        "Repeatable.  [default of N|TIME: that of --window]",
    ),
]
OnAlert = Annotated[
    str | None,
    typer.Option(
        "--on-alert",
        metavar="COMMAND",
        help="Run this in a shell for each alert that begins or ceases, with the facts as JSON on its "
        "standard input, for 30 s at most. What it prints is thrown away.",
    ),
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        parser=parser(partial(file_path, what="the baseline")),
        metavar="FILE",
        help="Results of an earlier run, JSONL: show by how much this one differs, question by question.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", parser=output_path, metavar="FILE", help="Write results here, as JSONL."),
]
