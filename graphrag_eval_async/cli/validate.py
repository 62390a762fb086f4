"""``validate``: what is wrong with a reference set, and with responses to it."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import Exit, run_to_end
from graphrag_eval_async.cli.files import open_output
from graphrag_eval_async.cli.text import describe, one_line, tell
from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records import Reject, read_record
from graphrag_eval_async.reference import load_reference
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import open_source

if TYPE_CHECKING:
    from graphrag_eval_async.cli.exits import Interrupts
    from graphrag_eval_async.records import Response
    from graphrag_eval_async.reference import Reference


def validate(
    reference_path: str, responses: str | None, interrupts: Interrupts, *, max_line_bytes: int
) -> Exit:
    """Run the command.

    Raises:
        UsageError: standard output is closed.
    """
    problems = open_output(LineFile, "-")
    try:
        reference = load_reference(reference_path)
    except ReferenceDataError as error:
        tell(sys.stdout, describe(error))
        if responses is not None:
            tell(sys.stdout, one_line(f"{responses}: not checked, since the reference data is broken"))
        return Exit.USAGE
    valid = f"reference data valid (templates: {len(reference.templates)}, questions: {len(reference)})"
    if responses is None:
        tell(sys.stdout, valid)
        return Exit.OK
    check = _Check(reference, problems)
    ending = run_to_end(check.read(responses, max_line_bytes), interrupts)
    summary = f"{valid}; responses: {check.responses}, rejected lines: {check.rejected}"
    tell(sys.stdout, f"{summary}, {_missing(check, reference)}")
    if ending.error is not None:
        tell(sys.stderr, f"Error: {describe(ending.error)}")
    return ending.code(rejects=check.rejected > 0)


def _missing(check: _Check, reference: Reference) -> str:
    """Lists the questions without a response, if that is known; how many there are, as text."""
    if not check.complete:
        return "not all lines were read"
    missing = [question_id for question_id in reference.questions if question_id not in check.answered]
    for question_id in missing:
        tell(sys.stdout, one_line(f"question {question_id!r}: no response"))
    return f"questions without a response: {len(missing)}"


class _Check:
    """Reads responses and writes down what is wrong with them."""

    def __init__(self, reference: Reference, problems: LineFile) -> None:
        self._questions = reference.questions
        self._problems = problems
        self.answered: set[str] = set()
        self.responses = 0
        self.rejected = 0
        self.complete = False

    async def read(self, responses: str, max_line_bytes: int) -> None:
        async with aclosing(open_source(responses, max_line_bytes=max_line_bytes, spool=False)) as batches:
            async for batch in batches:
                for record in batch:
                    await self._add(read_record(record, self._questions), responses)
        self.complete = True

    async def _add(self, response: Response | Reject, responses: str) -> None:
        if isinstance(response, Reject):
            self.rejected += 1
            line = one_line(f"{response.path or responses}: {response}").encode(errors="backslashreplace")
            await self._problems.send(line + b"\n")
        else:
            self.responses += 1
            self.answered.add(response.question_id)
