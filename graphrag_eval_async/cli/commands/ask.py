"""``ask``: asks an agent over HTTP each question, and evaluates the answers as they come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from graphrag_eval_async.cli.commands.evaluate import (
    Asked,
    EvaluationOptions,
    LocalEvaluation,
    check_evaluation_options,
    check_until_with_gate,
    evaluate_here,
    write_output,
)
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.judges import judge_config
from graphrag_eval_async.cli.run import check_files, read_reference
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import tell
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.stream import evaluate_agent
from graphrag_eval_async.stream.http_agent import http_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.exits import Exit, Interrupts


@dataclass(frozen=True, kw_only=True)
class AskOptions(EvaluationOptions):
    """The options of ``ask``."""

    url: str
    method: Literal["GET", "POST"] | None
    param: list[tuple[str, str]]
    body: tuple[str, Any] | None
    header: list[tuple[str, str]]
    answer: str
    query: str
    steps: str
    max_concurrency: int
    timeout: float
    retries: int
    repeats: int
    retry_errors: bool
    web: tuple[str, int] | None


def parse_param(text: str) -> tuple[str, str]:
    """Parse a parameter of a request, written as ``NAME=TEXT``, into its name and its text.

    Raises:
        ValueError: the name or the ``=`` is missing.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(
            f"{text!r}: expected NAME=TEXT, such as dataset=https://example.org/films/"
        )
    return name, value


def parse_header(text: str) -> tuple[str, str]:
    """Parse a header of a request, written as ``NAME: VALUE``, into its name and its value.

    Raises:
        ValueError: the name or the value is missing. The message does not quote the text, which may
            be secret.
    """
    name, _, value = text.partition(":")
    name = name.strip()
    value = value.strip()
    if not name or not value:
        raise ValueError("expected NAME: VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return name, value


def run(options: AskOptions, interrupts: Interrupts) -> Exit:
    """Ask an agent at an address each question of a reference set, and evaluate the answers."""
    _check_names("--param", options.param)
    _check_names("--header", options.header)

    body_path = None
    body = None
    if options.body is not None:
        body_path, body = options.body
    default_method = "GET" if body_path is None else "POST"
    agent = http_agent(
        options.url,
        method=options.method or default_method,
        params=dict(options.param),
        body=body,
        headers=dict(options.header),
        answer=options.answer or None,
        query=options.query or None,
        steps=options.steps or None,
        timeout=options.timeout,
        retries=options.retries,
    )

    check_evaluation_options(options)
    check_until_with_gate(options)
    work = partial(_ask, agent=agent, body_path=body_path, interrupts=interrupts)
    return write_output(options, work, body_path)


def _check_names(option: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise a `UsageError` if two pairs of a name and a value have the same name."""
    names = {name for name, _ in pairs}
    if len(names) < len(pairs):
        raise UsageError(f"{option}: the same name is given twice")


def _ask(
    options: AskOptions,
    results_path: str | None,
    *,
    agent: http_agent,
    body_path: str | None,
    interrupts: Interrupts,
) -> Exit:
    """Ask the agent each question, and evaluate the answers as they come.

    Args:
        options: the options of the command.
        results_path: where the results will be in the end; None if they are not written.
        agent: the agent.
        body_path: the file with the body of requests; None without one.
        interrupts: signals that end the run.
    """
    config = judge_config(options.config, options.llm)
    reference = read_reference(options.reference)
    check_files(options, config, body_path, pages=[options.report])
    check_gates(options.gate, options.by, reference, config)

    until = None
    if options.until:
        tell(sys.stderr, "--until: questions are asked in random order, the same in each run")
        until = Until(options.until[0], options.level)
    # Without the user and the password in the address.
    host = urlsplit(options.url).netloc.rpartition("@")[2]
    evaluation = LocalEvaluation(
        reference=reference,
        source=agent,
        config=config,
        make=partial(
            evaluate_agent,
            max_concurrency=options.max_concurrency,
            repeats=options.repeats,
            retry_errors=options.retry_errors,
            until=until,
        ),
        title=f"Evaluation of {host}",
        results_path=results_path,
        counted=reference,
        asked=Asked(len(reference) * options.repeats),
        web=options.web,
        unit="question" if options.repeats == 1 else "response",
    )
    return evaluate_here(options, evaluation, interrupts)
