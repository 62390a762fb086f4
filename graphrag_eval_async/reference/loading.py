"""Loading of a reference set from a file or from template dicts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from graphrag_eval_async.errors import ReferenceDataError, UsageError, warn_caller
from graphrag_eval_async.reference.files import read_reference_file
from graphrag_eval_async.reference.reference_set import Reference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphrag_eval_async.reference.reference_set import Templates
    from graphrag_eval_async.steps import Comparator

MAX_LISTED = 20
"""Maximum doubts in a warning; `Reference.doubts` has all."""

_TELLING_KEYS = (
    "question_id",
    "questions",
    "question",
    "question_text",
    "actual_answer",
    "actual_steps",
)
"""Keys that tell responses and results from questions."""


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

    try:
        loaded = reference if isinstance(reference, Reference) else _read(reference, comparators)
    except ReferenceDataError as error:
        if strict and error.doubts:
            raise ReferenceDataError([*error.problems, *error.doubts], error.source) from None
        raise

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
        if isinstance(reference, str | os.PathLike):
            return read_reference_file(os.fspath(reference), comparators)
        return Reference(reference, comparators=comparators)
    except ReferenceDataError as error:
        advice = _advice_on_other_file(reference)
        if advice is None:
            raise
        raise ReferenceDataError([advice], error.source) from None


def _advice_on_other_file(reference: str | os.PathLike[str] | Templates) -> str | None:
    """Return what to do with a file or dicts that users often pass in place of a reference set.

    Returns:
        None if it holds neither responses nor the questions of a known benchmark.
    """
    if _holds_responses(reference):
        return "holds responses or results; give the reference set first, then the responses"
    if isinstance(reference, str | os.PathLike):
        # This module imports the readers of benchmarks, which take long to import.
        from graphrag_eval_async.reference.benchmarks.recognition import recognize_file

        recognized = recognize_file(os.fspath(reference))
        if recognized is not None:
            return recognized.message
    return None


def _warn_of_doubts(doubts: Sequence[str], source: str | None) -> None:
    """Warn of the first `MAX_LISTED` doubts about a reference set, and say how many follow.

    Args:
        doubts: the doubts.
        source: path of the file of the set; None if the set is from no file.
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

    Responses have the key ``question_id``, which no reference set has. A question may have this key
    by mistake; it also has a text, but no answer or steps of an agent.

    Args:
        reference: the path of a file, or the templates, of which only the first is searched.
    """
    if isinstance(reference, str | os.PathLike):
        try:
            text = Path(reference).read_bytes()
        except (OSError, ValueError):
            return False
        found_keys = {key for key in _TELLING_KEYS if _has_key(text, key.encode())}
    elif isinstance(reference, list) and reference and isinstance(reference[0], dict):
        found_keys = {key for key in _TELLING_KEYS if key in reference[0]}
    else:
        return False

    if "question_id" not in found_keys or "questions" in found_keys:
        return False
    is_of_agent = not found_keys.isdisjoint({"actual_answer", "actual_steps"})
    has_text = not found_keys.isdisjoint({"question", "question_text"})
    return is_of_agent or not has_text


def _has_key(text: bytes, key: bytes) -> bool:
    """Return whether JSON or YAML text has an object with a key."""
    return re.search(rb"""(?<!\w)""" + key + rb"""["']?\s*:""", text) is not None
