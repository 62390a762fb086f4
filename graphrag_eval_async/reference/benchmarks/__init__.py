"""Questions of public benchmarks, as templates of a reference set."""

from __future__ import annotations

import os
from typing import Any

from graphrag_eval_async.errors import ReferenceDataError, UsageError, describe
from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file
from graphrag_eval_async.reference.benchmarks.question_files import (
    QALD,
    QALD_9_PLUS,
    WITH_SEVERAL_LANGUAGES,
    read_question_file,
)
from graphrag_eval_async.reference.benchmarks.recognition import (
    Recognized,
    describe_benchmark,
    recognize_file,
)
from graphrag_eval_async.reference.benchmarks.templates import check_score
from graphrag_eval_async.reference.benchmarks.webqsp import WEBQSP, read_webqsp

FORMATS = (*WITH_SEVERAL_LANGUAGES, WEBQSP)
"""Benchmarks whose files have a layout of their own."""


def read_benchmark(
    path: Any,
    form: str,
    *,
    language: str | None = None,
    score: str | None = None,
) -> list[dict[str, Any]]:
    """Read the questions of a benchmark, and return them as templates for `save_reference`.

    Args:
        path: the path of the file: YAML, or JSON with the suffix ``.json``.
        form: the benchmark, one of `FORMATS`.
        language: language of the questions to read. Default: all languages of "text2sparql",
            English for other benchmarks.
        score: the `score` of steps with SELECT or ASK, exact, f1 or values_f1.

    Raises:
        ReferenceDataError: the file cannot be read, or is of another benchmark; each problem has
            the id of its question in the file.
        UsageError: an argument has an invalid value.
    """
    if form not in FORMATS:
        raise UsageError(f"format: expected {', '.join(FORMATS)}, got {describe(form)}")
    if score is not None:
        check_score(score)
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"reference: with a format, expected a path, got {type(path).__name__}")
    source = os.fspath(path)

    # A file of another benchmark gets an error that names its benchmark, whatever else is wrong.
    try:
        document = read_file(source)
    except UnreadableFile as error:
        _check_form(form, recognize_file(source), source)
        raise ReferenceDataError([str(error)], source) from error
    if isinstance(document, dict | list):
        _check_form(form, describe_benchmark(document, source), source)
    else:
        # A table is read as YAML, as one text.
        _check_form(form, recognize_file(source), source)

    if form == WEBQSP:
        if language not in (None, "en"):
            raise UsageError(f"language: all questions of {form} are in English")
        return read_webqsp(document, source, score=score)
    return read_question_file(document, source, form, language=language, score=score)


def _check_form(form: str, recognized: Recognized | None, source: str) -> None:
    """Check that a file does not look like a file of another benchmark.

    Args:
        form: the benchmark that the file should be of.
        recognized: the benchmark that it looks like; None if it looks like none.
        source: path of the file.

    Raises:
        ReferenceDataError: the file looks like one of another benchmark. The message says how to
            read it.
    """
    if recognized is None or recognized.format == form:
        return
    # The files of QALD-9-plus have the layout of QALD's.
    if form == QALD_9_PLUS and recognized.format == QALD:
        return
    raise ReferenceDataError([f"format {form}: {recognized.message}"], source)
