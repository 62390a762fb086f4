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
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.stream import evaluate_agent
from graphrag_eval_async.stream.http_agent import http_agent
from graphrag_eval_async.text import tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.command_table import Given
    from graphrag_eval_async.cli.exits import Exit, Interrupts

# Values of options of `evaluate` that this command lacks.
OF_FILES = {"format": None, "dedupe": "position", "shard": None, "jobs": 1}


def parse_param(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(
            f"{text!r}: expected NAME=TEXT, such as dataset=https://example.org/films/"
        )
    return name, value


def parse_header(text: str) -> tuple[str, str]:
    """The name and the value of a header; the error does not quote them, since they may be
    secret.
    """
    name, _, value = map(str.strip, text.partition(":"))
    if not (name and value):
        raise ValueError("expected NAME: VALUE, such as 'Authorization: Bearer ${TOKEN}'")
    return name, value


def run(given: Given, interrupts: Interrupts) -> Exit:
    """Run the command."""
    for name, pairs in {"--param": given.param, "--header": given.header}.items():
        if len(dict(pairs)) < len(pairs):
            raise UsageError(f"{name}: the same name is given twice")
    path, body = given.body or (None, None)
    agent = http_agent(
        given.url,
        method=given.method or ("GET" if path is None else "POST"),
        params=dict(given.param),
        body=body,
        headers=dict(given.header),
        answer=given.answer or None,
        query=given.query or None,
        steps=given.steps or None,
        timeout=given.timeout,
        retries=given.retries,
    )
    given = given.replace(
        **OF_FILES, body=path, source=urlsplit(given.url).netloc.rpartition("@")[2]
    )
    check_parts(given)
    return to_output(given, partial(_ask, agent=agent, interrupts=interrupts))


def _ask(given: Given, *, agent: http_agent, interrupts: Interrupts) -> Exit:
    config, reference = config_of(given), reference_of(given)
    check_files(given, config, given.body, pages=[given.report])
    check_gates(given, reference, config)
    asking = {name: getattr(given, name) for name in ("max_concurrency", "repeats", "retry_errors")}
    if given.until:
        tell(sys.stderr, "--until: questions are asked in random order, the same in each run")
        asking["until"] = Until(given.until[0], given.level)
    asking |= {"make": evaluate_agent, "asked": Asked(len(reference) * given.repeats)}
    return evaluate_here(given, reference, agent, config, interrupts, counted=reference, **asking)
