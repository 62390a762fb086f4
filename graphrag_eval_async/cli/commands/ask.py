"""``ask``: asks an agent over HTTP each question, and evaluates the answers as they come."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from graphrag_eval_async.cli.commands.evaluate import Asked, check_parts, evaluate_here, to_output
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.run import check_files, config_of, reference_of
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.helpers.text import tell
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.stream import evaluate_agent
from graphrag_eval_async.stream.http_agent import http_agent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts

OPTIONS_OF_FILES = {"format": None, "dedupe": "position", "shard": None, "jobs": 1}
"""Values of the options of `evaluate` that this command lacks."""


def parse_param(text: str) -> tuple[str, str]:
    """Return the name and the value of a parameter, written as ``NAME=TEXT``.

    Raises:
        ValueError: the name is missing, or ``=``.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(
            f"{text!r}: expected NAME=TEXT, such as dataset=https://example.org/films/"
        )
    return name, value


def parse_header(text: str) -> tuple[str, str]:
    """Return the name and the value of a header, written as ``NAME: VALUE``.

    Raises:
        ValueError: either is missing. The error does not quote them, since they may be secret.
    """
    name, _, value = text.partition(":")
    name = name.strip()
    value = value.strip()
    if not name or not value:
        raise ValueError("expected NAME: VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return name, value


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run the command."""
    _check_names("--param", given.param)
    _check_names("--header", given.header)

    body_path = None
    body = None
    if given.body is not None:
        body_path, body = given.body
    default_method = "GET" if body_path is None else "POST"
    agent = http_agent(
        given.url,
        method=given.method or default_method,
        params=dict(given.param),
        body=body,
        headers=dict(given.header),
        answer=given.answer or None,
        query=given.query or None,
        steps=given.steps or None,
        timeout=given.timeout,
        retries=given.retries,
    )

    # Without the user and the password in the address.
    host = urlsplit(given.url).netloc.rpartition("@")[2]
    given = given.replace(**OPTIONS_OF_FILES, body=body_path, source=host)
    check_parts(given)
    return to_output(given, partial(_ask, agent=agent, interrupts=interrupts))


def _check_names(option: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Raise a `UsageError` if two pairs of a name and a value have the same name."""
    names = {name for name, _ in pairs}
    if len(names) < len(pairs):
        raise UsageError(f"{option}: the same name is given twice")


def _ask(given: Given, *, agent: http_agent, interrupts: Interrupts) -> Exit:
    """Ask the agent each question, and evaluate the answers as they come."""
    config = config_of(given)
    reference = reference_of(given)
    check_files(given, config, given.body, pages=[given.report])
    check_gates(given, reference, config)

    until = None
    if given.until:
        tell(sys.stderr, "--until: questions are asked in random order, the same in each run")
        until = Until(given.until[0], given.level)
    return evaluate_here(
        given,
        reference,
        agent,
        config,
        interrupts,
        counted=reference,
        asked=Asked(len(reference) * given.repeats),
        make=evaluate_agent,
        max_concurrency=given.max_concurrency,
        repeats=given.repeats,
        retry_errors=given.retry_errors,
        until=until,
    )
