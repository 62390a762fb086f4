"""Arguments and options, as several commands have them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

import typer

from graphrag_eval_async.cli.files import (
    aggregates_path,
    file_path,
    input_path,
    output_path,
    resumable_path,
)
from graphrag_eval_async.cli.gates import Gate, parse_gate
from graphrag_eval_async.evaluator import StepsGroups
from graphrag_eval_async.metrics import OnFatal
from graphrag_eval_async.sinks.journal import Dedupe, Fsync

T = TypeVar("T")

RESUME_FORCE = "--resume-force"
"""What ``--resume=force`` is read as, since an option has a value always or never."""


def parser(parse: Callable[[str], T]) -> Callable[[str], T]:
    """What typer asks of a parser: bad values raise its own error."""

    def parse_or_complain(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse_or_complain


def parse_level(text: str) -> float:
    """A number between 0 and 1.

    Raises:
        ValueError: it is none.
    """
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise ValueError(f"{text!r}: expected a number between 0 and 1, such as 0.95")
    return level


_input = parser(input_path)
_reference = parser(partial(file_path, what="reference data"))

ReferencePath = Annotated[
    str, typer.Argument(parser=_reference, metavar="REFERENCE", help="Reference data, YAML or JSON.")
]
ReferenceOption = Annotated[
    str | None,
    typer.Option(
        "--reference",
        parser=_reference,
        metavar="FILE",
        help="Reference data: gives the templates their order, and lets missing_rate be a gate.",
    ),
]
RESPONSES = typer.Argument(
    parser=_input,
    metavar="RESPONSES",
    help="Responses, JSONL: a file, gzipped or not, a directory or a pattern; - is standard input.",
)
Responses = Annotated[str, RESPONSES]
Results = Annotated[
    list[str],
    typer.Argument(parser=_input, metavar="RESULTS...", help="Results, JSONL; - is standard input."),
]
# Any, since the default is text that is parsed as well.
Level = Annotated[
    Any,
    typer.Option(
        "--level",
        parser=parser(parse_level),
        metavar="LEVEL",
        help="How sure intervals, and what is decided by them, are to be, between 0 and 1.",
    ),
]
Output = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        parser=output_path,
        metavar="FILE",
        help="Write results here, as JSONL; - is stdout.",
    ),
]
Answers = Annotated[
    str,
    typer.Option(
        "--input",
        "-i",
        parser=parser(partial(file_path, what="the table")),
        metavar="FILE",
        help="Answers, TSV with the columns Question, Reference answer and Actual answer.",
    ),
]
AnswersOutput = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        parser=parser(resumable_path),
        metavar="FILE",
        help="Write a row for each here, as TSV; the rows that it has already are kept.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        parser=parser(partial(file_path, what="the configuration")),
        metavar="FILE",
        help="Configuration of the LLM judges, YAML or JSON.",
    ),
]
Llm = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="PROVIDER/MODEL",
        help="Judge answer correctness by this LLM, without a configuration file; such as "
        "openai/gpt-4o-mini.",
    ),
]
Embedding = Annotated[
    str | None,
    typer.Option(
        "--embedding",
        metavar="PROVIDER/MODEL",
        help="With --llm: judge answer relevance, too, with this embedding model.",
    ),
]
OnFatalOption = Annotated[
    OnFatal,
    typer.Option(
        "--on-fatal",
        help="If the judge rejects the key, lacks the model or is out of quota: raise stops the run, "
        "continue records it as the error of each metric.",
    ),
]
Stages = Annotated[
    bool,
    typer.Option(
        "--stages",
        help="Write a result twice: as soon as its steps are scored, with the metrics to come in the key "
        "pending, and whole.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only print how many calls a run would make, and about how many tokens and dollars it would "
        "take. Writes no file and calls nobody.",
    ),
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
        parser=parser(aggregates_path),
        metavar="FILE",
        help="Write the aggregates here, by the suffix as YAML (.yaml, .yml) or JSON (.json).",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Keep the output as a journal, and go on with what it has: lines that are done are not "
        "evaluated again. --resume=force goes on even if it was begun under another reference set, "
        "configuration or version.",
    ),
]
ResumeForce = Annotated[bool, typer.Option(RESUME_FORCE, hidden=True)]
FsyncOption = Annotated[
    Fsync | None,
    typer.Option(
        "--fsync",
        help="With --resume, when results are brought to the disk, so that they outlive a power failure: "
        "each before it counts, those of a second together, or as the system likes.  [default: interval]",
    ),
]
DedupeOption = Annotated[
    Dedupe,
    typer.Option(
        "--dedupe",
        help="By what a line is recognised that was evaluated before: by its position or, where lines may "
        "be delivered twice, by its content, so that true duplicates do not count.",
    ),
]
StepsGroupsOption = Annotated[
    StepsGroups | None,
    typer.Option(
        "--steps-groups",
        help="Which groups of reference steps are scored.  [default: last, unless --config says otherwise]",
    ),
]
IncludeErrors = Annotated[
    bool, typer.Option("--include-errors", help="Let the metrics of error responses count.")
]
FailUnder = Annotated[
    list[Gate],
    typer.Option(
        "--fail-under",
        parser=parser(partial(parse_gate, over=False)),
        metavar="[TEMPLATE:]METRIC=VALUE",
        help="Gate: the mean of METRIC, over all results or over one template's, must not be under VALUE. "
        "Repeatable.",
    ),
]
FailOver = Annotated[
    list[Gate],
    typer.Option(
        "--fail-over",
        parser=parser(partial(parse_gate, over=True)),
        metavar="[TEMPLATE:]METRIC=VALUE",
        help="Gate: must not be over VALUE. METRIC may also be error_rate or missing_rate. Repeatable.",
    ),
]
UntilOption = Annotated[
    list[str],  # To tell those who give several that only one can be.
    typer.Option(
        "--until",
        metavar="CONDITION",
        help="End as soon as it is decided whether CONDITION holds: [TEMPLATE:]METRIC >= NUMBER, or with "
        ">, <= or <, such as 'steps_score >= 0.8'. It is a gate, which does not hold either if it is not "
        "decided at the end. There can be one only.",
    ),
]
Shuffle = Annotated[
    int | None,
    typer.Option(
        "--shuffle",
        min=0,
        metavar="SEED",
        help="Read the lines of files in an order of chance, the same for the same SEED.  "
        "[default: 0 with --until, else not]",
    ),
]
Ordered = Annotated[bool, typer.Option("--ordered", help="Write results in the order of the input.")]
MaxInFlight = Annotated[
    int,
    typer.Option(
        "--max-in-flight", min=1, metavar="N", help="How many responses may be in progress at once."
    ),
]
MaxLineBytes = Annotated[
    int,
    typer.Option(
        "--max-line-bytes", min=1, metavar="N", help="Longer lines are rejected, and never held in memory."
    ),
]
