"""Options that several commands have, and what reads their values.

A command is a frozen dataclass that typer calls. Its fields are its arguments and options, in the order of
the help. Typer evaluates the types of fields, also inherited ones, so modules of commands cannot have
`from __future__ import annotations`.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from graphrag_eval_async.cli.files import aggregates_path, file_path, input_path, output_path
from graphrag_eval_async.cli.gates import Gate, parse_gate
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.traces import TraceFormat
from graphrag_eval_async.traces.trace import FAILURES

T = TypeVar("T")

AFTER = "after"
"""In a field's metadata: the option of a base class that it, and the fields below it, come after; None: they
come first.
"""


def parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse`, with its `ValueError` turned into the error that typer expects."""

    def parse_or_complain(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_complain


def parse_level(text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise ValueError(f"{text!r}: expected a number between 0 and 1, such as 0.95")
    return level


def parse_format(name: str) -> str:
    return TraceFormat(name=name).name


def trace_format(
    name: str | None, select: str | None, question_id: str | None, failed: list[str]
) -> TraceFormat | None:
    """What `--format`, `--select`, `--question-id` and `--failed` say; None without the first.

    Raises:
        UsageError: they do not go together, or a path is empty.
    """
    if name is not None:
        return TraceFormat(
            name=name, select=select, question_id=question_id, failed=tuple(failed) or FAILURES
        )
    given = {"select": select, "question-id": question_id, "failed": failed or None}
    if found := [option for option, value in given.items() if value is not None]:
        raise UsageError(f"--{found[0]} needs --format")
    return None


input_argument = partial(typer.Argument, parser=parser(input_path))
file_option = partial(typer.Option, metavar="FILE")
# A field of such an option has no default of its own.
repeatable = partial(typer.Option, default_factory=list, show_default=False)
_gate = partial(repeatable, metavar="[TEMPLATE:]METRIC=VALUE")
_reference = parser(partial(file_path, what="reference data"))

ReferencePath = Annotated[
    str, typer.Argument(parser=_reference, metavar="REFERENCE", help="Reference data, YAML or JSON.")
]
ReferenceOption = Annotated[
    str | None,
    file_option(
        parser=_reference,
        help="Reference data: gives the templates their order, and lets missing_rate be a gate.",
    ),
]
RESPONSES = input_argument(
    metavar="RESPONSES",
    help="Responses, JSONL: a file, gzipped or not, a directory or a pattern; - is standard input.",
)
Config = Annotated[
    str | None,
    file_option(
        "--config",
        "-c",
        parser=parser(partial(file_path, what="the configuration")),
        help="Configuration of the LLM judges, YAML or JSON.",
    ),
]
Llm = Annotated[
    str | None,
    typer.Option(
        metavar="PROVIDER/MODEL",
        help="Judge answer correctness by this LLM, without a configuration file; such as "
        "openai/gpt-4o-mini.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        parser=parser(parse_format),
        metavar="FORMAT",
        help="Lines hold traces of agents, one in each, rather than responses: openai, responses, agents, "
        "langchain, anthropic, pydantic-ai, llamaindex, mcp or auto, which recognises these; or spans: otlp.",
    ),
]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="With --format: where in a line the trace stands, such as payload.messages.",
    ),
]
QuestionId = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="With --format: where in a line the id of the question stands, such as meta.question; of otlp, "
        "its attribute.  [default: the question is found by its text]",
    ),
]
Failed = Annotated[
    list[str],
    repeatable(
        metavar="TEXT",
        help="With --format: a call failed if its result begins with this text, where the trace does not "
        "say; repeatable.  [default: Error: and fixed sentences of LangGraph, MCP and OpenAI Agents]",
    ),
]
Rejects = Annotated[
    str | None, file_option(parser=output_path, help="Write rejected lines here, whole, as JSONL.")
]
MaxRejectBytes = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Limit of the rejects file; beyond it, rejects are written without content.",
    ),
]
Aggregates = Annotated[
    str | None,
    file_option(
        parser=parser(aggregates_path),
        help="Write the aggregates here, by the suffix as YAML (.yaml, .yml) or JSON (.json).",
    ),
]
FailUnder = Annotated[
    list[Gate],
    _gate(
        parser=parser(partial(parse_gate, over=False)),
        help="Gate: the mean of METRIC, over all results or over one template's, must not be under VALUE. "
        "Repeatable.",
    ),
]
FailOver = Annotated[
    list[Gate],
    _gate(
        parser=parser(partial(parse_gate, over=True)),
        help="Gate: must not be over VALUE. METRIC may also be error_rate or missing_rate. Repeatable.",
    ),
]
IncludeErrors = Annotated[
    bool, typer.Option("--include-errors", help="Let the metrics of error responses count.")
]
# Any, since the default is text that is parsed as well.
Level = Annotated[
    Any,
    typer.Option(
        "--level",  # Typer would make it --LEVEL, since that is the metavar.
        parser=parser(parse_level),
        metavar="LEVEL",
        help="How sure intervals, and what is decided by them, are to be, between 0 and 1.",
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Read files in N processes, in the order of the input; 0 means one for each core. Standard "
        "input, pipes, compressed files, results in stages and judged metrics take one process.",
    ),
]
MaxLineBytes = Annotated[
    int, typer.Option(min=1, metavar="N", help="Longer lines are rejected, and never held in memory.")
]
