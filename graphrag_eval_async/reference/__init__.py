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
from graphrag_eval_async.reference.contents import Contents
from graphrag_eval_async.reference.reading import read_templates
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

MAX_CACHED_BYTES = 1 << 20
"""Prepared steps are cached for sets with up to this many bytes of encoded steps."""

MAX_LISTED = 20
"""Maximum doubts in a warning; `Reference.doubts` has all."""

MAX_CHARACTERS_OF_RESPONSE = 1000
"""How many characters of a dict are searched for the key that only responses have."""


class Prepared(NamedTuple):
    """The reference steps of a question by group, and the same steps prepared for comparison."""

    steps: list[list[dict[str, Any]]]
    groups: list[list[PreparedStep]]
    has_values: bool = False  # Whether a step has `score: values_f1`.


class PreparedSteps:
    """Reference steps by question id, prepared for comparison when they are accessed.

    The prepared steps of a small set are cached. Steps of a large set are prepared each time, since
    the garbage collector would visit all cached steps again and again.
    """

    def __init__(
        self, questions: Mapping[str, Question], comparators: Mapping[str, Comparator] | None
    ) -> None:
        self._questions = questions
        self._comparators = comparators
        self._cache: dict[str, Prepared] = {}
        encoded_bytes = sum(question.size for question in questions.values())
        self.keeps_steps = encoded_bytes <= MAX_CACHED_BYTES

    def __getitem__(self, question_id: str) -> Prepared:
        """Return the prepared steps of a question, from the cache if the set is small.

        Raises:
            KeyError: there is no question with this id, or the question has no reference steps.
        """
        cached = self._cache.get(question_id)
        if cached is not None:
            return cached

        steps = self._questions[question_id].reference_steps
        if steps is None:
            raise KeyError(question_id)
        groups = [[prepare_step(step, self._comparators) for step in group] for group in steps]
        has_values = any(step.as_values for group in groups for step in group)
        prepared = Prepared(steps, groups, has_values)
        if self.keeps_steps:
            self._cache[question_id] = prepared
        return prepared


class Reference:
    """A checked reference set. It is immutable, so any number of streams can share it.

    Attributes:
        questions: every question by its id, in the order of the reference set.
        templates: the template ids, in the order of the reference set.
        step_names: the names of the reference steps, and of the actual steps that match these.
        comparators: your own comparison of steps, by name of reference step.
        doubts: probable mistakes, such as an unknown key, each with its place.
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
        """Check and copy template dicts, which have the layout of a YAML or JSON file.

        Args:
            templates: the dicts, or the text of a JSON file.
            source: path of the file, for errors; None if the dicts are from no file.
            comparators: your own comparison of steps, by name of reference step; see `Evaluator`.
                The output of such a step may be anything.

        Raises:
            ReferenceDataError: the templates are invalid. The error lists the first problem of each
                question.
        """
        contents = read_templates(templates, comparators or {})
        if source is not None and (contents.problems or contents.doubts):
            # This module also imports YAML, which takes long.
            from graphrag_eval_async.records.yaml_file import with_lines

            contents.problems = with_lines(contents.problems, Path(source))
            contents.doubts = with_lines(contents.doubts, Path(source))
        if contents.problems:
            raise ReferenceDataError(contents.problems, source)

        contents.doubts += idle_comparators(contents.comparators, contents.step_names)
        different_tags = {tag for tags in contents.tags for tag in tags}
        contents.doubts += uncounted_tags(different_tags)
        # The attributes are set from the contents, as they are after unpickling.
        self.__setstate__(contents)

    def __getstate__(self) -> Contents:
        """Return the contents, which are all that is pickled; see `__setstate__`."""
        return self._contents

    def __setstate__(self, contents: Contents) -> None:
        """Set all attributes from valid contents, which come from a pickle or from `__init__`."""
        self._contents = contents
        self.questions: Mapping[str, Question] = MappingProxyType(contents.questions)
        self.templates = tuple(contents.templates)

        step_names = set(contents.step_names)
        for name in contents.step_names:
            step_names.update(accepted_names(name))
        self.step_names = frozenset(step_names)

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
    """Names of the reference steps in results, for `misnamed_steps` without a `Reference`."""

    def __init__(self) -> None:
        self.step_names: set[str] = set()
        # Names of the steps in the last groups of a template's questions.
        self.last_names: defaultdict[str, set[str]] = defaultdict(set)

    def add(self, result: Mapping[str, Any]) -> None:
        """Add the names of a result's reference steps.

        The result may come from another program. At the first step that has another form, the rest
        of the result is skipped without an error.
        """
        with suppress(AttributeError, TypeError):
            names_in_group: set[str] = set()
            for group in result.get("reference_steps") or ():
                names = [step.get("name") for step in group]
                names_in_group = {name for name in names if isinstance(name, str)}
                self.step_names |= names_in_group
            # After the loop, `names_in_group` has the names in the last group.
            self.last_names[result["template_id"]] |= names_in_group


def misnamed_steps(
    reference: Reference | StepNames, seen: Mapping[str, tuple[Collection[str], Collection[str]]]
) -> str | None:
    """Return a warning if agents seem to call reference steps by other names.

    The warning names each reference step that

    - no actual step matches by name, and
    - is in the last group of a question that was answered, in a template for which agents used
      tools that are no reference steps.

    Args:
        reference: the reference set, or the names of steps in results.
        seen: by template, the names of actual steps, and the ids of answered questions.

    Returns:
        None if there is no such reference step.
    """
    # The reference steps that no agent executed, with the names of actual steps that would match.
    actual_names = {plain_name(name) for names, _ in seen.values() for name in names}
    accepted_by_unseen_step: dict[str, frozenset[str]] = {}
    for step_name in sorted(reference.step_names):
        accepted = accepted_names(step_name)
        if actual_names.isdisjoint(map(plain_name, accepted)):
            accepted_by_unseen_step[step_name] = accepted
    if not accepted_by_unseen_step:
        return None

    # Of these steps, those that an answered question expects where agents used other tools.
    reference_names = {UNNAMED, *map(plain_name, reference.step_names)}
    tools: set[str] = set()
    alias_targets: dict[str, str] = {}
    for template_id, (names, answered_questions) in seen.items():
        tools_of_template = [name for name in names if plain_name(name) not in reference_names]
        if not tools_of_template:
            continue
        tools.update(tools_of_template)
        for step_name, accepted in accepted_by_unseen_step.items():
            if _is_expected(step_name, reference, template_id, answered_questions):
                alias_targets[step_name] = min(accepted)
    if not alias_targets:
        return None
    return misnamed(dict(sorted(alias_targets.items())), tools)


def _is_expected(
    step_name: str,
    reference: Reference | StepNames,
    template_id: str,
    answered_questions: Iterable[str],
) -> bool:
    """Return whether an answered question of a template expects a step of this name.

    Only the last group of a question's steps counts. `StepNames` does not tell questions apart, so
    any question of the template counts there.
    """
    if isinstance(reference, StepNames):
        return step_name in reference.last_names[template_id]

    # The cached names of a template exclude most steps, without decoding questions again.
    if step_name not in _last_names(reference).get(template_id, ()):
        return False
    for question_id in answered_questions:
        question = reference.questions.get(question_id)
        if question is not None and step_name in _names_in_last_group(question):
            return True
    return False


def _last_names(reference: Reference) -> dict[str, set[str]]:
    """Return the names of steps in the last groups of questions, by template.

    The names are collected at the first call, and cached in the contents of the reference set.
    """
    last_names = reference._contents.last_names
    if not last_names:
        for question in reference:
            names = last_names.setdefault(question.template_id, set())
            names.update(_names_in_last_group(question))
    return last_names


def _names_in_last_group(question: Question) -> set[str]:
    """Return the names of the steps in a question's last group; empty if there is no group."""
    groups = question.reference_steps
    if not groups:
        return set()
    return {step["name"] for step in groups[-1]}


def idle_comparators(comparators: Collection[str], step_names: Collection[str]) -> list[str]:
    """Return a warning for each comparator whose name no reference step has.

    Args:
        comparators: the names for which the caller has comparators.
        step_names: the names of the reference steps.
    """
    warnings = []
    for name in comparators:
        if name not in step_names:
            suggestion = did_you_mean(name, sorted(step_names))
            warnings.append(f"comparators[{name!r}]: no reference step has this name; {suggestion}")
    return warnings


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
        return  # No step lacks its output, so no question needs to be decoded.
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
    """Check that reference answers can be matched with the `match` of a configuration.

    Questions with their own `match` are left out, since they were checked when they were read.

    Args:
        reference: the reference set.
        match: how the configuration matches answers.
        tolerance: the maximum difference of numbers in the configuration; None for the default.

    Raises:
        ReferenceDataError: answers cannot be matched. The error lists each of them.
    """
    problems = []
    for question in reference:
        if question.match is not None or question.reference_answer is None:
            continue
        try:
            check_match(match, question.reference_answer, tolerance)
        except ValueError as error:
            problems.append(
                f"question {question.id!r}: {error}; "
                "a `match` of its own would come before that of the configuration"
            )
    if problems:
        raise ReferenceDataError(problems)


class NoReference(Reference):
    """Stands for a missing reference set. Each response brings its own question."""

    __slots__ = ()

    def __init__(self) -> None:
        empty_contents = Contents(comparators={})
        self.__setstate__(empty_contents)
        self.questions = AnyQuestion()

    def __reduce__(self) -> Any:
        """Make pickle create a new object, since this object has no state to save."""
        return NoReference, ()


def load_reference(
    reference: str | os.PathLike[str] | Templates | Reference,
    *,
    comparators: Mapping[str, Comparator] | None = None,
    strict: bool = False,
    format: Literal["text2sparql", "qald", "qald-9-plus", "webqsp"] | None = None,  # noqa: A002  (as users name it)
    language: str | None = None,
    score: str | None = None,
) -> Reference:
    """Load a reference set from a path to YAML or JSON (by its suffix), or from template dicts.

    Args:
        reference: the path or the dicts; a `Reference` is returned as it is.
        comparators: your own comparison of steps, by name of reference step; see `Reference`.
        strict: whether a probable mistake, such as an unknown key, is an error rather than a
            `GraphragEvalWarning`.
        format: format of a public benchmark's file: "text2sparql", "qald" for QALD-9 and QALD-10,
            "qald-9-plus" or "webqsp". None means that the reference set is in our own format.
            `import_questions` reads the files of other benchmarks.
        language: language of the questions to load from a benchmark. By default, questions of
            "text2sparql" are loaded in all languages, and others in English ("en").
        score: `score` of a benchmark's steps with SELECT and ASK: "exact", "f1" or "values_f1".

    Raises:
        ReferenceDataError: the set cannot be read, or is invalid. The error lists the first problem
            of each question.
        UsageError: an argument has an invalid value.
    """
    if format is not None:
        # This module also imports YAML, which takes long.
        from graphrag_eval_async.reference.benchmarks import read_benchmark

        reference = read_benchmark(reference, format, language=language, score=score)
    elif language is not None:
        raise UsageError("language: only for benchmarks, with `format`")
    elif score is not None:
        raise UsageError("score: only for benchmarks, with `format`")

    loaded = reference if isinstance(reference, Reference) else _read(reference, comparators)

    if loaded.doubts:
        source = None
        if isinstance(reference, str | os.PathLike):
            source = os.fspath(reference)
        if strict:
            raise ReferenceDataError(loaded.doubts, source)
        if loaded is not reference:
            # If the caller has loaded the set, its doubts were reported then.
            _warn_of_doubts(loaded.doubts, source)
    return loaded


def _read(
    reference: str | os.PathLike[str] | Templates, comparators: Mapping[str, Comparator] | None
) -> Reference:
    """Read a reference set from a file or from dicts.

    Raises:
        ReferenceDataError: the set cannot be read, or is invalid. If it holds responses, which
            users often pass by mistake, the error says only that.
    """
    try:
        return _read_file_or_dicts(reference, comparators)
    except ReferenceDataError as error:
        advice = _advice_on_other_file(reference)
        if advice is None:
            raise
        raise ReferenceDataError([advice], error.source) from None


def _advice_on_other_file(reference: str | os.PathLike[str] | Templates) -> str | None:
    """Return what to do with something that users often pass in place of a reference set.

    None if it holds neither responses nor the questions of a benchmark that is known.
    """
    if _holds_responses(reference):
        return "holds responses or results; give the reference set first, then the responses"
    if isinstance(reference, str | os.PathLike):
        # It imports the readers of benchmarks, which take long.
        from graphrag_eval_async.reference.benchmarks.recognition import recognize_file

        recognized = recognize_file(os.fspath(reference))
        if recognized is not None:
            return recognized.message
    return None


def _read_file_or_dicts(
    reference: str | os.PathLike[str] | Templates, comparators: Mapping[str, Comparator] | None
) -> Reference:
    """Read a reference set from a file or from dicts.

    A file with the suffix ``.json`` is read as JSON, any other file as YAML.

    Raises:
        ReferenceDataError: the set cannot be read, or is invalid.
    """
    if not isinstance(reference, str | os.PathLike):
        return Reference(reference, comparators=comparators)

    # This module also imports YAML, which takes long.
    from graphrag_eval_async.records.yaml_file import (
        UnreadableFile,
        check_keys,
        read_bytes,
        read_yaml,
    )

    source = os.fspath(reference)
    try:
        text = read_bytes(source)
        templates: Any
        if source.endswith(".json"):
            check_keys(text)
            templates = Raw(text)
        else:
            templates = read_yaml(text)
        return Reference(templates, source=source, comparators=comparators)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error


def _warn_of_doubts(doubts: Sequence[str], source: str | None) -> None:
    """Warn of the first `MAX_LISTED` doubts about a reference set, and count the rest.

    `source` is the path of the set's file; None if the set is from no file.
    """
    heading = "reference set:"
    if source is not None:
        heading = f"reference set {source}:"
    lines = [heading, *doubts[:MAX_LISTED]]
    if len(doubts) > MAX_LISTED:
        lines.append(f"... and {len(doubts) - MAX_LISTED} more")
    warn_caller("\n  ".join(lines))


def _holds_responses(reference: Any) -> bool:
    """Return whether a reference set that cannot be read holds responses or results.

    They have the key ``question_id``, which no reference set has.

    Args:
        reference: the path of a file, or the templates, of which only the first is searched.
    """
    if isinstance(reference, str | os.PathLike):
        try:
            text = Path(reference).read_bytes()
        except (OSError, ValueError):
            return False
        return b'"question_id"' in text and b'"questions"' not in text
    if isinstance(reference, list):
        beginning = repr(reference[:1])[:MAX_CHARACTERS_OF_RESPONSE]
        return "'question_id'" in beginning
    return False
