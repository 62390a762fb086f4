"""The arguments and options of ``compare`` alone."""

from typing import Annotated

import typer

from graphrag_eval_async.cli.files import aggregates_path, input_path
from graphrag_eval_async.cli.options import parser

_input = parser(input_path)

Baseline = Annotated[
    str,
    typer.Argument(
        parser=_input, metavar="BASELINE", help="Results to compare with, JSONL; - is standard input."
    ),
]
Candidate = Annotated[
    str, typer.Argument(parser=_input, metavar="CANDIDATE", help="Results to be compared, likewise.")
]
ComparisonOutput = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        parser=parser(aggregates_path),
        metavar="FILE",
        help="Write the whole comparison here, by the suffix as YAML (.yaml, .yml) or JSON (.json).",
    ),
]
FailOnRegression = Annotated[
    bool,
    typer.Option(
        "--fail-on-regression",
        help="Gate: no score, nor the error rate, must have become worse, overall or in a template, by "
        "more than chance, nor questions have lost their scores; and there must be a score to compare.",
    ),
]
Worst = Annotated[
    int,
    typer.Option("--worst", min=0, metavar="N", help="How many of the questions that got worse to list."),
]
