"""``validate``: lists what is wrong with a reference set and with responses."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from warnings import catch_warnings

from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.records import read_records
from graphrag_eval_async.cli.run import TraceOptions, make_trace_format
from graphrag_eval_async.cli.run_summary import end
from graphrag_eval_async.config.load import load_part
from graphrag_eval_async.errors import (
    GraphragEvalWarning,
    ReferenceDataError,
    UsageError,
    plural,
)
from graphrag_eval_async.helpers.text import one_line, tell
from graphrag_eval_async.records import Reject, Rejects, read_record
from graphrag_eval_async.records.aliases import names_by_alias, rename_steps, step_names
from graphrag_eval_async.records.reject import KEPT_REJECTS
from graphrag_eval_async.reference import NoReference, Reference, load_reference, misnamed_steps
from graphrag_eval_async.traces.format import format_for, record_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphrag_eval_async.records import Record, Response

SHOWN_QUESTIONS = 3
"""How many of the questions without a response are named; the others are counted."""

SHOWN_LINES = 3
"""How many of the lines that are rejected for the same reason are named; the others are counted."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
"""A part of a message that differs among lines with the same mistake, such as an id."""


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(TraceOptions):
    """The options of ``validate``."""

    reference: str | None
    responses: str | None
    no_reference: str | None
    strict: bool
    config: str | None


def run(options: ValidateOptions, interrupts: Interrupts) -> Exit:
    """Check a reference set and, if it is valid and there are responses, the responses."""
    if options.config is not None:
        _check_ragas_metrics(options.config)
    if options.no_reference is not None:
        if options.reference is not None:
            raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
        check = ResponsesCheck(options, NoReference())
        return check.run(options.no_reference, interrupts, headline="no reference set")
    if options.reference is None:
        raise UsageError("expected REFERENCE, or --no-reference RESPONSES")

    try:
        # `load_reference` warns of doubts, which are listed below.
        with catch_warnings(action="ignore", category=GraphragEvalWarning):
            reference = load_reference(options.reference, strict=options.strict)
    except ReferenceDataError as error:
        tell(sys.stdout, one_line(error.headline))
        for problem in error.problems:
            tell(sys.stdout, f"  {one_line(problem)}")
        _list_doubts(error.doubts)
        return Exit.USAGE

    _list_doubts(reference.doubts)
    if not reference.questions:
        tell(sys.stdout, "warning: there are no questions")
    headline = (
        f"reference set valid (templates: {len(reference.templates)}, questions: {len(reference)})"
    )
    if options.responses is None:
        tell(sys.stdout, headline)
        return Exit.OK
    return ResponsesCheck(options, reference).run(options.responses, interrupts, headline=headline)


def _list_doubts(doubts: Sequence[str]) -> None:
    """Print each probable mistake in a reference set."""
    for doubt in doubts:
        tell(sys.stdout, one_line(f"warning: {doubt}"))


def _check_ragas_metrics(path: str) -> None:
    """Check the metrics of ragas in a configuration file, as a run would.

    Raises:
        ConfigError: ragas is not installed, or a metric cannot be made.
    """
    sections = load_part(path, "ragas").ragas_metrics
    if sections:
        # It imports ragas, which takes seconds.
        from graphrag_eval_async.metrics.ragas_lookup import make_ragas_metrics

        make_ragas_metrics(sections)


class EqualRejects:
    """Lines of a file that are rejected for the same reason."""

    def __init__(self, path: str, first: Reject) -> None:
        """Begin with the first line of a file that is rejected for the reason."""
        self._path = path
        self._first = first
        self._further_places: list[str] = []
        self._count = 1

    def add(self, reject: Reject) -> None:
        """Add a line; the places of the first `SHOWN_LINES` are kept."""
        self._count += 1
        if self._count <= SHOWN_LINES:
            place = f"line {reject.line}" if reject.line else f"byte {reject.offset}"
            self._further_places.append(place)

    def __str__(self) -> str:
        # A long message must not hide how many lines have it.
        text = one_line(f"{self._path}: {self._first}")
        if self._count == 1:
            return text
        text += f"; in {self._count} lines, also {', '.join(self._further_places)}"
        if self._count > SHOWN_LINES:
            text += f" and {self._count - SHOWN_LINES} more"
        return text


class ResponsesCheck:
    """Checks responses, or traces with responses, against a reference set."""

    def __init__(self, options: ValidateOptions, reference: Reference) -> None:
        """Prepare to check.

        Args:
            options: the options of the command.
            reference: the reference set; `NoReference` if there is none.
        """
        self._reference = reference
        self._is_strict = options.strict
        self._trace_format = make_trace_format(options)
        self._rejects = Rejects()
        # Those that are the same mistake in a file, under the file, the reason and the message.
        self._equal_rejects: dict[tuple[str, str, str], EqualRejects] = {}
        self._responses_by_question = Counter[str]()
        # For each template, the names of steps that agents executed, and the ids of the questions
        # that they answered.
        self._seen: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(
            lambda: (set(), set())
        )

        questions = reference.questions
        self._read: Callable[[Record], Response | Reject]
        if self._trace_format is None:
            self._read = partial(read_record, questions=questions)
        else:
            self._read = record_reader(format_for(questions, self._trace_format), questions)

        aliases = {}
        if options.config is not None:
            aliases = load_part(options.config, "aliases").aliases
        reference_names = reference.step_names
        name_by_alias = names_by_alias(aliases, reference_names)
        self._names_by_step = step_names(name_by_alias, reference_names, ())

    def run(self, path: str, interrupts: Interrupts, *, headline: str) -> Exit:
        """Print why responses of a file are invalid, and then how many responses it has.

        Args:
            path: the file with the responses.
            interrupts: signals that end the command early.
            headline: beginning of the last line, about the reference set.

        Returns:
            The exit code of the command.
        """

        async def check(record: Record) -> None:
            """Count a valid response, or note why a record is rejected."""
            response = self._read(record)
            if isinstance(response, Reject):
                self._add_reject(response, path)
            else:
                self._count(response)

        reading = read_records(path, self._trace_format, self._reference, check)
        ending = run_to_end(reading, interrupts)
        for equal_rejects in self._equal_rejects.values():
            tell(sys.stdout, str(equal_rejects))

        summary = f"{headline}; responses: {self._responses_by_question.total()}"
        summary += f", rejected lines: {self._rejects.total}"
        misnamed = None
        if ending.is_complete:
            missing = self._list_missing_responses()
            # This is a warning about steps whose names the reference set does not have, or None.
            misnamed = misnamed_steps(self._reference, self._seen)
            if misnamed is not None:
                tell(sys.stdout, f"warning: {misnamed}")
            if len(self._reference):
                summary += f", questions without a response: {missing}"
        else:
            summary += ", not all lines were read"
        tell(sys.stdout, summary)

        code = end(ending, self._rejects)
        if code == Exit.OK and self._is_strict and misnamed is not None:
            return Exit.USAGE
        return code

    def _add_reject(self, reject: Reject, path: str) -> None:
        """Count a reject, together with those that are the same mistake.

        Args:
            reject: the reject.
            path: path of its file, if the reject has none.
        """
        self._rejects.add(reject, keep=False)
        path = reject.path or path
        group = (path, reject.reason, _QUOTED.sub("", reject.message))
        if group in self._equal_rejects:
            self._equal_rejects[group].add(reject)
        elif len(self._equal_rejects) < KEPT_REJECTS:
            self._equal_rejects[group] = EqualRejects(path, reject)
        else:
            # So that memory stays bounded, further mistakes are printed at once.
            tell(sys.stdout, one_line(f"{path}: {reject}"))

    def _count(self, response: Response) -> None:
        """Count a valid response, and note which steps it executed for which template."""
        self._responses_by_question[response.question_id] += 1
        question = self._reference.questions.get(response.question_id)
        if question is None:
            return
        # Aliases in the configuration file rename steps in place.
        rename_steps(response, self._reference.step_names, self._names_by_step)
        names, answered_questions = self._seen[question.template_id]
        for step in response.fields.get("actual_steps", ()):
            if step.get("name") is not None:
                names.add(step["name"])
        answered_questions.add(question.id)

    def _list_missing_responses(self) -> int:
        """Print the number of questions without a response, with examples.

        Returns:
            The number.
        """
        missing = [
            question_id
            for question_id in self._reference.questions
            if question_id not in self._responses_by_question
        ]
        if missing:
            examples = ", ".join(repr(question_id) for question_id in missing[:SHOWN_QUESTIONS])
            if len(missing) > SHOWN_QUESTIONS:
                examples += f" and {len(missing) - SHOWN_QUESTIONS} more"
            count = plural(len(missing), "question")
            tell(sys.stdout, one_line(f"{count} without a response: {examples}"))
        return len(missing)
