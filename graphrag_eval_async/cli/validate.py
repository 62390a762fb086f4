"""``validate``: what is wrong with a reference set, and with responses to it."""

import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import open_output
from graphrag_eval_async.cli.report import tell_error
from graphrag_eval_async.cli.text import describe, one_line, tell
from graphrag_eval_async.errors import ReferenceDataError
from graphrag_eval_async.records import Reject, Response, read_record
from graphrag_eval_async.reference import Reference, load_reference
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream import MAX_LINE_BYTES


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

    def missing(self) -> str:
        """List the questions without a response, if that is known; returns how many there are, as text."""
        if not self.complete:
            return "not all lines were read"
        missing = [question_id for question_id in self._questions if question_id not in self.answered]
        for question_id in missing:
            tell(sys.stdout, one_line(f"question {question_id!r}: no response"))
        return f"questions without a response: {len(missing)}"


@dataclass(frozen=True, kw_only=True)
class Validate:
    """List all problems; evaluate nothing.

    They are those of the reference data or, where it has none, those of the responses.
    """

    reference: options.ReferencePath
    responses: Annotated[str | None, options.RESPONSES] = None
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        """Run the command.

        Raises:
            UsageError: standard output is closed.
        """
        problems = open_output(LineFile, "-")
        try:
            reference = load_reference(self.reference)
        except ReferenceDataError as error:
            tell(sys.stdout, describe(error))
            if self.responses is not None:
                tell(
                    sys.stdout, one_line(f"{self.responses}: not checked, since the reference data is broken")
                )
            return Exit.USAGE
        valid = f"reference data valid (templates: {len(reference.templates)}, questions: {len(reference)})"
        if self.responses is None:
            tell(sys.stdout, valid)
            return Exit.OK
        check = _Check(reference, problems)
        ending = run_to_end(check.read(self.responses, self.max_line_bytes), interrupts)
        summary = f"{valid}; responses: {check.responses}, rejected lines: {check.rejected}"
        tell(sys.stdout, f"{summary}, {check.missing()}")
        tell_error(ending)
        return ending.code(rejects=check.rejected > 0)
