"""Options of several commands, and their parsers.

A command is a frozen dataclass that typer calls. Its fields are its arguments and options. Typer evaluates
the types of fields, also inherited ones, so modules of commands cannot have `from __future__ import
annotations`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from graphrag_eval_async.cli.files import (
    aggregates_path,
    file_path,
    input_path,
    output_path,
    reference_path,
    responses_path,
    state_path,
)
from graphrag_eval_async.cli.gates import Gate, parse_gate
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.evaluator import StepsGroups
from graphrag_eval_async.inference.running import Interval
from graphrag_eval_async.monitor.windows import parse_duration
from graphrag_eval_async.records.conditions import to_float
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.traces import TraceFormat
from graphrag_eval_async.traces.grouping import GRACE
from graphrag_eval_async.traces.trace import FAILURES

T = TypeVar("T")

PANELS = ("Input", "Output", "Alerts", "Resume", "Judges", "Gates", "Statistics", "Advanced")
"""Groups of options in a help text, in their order."""

_options = [partial(typer.Option, rich_help_panel=panel) for panel in PANELS]
input_option, output_option, alert_option, resume_option = _options[:4]
judge_option, gate_option, statistics_option, advanced_option = _options[4:]

REPEATABLE: dict[str, Any] = {"default_factory": list, "show_default": False}
"""A field of an option that may be repeated has no default of its own."""


def parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse`, with its `ValueError` turned into the error that typer expects."""

    def parse_or_complain(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_complain


def refuse(given: Mapping[str, object], message: str) -> None:
    """Raise a `UsageError` with `message` and, for its ``{}``, the first option that is given, if one is."""
    if option := next((option for option, value in given.items() if value), None):
        raise UsageError(message.format(option))


LOOPBACK = "127.0.0.1"
WEB = f"{LOOPBACK}:8080"
"""The address of ``--web`` without a value."""

_ADDRESS = re.compile(r"(?:(?P<host>[^\s:/\[\]]+|\[[^\s\]]+\])?:)?(?P<port>\d{1,5})", re.ASCII)


def parse_address(text: str) -> tuple[str, int]:
    """The host and port of ``HOST:PORT``, or ``PORT`` on this machine; brackets hold an IPv6 address."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError(f"{text!r}: expected HOST:PORT, such as 127.0.0.1:8080")
    return (match["host"] or LOOPBACK).strip("[]"), int(match["port"])


def parse_web(text: str) -> tuple[str, int]:
    """The host and port of ``--web``."""
    try:
        return parse_address(text)
    except ValueError as error:
        raise ValueError(f"{error}; name logs that do not exist yet before --web") from None


def with_address(arguments: Sequence[str]) -> list[str]:
    """The arguments, with the address after each ``--web`` that has none: options of typer need a value."""
    filled = []
    for place, argument in enumerate(arguments):
        filled.append(argument)
        if argument == "--web" and (place + 1 == len(arguments) or _is_no_address(arguments[place + 1])):
            filled.append(WEB)
    return filled


def _is_no_address(text: str) -> bool:
    """Whether this is an option or a log: it exists, or nothing but a path has such characters."""
    if _ADDRESS.fullmatch(text):
        return False
    looks_like_path = ":" not in text and not {*"/*?["}.isdisjoint(text)
    return text.startswith("-") or looks_like_path or is_redis(text) or os.path.exists(text)


def parse_level(text: str) -> float:
    level = to_float(text)
    if not 0 < level < 1:
        raise ValueError(f"{text!r}: expected a number between 0 and 1, such as 0.95")
    return level


def parse_interval(text: str) -> str:
    kind = text.replace("-", "_")
    if kind not in ("one_look", "anytime"):
        raise ValueError(f"{text!r}: expected one_look or anytime")
    return kind


def parse_step_name(text: str) -> tuple[str, str]:
    tool, equals, step = text.partition("=")
    if not (tool and equals and step):
        raise ValueError(f"{text!r}: expected TOOL=STEP, such as run_sparql=sparql_query")
    return tool, step


def trace_format(
    name: str | None,
    select: str | None,
    question_id: str | None,
    failed: list[str],
    step_names: list[tuple[str, str]],
    grace: float | None = None,
    late: str | None = None,
) -> TraceFormat | None:
    """Return the format from `--format` and the options that need it; None without it."""
    if name is not None:
        return TraceFormat(
            name=name,
            select=select,
            question_id=question_id,
            failed=tuple(failed) or FAILURES,
            step_names=dict(step_names),
            grace=GRACE if grace is None else grace,
            late=late,
        )
    paths = {"--select": select is not None, "--question-id": question_id is not None}
    paths["--grace"] = grace is not None
    refuse(paths | {"--failed": failed, "--step-name": step_names}, "{} needs --format")
    return None


input_argument = partial(typer.Argument, parser=parser(input_path))
_gate = partial(gate_option, metavar="[TEMPLATE:]METRIC=VALUE", **REPEATABLE)
_reference = parser(partial(file_path, what="the reference set"))

ReferencePath = Annotated[
    str, typer.Argument(parser=_reference, metavar="REFERENCE", help="Reference set, YAML or JSON.")
]
OptionalReferencePath = Annotated[
    str | None,
    typer.Argument(
        parser=parser(reference_path),
        metavar="REFERENCE",
        show_default=False,
        help="Reference set, YAML or JSON.",
    ),
]
NoReference = Annotated[
    str | None,
    input_option(
        parser=parser(responses_path),
        metavar="RESPONSES",
        help="Evaluate these responses without a reference set; each has the text of its `question`. Steps "
        "are not scored.",
    ),
]
ReferenceOption = Annotated[
    str | None,
    input_option(
        parser=_reference,
        metavar="FILE",
        help="Reference set. Sets the order of templates and allows a gate on missing_rate.",
    ),
]
Questions = Annotated[
    str | None,
    input_option(
        "--reference",
        parser=_reference,
        metavar="FILE",
        help="Reference set, to find each question's id by its text.",
    ),
]
_FILES = (
    "Responses, JSONL or Parquet: a file (.gz too), a directory, a glob, an address such as s3://..., or "
    "- for standard input"
)
RESPONSES = input_argument(metavar="RESPONSES", show_default=False, help=f"{_FILES}.")
LIVE_RESPONSES = typer.Argument(
    parser=parser(responses_path),
    metavar="RESPONSES",
    show_default=False,
    help=f"{_FILES}; or a stream of a Redis server: redis://HOST/STREAM?group=GROUP.",
)
Config = Annotated[
    str | None,
    judge_option(
        "--config",
        "-c",
        parser=parser(partial(file_path, what="the configuration")),
        metavar="FILE",
        help="Configuration of the judges, YAML or JSON.",
    ),
]
PrimaryConfig = Annotated[
    str | None,
    statistics_option(
        "--config",
        "-c",
        parser=parser(partial(file_path, what="the configuration")),
        metavar="FILE",
        help="Configuration whose key `primary` names the metrics that are decided.",
    ),
]
Llm = Annotated[
    str | None,
    judge_option(
        metavar="PROVIDER/MODEL",
        help="Judge answer correctness with this model, without a configuration: openai/gpt-4o-mini.",
    ),
]
Format = Annotated[
    str | None,
    input_option(
        "--format",
        parser=parser(lambda name: TraceFormat(name=name).name),
        metavar="FORMAT",
        help="Format of traces, one per line: openai, responses, agents, langchain, anthropic, pydantic-ai, "
        "llamaindex, mcp, or auto to recognise it; otlp for spans.",
    ),
]
Select = Annotated[
    str | None,
    input_option(
        metavar="PATH", help="With --format: where the trace is in a line, such as payload.messages."
    ),
]
QuestionId = Annotated[
    str | None,
    input_option(
        metavar="PATH",
        help="With --format: where the question's id is in a line, such as meta.question; with otlp, the "
        "name of an attribute.  [default: find the question by its text]",
    ),
]
Failed = Annotated[
    list[str],
    input_option(
        metavar="TEXT",
        help="With --format: count a call as failed if its result begins with TEXT and the trace does not "
        "say. Repeatable.  [default: Error: and fixed sentences of LangGraph, MCP and OpenAI Agents]",
        **REPEATABLE,
    ),
]
Grace = Annotated[
    float | None,
    input_option(
        "--grace",
        parser=parser(parse_duration),
        metavar="SECONDS",
        help="With otlp, except in files: how long to wait for late spans after the root span of a trace.  "
        f"[default: {GRACE:g}]",
    ),
]
StepNames = Annotated[
    list[Any],
    input_option(
        "--step-name",
        parser=parser(parse_step_name),
        metavar="TOOL=STEP",
        help="With --format: name of the step that a tool is, such as run_sparql=sparql_query. Repeatable.",
        **REPEATABLE,
    ),
]
Rejects = Annotated[
    str | None,
    output_option(parser=output_path, metavar="FILE", help="Write rejected lines here, as JSONL."),
]
MaxRejectBytes = Annotated[
    int,
    advanced_option(
        min=0,
        metavar="N",
        show_default="1 GiB",
        help="Size of the rejects file beyond which rejects are written without content.",
    ),
]
Aggregates = Annotated[
    str | None,
    output_option(
        parser=parser(state_path),
        metavar="FILE",
        help="Write the aggregates here: .yaml, .yml or .json; or .aggregates, which aggregate merges.",
    ),
]
StepsGroupsOption = Annotated[
    StepsGroups | None,
    statistics_option(
        "--steps-groups",
        help="Which groups of reference steps to score.  [default: last, or as --config says]",
    ),
]
OutputComparison = Annotated[
    str | None,
    output_option(
        "--output",
        "-o",
        parser=parser(aggregates_path),
        metavar="FILE",
        help="Write the whole comparison here: .yaml, .yml or .json.",
    ),
]
Gates = Annotated[
    list[Gate],
    gate_option(
        "--gate",
        parser=parser(partial(parse_gate, option="--gate", operator="")),
        metavar="CONDITION",
        help="Fail unless the mean meets CONDITION, such as 'steps_score >= 0.8' or "
        "'lines:error_rate < 0.1'. METRIC may also be error_rate or missing_rate. Repeatable.",
        **REPEATABLE,
    ),
]
FailUnder = Annotated[
    list[Gate],
    _gate(
        parser=parser(partial(parse_gate, option="--fail-under", operator=">=")),
        help="Fail if the mean of METRIC, overall or of one template, is under VALUE. Repeatable.",
    ),
]
FailOver = Annotated[
    list[Gate],
    _gate(
        parser=parser(partial(parse_gate, option="--fail-over", operator="<=")),
        help="Fail if it is over VALUE. METRIC may also be error_rate or missing_rate. Repeatable.",
    ),
]
IncludeErrors = Annotated[
    bool,
    statistics_option("--include-errors", help="Count tokens and seconds of error responses."),
]
# Any, since the default is text that is parsed as well.
Level = Annotated[
    Any,
    statistics_option(
        "--level",  # Typer would make it --LEVEL, since that is the metavar.
        parser=parser(parse_level),
        metavar="LEVEL",
        help="Confidence level of intervals and decisions, between 0 and 1.",
    ),
]
interval_option = partial(statistics_option, "--interval", parser=parser(parse_interval), metavar="KIND")
_KINDS = (
    "Kind of intervals: one_look, for finished runs; or anytime, wider, valid however often you look: choose "
    "it for results of a run that you or --until stopped.  [default: one_look"
)
IntervalKind = Annotated[Interval | None, interval_option(help=f"{_KINDS}]")]
IntervalOfRun = Annotated[
    Interval | None, interval_option(help=f"{_KINDS}, but anytime if this run is stopped]")
]
DetailOption = Annotated[
    bool,
    output_option(
        "--detail", help="Print all means, missing values, intervals of templates, and quantiles, too."
    ),
]
Jobs = Annotated[
    int,
    advanced_option(
        min=0,
        metavar="N",
        help="Number of worker processes; 0 means one per core. Standard input, pipes, addresses, compressed "
        "files, Parquet, JSON arrays and judges use one.",
    ),
]
MaxLineBytes = Annotated[
    int,
    advanced_option(
        min=1, metavar="N", show_default="32 MiB", help="Length of a line beyond which it is rejected."
    ),
]
MaxResultBytes = Annotated[
    int,
    advanced_option(
        "--max-line-bytes",
        min=1,
        metavar="N",
        show_default="128 MiB",
        help="Length of a line beyond which it is rejected.",
    ),
]
