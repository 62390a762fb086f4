"""The reference set: questions, their answers and steps, read and checked once."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Raw

from graphrag_eval_async.catalogue.tags import uncounted_tags
from graphrag_eval_async.errors import ReferenceDataError, UsageError, warn_caller
from graphrag_eval_async.records.aliases import UNNAMED, misnamed, plain_name
from graphrag_eval_async.records.question import AnyQuestion
from graphrag_eval_async.reference.reading import Contents, read_templates
from graphrag_eval_async.steps import (
    PreparedStep,
    accepted_names,
    is_cypher_step,
    needs_execution,
    prepare_step,
)
from graphrag_eval_async.steps.answers import check_match
from graphrag_eval_async.text import did_you_mean

if TYPE_CHECKING:
    from graphrag_eval_async.records import Question
    from graphrag_eval_async.records.question import Matching
    from graphrag_eval_async.steps import Comparator

Templates = Sequence[Mapping[str, Any]]

KEPT_BYTES = 1 << 20
"""Prepared steps are cached for sets with up to this much JSON text."""

MAX_LISTED = 20
"""Maximum doubts in a warning; `Reference.doubts` has all."""


class Prepared(NamedTuple):
    """The reference steps of a question by group, and prepared for comparison."""

    steps: list[list[dict[str, Any]]]
    groups: list[list[PreparedStep]]
    has_values: bool = False  # Whether a step has `score: values_f1`.


class PreparedSteps:
    """Reference steps by question id, prepared on access; only of questions that have any.

    Steps of a large set are prepared each time. Caching them would make the garbage collector walk
    them all.
    """

    def __init__(
        self, questions: Mapping[str, Question], comparators: Mapping[str, Comparator] | None
    ) -> None:
        self._questions = questions
        self._comparators = comparators
        self._kept: dict[str, Prepared] = {}
        self.keeps_steps = sum(each.size for each in questions.values()) <= KEPT_BYTES

    def __getitem__(self, question_id: str) -> Prepared:
        if (kept := self._kept.get(question_id)) is not None:
            return kept
        if (steps := self._questions[question_id].reference_steps) is None:
            raise KeyError(question_id)
        groups = [[prepare_step(step, self._comparators) for step in group] for group in steps]
        has_values = any(step.as_values for group in groups for step in group)
        prepared = Prepared(steps, groups, has_values)
        if self.keeps_steps:
            self._kept[question_id] = prepared
        return prepared


class Reference:
    """A reference set that has been checked; immutable, so one serves any number of streams.

    Attributes:
        questions: every question by its id, in the order of the reference set.
        templates: the template ids, in that order.
        step_names: the names of the reference steps, and of the actual steps that these can match.
        comparators: your own comparison of steps, by name of reference step.
        doubts: what is probably a mistake, such as an unknown key, each with its place.
    """

    __slots__ = (
        "_contents",
        "comparators",
        "doubts",
        "prepared",
        "questions",
        "step_names",
        "templates",
    )

    def __init__(
        self,
        templates: Templates | Raw,
        *,
        source: str | None = None,
        comparators: Mapping[str, Comparator] | None = None,
    ) -> None:
        """Check and copy template dicts, laid out as in a YAML or JSON file.

        Args:
            templates: the dicts.
            source: names their file in errors.
            comparators: your own comparison of steps, by name of reference step; see `Evaluator`.
                The output of such a step may be anything.

        Raises:
            ReferenceDataError: with the first problem of each question.
        """
        contents = read_templates(templates, comparators or {})
        if source is not None and (contents.problems or contents.doubts):
            # YAML takes long to import
            from graphrag_eval_async.records.yaml_file import (
                with_lines,
            )

            contents.problems = with_lines(contents.problems, Path(source))
            contents.doubts = with_lines(contents.doubts, Path(source))
        if contents.problems:
            raise ReferenceDataError(contents.problems, source)
        contents.doubts += idle_comparators(contents.comparators, contents.step_names)
        contents.doubts += uncounted_tags({tag for tags in contents.tags for tag in tags})
        self.__setstate__(contents)

    def __getstate__(self) -> Contents:
        return self._contents

    def __setstate__(self, contents: Contents) -> None:
        self._contents = contents
        self.questions: Mapping[str, Question] = MappingProxyType(contents.questions)
        self.templates = tuple(contents.templates)
        self.step_names = frozenset(contents.step_names).union(
            *map(accepted_names, contents.step_names)
        )
        self.comparators = contents.comparators
        self.prepared = PreparedSteps(contents.questions, contents.comparators)
        self.doubts = tuple(contents.doubts)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions.values())

    def __repr__(self) -> str:
        return f"<Reference: {len(self.templates)} templates, {len(self)} questions>"


class StepNames:
    """Names of the reference steps that results hold, in place of a `Reference` for
    `misnamed_steps`.
    """

    def __init__(self) -> None:
        self.step_names: set[str] = set()
        self.last_names: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, result: Mapping[str, Any]) -> None:
        """Take the names of a result that was counted, whatever its reference steps are."""
        last: set[str] = set()
        with suppress(AttributeError, TypeError):
            for group in result.get("reference_steps") or ():
                last = {name for step in group if isinstance(name := step.get("name"), str)}
                self.step_names |= last
            self.last_names[result["template_id"]] |= last


def misnamed_steps(
    reference: Reference | StepNames, seen: Mapping[str, tuple[Collection[str], Collection[str]]]
) -> str | None:
    """Return a warning if no actual step has the name of a reference step, but agents use other
    tools.

    `seen` are the names of actual steps, and the ids of answered questions, by template. Reference
    steps count if they are in the last group of an answered question of a template in which there
    are other tools.
    """
    known = {UNNAMED, *map(plain_name, reference.step_names)}
    actual = frozenset(plain_name(name) for names, _ in seen.values() for name in names)
    accepted = {name: accepted_names(name) for name in sorted(reference.step_names)}
    unseen = {
        name: own for name, own in accepted.items() if actual.isdisjoint(map(plain_name, own))
    }
    tools: set[str] = set()
    expected: dict[str, str] = {}
    for template, (own, answered) in seen.items() if unseen else ():
        if others := [name for name in own if plain_name(name) not in known]:
            tools.update(others)
            found = [name for name in unseen if _expects(reference, name, template, answered)]
            expected |= {name: min(unseen[name]) for name in found}
    return misnamed(dict(sorted(expected.items())), tools) if expected else None


def _expects(
    reference: Reference | StepNames, name: str, template: str, answered: Iterable[str]
) -> bool:
    """Whether the last group of an answered question of a template has a step of this name."""
    if isinstance(reference, StepNames):
        return name in reference.last_names[template]
    last_names = reference._contents.last_names
    for question in () if last_names else reference:
        names = {step["name"] for group in (question.reference_steps or ())[-1:] for step in group}
        last_names.setdefault(question.template_id, set()).update(names)
    if name not in last_names.get(template, ()):
        return False
    found = (reference.questions[each] for each in answered if each in reference.questions)
    return any(
        step["name"] == name for each in found for step in (each.reference_steps or [[]])[-1]
    )


def idle_comparators(comparators: Collection[str], names: Collection[str]) -> list[str]:
    """Say which comparators are for none of the reference steps, which have these names."""
    return [
        (
            f"comparators[{name!r}]: no reference step has this name; "
            f"{did_you_mean(name, sorted(names))}"
        )
        for name in comparators
        if name not in names
    ]


def check_outputs(reference: Reference, *, runs_sparql: bool, runs_cypher: bool) -> None:
    """Check that each step has an output, or a query that is run.

    Args:
        reference: the reference set.
        runs_sparql: whether SPARQL queries are run.
        runs_cypher: whether Cypher queries are run.

    Raises:
        ReferenceDataError: a step has only a query, and that is not run.
    """
    if not reference._contents.lacks_output:
        return
    problems = []
    for question in reference:
        for group_index, group in enumerate(question.reference_steps or ()):
            for index, step in enumerate(group):
                is_cypher = is_cypher_step(step)
                is_run = runs_cypher if is_cypher else runs_sparql
                if not is_run and needs_execution(step):
                    language = "Cypher" if is_cypher else "SPARQL"
                    place = f"reference_steps[{group_index}][{index}].output"
                    problems.append(
                        f"question {question.id!r}: {place}: missing; `execute` in the "
                        f"configuration says where its reference_query, in {language}, is run"
                    )
    if problems:
        raise ReferenceDataError(problems)


def check_matches(reference: Reference, match: Matching, tolerance: float | None) -> None:
    """Raise a `ReferenceDataError` if reference answers cannot be matched as a configuration
    says.
    """
    problems = []
    for question in reference:
        if question.match is None and question.reference_answer is not None:
            try:
                check_match(match, question.reference_answer, tolerance)
            except ValueError as error:
                cure = "a `match` of its own would come before that of the configuration"
                problems.append(f"question {question.id!r}: {error}; {cure}")
    if problems:
        raise ReferenceDataError(problems)


class NoReference(Reference):
    """Stands for a reference set if there is none: each response names its own question."""

    __slots__ = ()

    def __init__(self) -> None:
        self.__setstate__(Contents({}))
        self.questions = AnyQuestion()

    def __reduce__(self) -> Any:
        return NoReference, ()


def load_reference(
    reference: str | os.PathLike[str] | Templates | Reference,
    *,
    comparators: Mapping[str, Comparator] | None = None,
    strict: bool = False,
    format: Literal["text2sparql", "qald"] | None = None,  # noqa: A002  (as users name it)
    language: str | None = None,
    score: str | None = None,
) -> Reference:
    """Load a reference set from a path to YAML or JSON (by its suffix), or from template dicts.

    Args:
        reference: the path or the dicts; a `Reference` is returned as it is.
        comparators: your own comparison of steps, by name of reference step; see `Reference`.
        strict: whether what is probably a mistake, such as an unknown key, is an error rather than
            a `GraphragEvalWarning`.
        format: of the file of a public benchmark: "text2sparql", or "qald" for QALD-9 and QALD-10.
        language: with `format`: of the questions. Default: all of "text2sparql", English ("en") of
            "qald".
        score: with `format`: the `score` of the steps with SELECT and ASK: "exact", "f1" or
            "values_f1".

    Raises:
        ReferenceDataError: it cannot be read, or is invalid; the first problem of each question is
            listed.
        UsageError: an argument has an invalid value.
    """
    if format is not None:
        # YAML takes long to import
        from graphrag_eval_async.reference.benchmarks import (
            read_benchmark,
        )

        reference = read_benchmark(reference, format, language=language, score=score)
    elif language is not None or score is not None:
        raise UsageError(
            f"{'score' if language is None else 'language'}: only for benchmarks, with `format`"
        )
    try:
        read = reference if isinstance(reference, Reference) else _read(reference, comparators)
    except ReferenceDataError as error:
        if _holds_responses(reference):
            swapped = "holds responses or results; give the reference set first, then the responses"
            raise ReferenceDataError([swapped], error.source) from None
        raise
    source = os.fspath(reference) if isinstance(reference, str | os.PathLike) else None
    if strict and read.doubts:
        raise ReferenceDataError(read.doubts, source)
    if read.doubts and read is not reference:
        listed = [*read.doubts[:MAX_LISTED]]
        if len(read.doubts) > MAX_LISTED:
            listed.append(f"... and {len(read.doubts) - MAX_LISTED} more")
        where = f" {source}" if source else ""
        warn_caller("\n  ".join([f"reference set{where}:", *listed]))
    return read


def _holds_responses(reference: Any) -> bool:
    """Whether what was given as a reference set begins with a response or a result."""
    if isinstance(reference, str | os.PathLike):
        with suppress(OSError, ValueError):
            text = Path(reference).read_bytes()
            return b'"question_id"' in text and b'"questions"' not in text
    return isinstance(reference, list) and "'question_id'" in repr(reference[:1])[:1000]


def _read(
    reference: str | os.PathLike[str] | Templates, comparators: Mapping[str, Comparator] | None
) -> Reference:
    if not isinstance(reference, str | os.PathLike):
        return Reference(reference, comparators=comparators)
    from graphrag_eval_async.records.yaml_file import (
        UnreadableFile,
        check_keys,
        read_bytes,
        read_yaml,
    )

    source = os.fspath(reference)
    try:
        text = read_bytes(source)
        if source.endswith(".json"):
            check_keys(text)
        given = Raw(text) if source.endswith(".json") else read_yaml(text)
        return Reference(given, source=source, comparators=comparators)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error
