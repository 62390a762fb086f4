"""``validate``: what is wrong with a reference set, and with responses to it."""

import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar
from warnings import catch_warnings

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts, run_to_end
from graphrag_eval_async.cli.files import file_path, open_output
from graphrag_eval_async.cli.report import end
from graphrag_eval_async.config.load import load_part
from graphrag_eval_async.errors import GraphragEvalWarning, ReferenceDataError, UsageError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.records import Reject, Rejects
from graphrag_eval_async.records.aliases import names_by_alias, rename_steps, step_names
from graphrag_eval_async.reference import NoReference, Reference, load_reference, misnamed_steps
from graphrag_eval_async.sinks import LineFile
from graphrag_eval_async.sources import open_source
from graphrag_eval_async.stream import MAX_LINE_BYTES
from graphrag_eval_async.stream.spans import grouped
from graphrag_eval_async.text import describe, one_line, tell


@dataclass(frozen=True, kw_only=True)
class Validate:
    """List the problems of a reference set and of responses.

    Checks responses only if the reference set is valid. Evaluates nothing.
    """

    example: ClassVar = "validate reference.yaml responses.jsonl"

    reference: options.OptionalReferencePath = None
    responses: Annotated[str | None, options.RESPONSES] = None
    no_reference: options.NoReference = None
    strict: Annotated[
        bool,
        options.input_option(
            "--strict", help="Treat probable mistakes, such as unknown keys or names of steps, as problems."
        ),
    ] = False
    format: options.Format = None
    select: options.Select = None
    question_id: options.QuestionId = None
    failed: options.Failed
    step_name: options.StepNames
    config: Annotated[
        str | None,
        options.input_option(
            "--config",
            "-c",
            parser=options.parser(partial(file_path, what="the configuration")),
            metavar="FILE",
            help="Configuration whose key `aliases` has other names of steps.",
        ),
    ] = None
    max_line_bytes: options.MaxLineBytes = MAX_LINE_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        if self.no_reference is not None:
            if self.reference is not None:
                raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
            return self._check(NoReference(), self.no_reference, "no reference set", interrupts)
        if self.reference is None:
            raise UsageError("expected REFERENCE, or --no-reference RESPONSES")
        try:
            with catch_warnings(action="ignore", category=GraphragEvalWarning):  # They are listed below.
                reference = load_reference(self.reference, strict=self.strict)
        except ReferenceDataError as error:
            tell(sys.stdout, describe(error))
            if self.responses is not None:
                text = f"{self.responses}: not checked, since the reference set is broken"
                tell(sys.stdout, one_line(text))
            return Exit.USAGE
        for doubt in reference.doubts:
            tell(sys.stdout, one_line(f"warning: {doubt}"))
        valid = f"reference set valid (templates: {len(reference.templates)}, questions: {len(reference)})"
        if self.responses is None:
            tell(sys.stdout, valid)
            return Exit.OK
        return self._check(reference, self.responses, valid, interrupts)

    def _check(self, reference: Reference, responses: str, valid: str, interrupts: Interrupts) -> Exit:
        problems = open_output(LineFile, "-")
        rejects, answered = Rejects(), Counter[str]()
        names: defaultdict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
        reading = self._read(responses, reference, problems, rejects, answered, names)
        ending = run_to_end(reading, interrupts)
        summary = f"{valid}; responses: {answered.total()}, rejected lines: {rejects.total}"
        misnamed = None
        if ending.error is None and not interrupts.came:
            missing = [question_id for question_id in reference.questions if question_id not in answered]
            for question_id in missing:
                tell(sys.stdout, one_line(f"question {question_id!r}: no response"))
            if (misnamed := misnamed_steps(reference, names)) is not None:
                tell(sys.stdout, f"warning: {misnamed}")
            unanswered = f", questions without a response: {len(missing)}" if len(reference) else ""
            tell(sys.stdout, f"{summary}{unanswered}")
        else:
            tell(sys.stdout, f"{summary}, not all lines were read")
        code = end(ending, rejects)
        return Exit.USAGE if code == Exit.OK and self.strict and misnamed is not None else code

    async def _read(
        self,
        path: str,
        reference: Reference,
        problems: LineFile,
        rejects: Rejects,
        answered: Counter[str],
        names: Mapping[str, tuple[set[str], set[str]]],
    ) -> None:
        format_ = options.trace_format(
            self.format, self.select, self.question_id, self.failed, self.step_name
        )
        read = Evaluator(reference, format=format_).reader(self.max_line_bytes)
        aliases = load_part(self.config, "aliases").aliases if self.config is not None else {}
        known = reference.step_names
        meant = step_names(names_by_alias(aliases, known), known)
        source = open_source(path, max_line_bytes=self.max_line_bytes, documents=format_ is None)
        if format_ is not None:
            source = grouped(source, format_, reference, is_live=False)
        async with aclosing(source) as batches:
            async for batch in batches:
                for record in batch:
                    response = read(record)
                    if isinstance(response, Reject):
                        rejects.add(response, keep=False)
                        line = one_line(f"{response.path or path}: {response}")
                        await problems.send(line.encode(errors="backslashreplace") + b"\n")
                    else:
                        answered[response.question_id] += 1
                        if question := reference.questions.get(response.question_id):
                            rename_steps(response, known, meant)
                            steps = response.fields.get("actual_steps", ())
                            named = (step["name"] for step in steps if step.get("name") is not None)
                            names[question.template_id][0].update(named)
                            names[question.template_id][1].add(question.id)
