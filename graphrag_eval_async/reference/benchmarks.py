"""Questions of the benchmarks TEXT2SPARQL and QALD, as templates of a reference set."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.errors import ReferenceDataError, UsageError, describe, warn_caller
from graphrag_eval_async.records.aliases import BENCHMARK_STEP
from graphrag_eval_async.records.yaml_file import UnreadableFile, read_file
from graphrag_eval_async.reference.reading import read_templates
from graphrag_eval_async.steps.tokens import form_of

FORMATS, SCORES = ("text2sparql", "qald"), ("exact", "f1", "values_f1")


class _Dataset(Struct):
    id: str | None = None
    prefix: str | None = None


class _File(Struct):
    questions: list[Any]
    dataset: _Dataset | None = None


class _Text(Struct):
    language: str
    string: str | None = None


class _Query(Struct):
    sparql: str | None = None


class _Results(Struct):
    bindings: list[dict[str, dict[str, Any] | None]] | None = None


class _Answer(Struct):
    head: dict[str, list[str] | None] | None = None
    results: _Results | None = None
    boolean: bool | None = None


class _Question(Struct, kw_only=True):
    id: str | int | None = None  # Without one, the number of the question.
    question: dict[str, str | None] | list[_Text]
    query: _Query | None = None
    features: list[str] | None = None
    answers: list[_Answer] | None = None

    def texts(self) -> dict[str, str]:
        """Its texts by language."""
        given = self.question
        found = given if isinstance(given, dict) else {each.language: each.string for each in given}
        return {language: text for language, text in found.items() if text and not text.isspace()}

    def step(self, score: str | None) -> dict[str, Any]:
        """The reference step; without a query and an output if it has none."""
        query = self.query and self.query.sparql
        step: dict[str, Any] = {"name": BENCHMARK_STEP}
        if query and query.strip().upper() not in ("", "OUT OF SCOPE"):
            step["reference_query"] = query
        if self.answers:
            step |= {"output": _output(self.answers), "output_media_type": SPARQL_RESULTS}
        if "RESULT_ORDER_MATTERS" in (self.features or ()):
            step["ordered"] = True
        if score is not None and form_of(step.get("reference_query", "ASK {}")) in (
            "SELECT",
            "ASK",
        ):
            step["score"] = score
        return step


def _output(answers: list[_Answer]) -> str:
    """The boolean, or the rows of all answers, as SPARQL results in JSON."""
    if (boolean := answers[0].boolean) is not None and len(answers) == 1:
        return json.dumps({"head": {}, "boolean": boolean})
    if any(each.boolean is not None for each in answers):
        raise ValueError("answers: a boolean stands beside other answers; keep one")
    rows = []
    for row in (row for each in answers for row in (each.results and each.results.bindings) or ()):
        rows.append({name: term for name, term in row.items() if term is not None})
        for term in rows[-1].values():
            if isinstance(value := term.get("value"), int | float):
                term["value"] = json.dumps(value)
    listed = dict.fromkeys(name for each in answers for name in (each.head or {}).get("vars") or ())
    bound = dict.fromkeys(name for row in rows for name in row)
    names = [*(listed if bound.keys() <= listed.keys() else bound)]
    results = {"bindings": rows if names else []}  # Rows of nothing would be those of any table.
    return json.dumps({"head": {"vars": names}, "results": results}, ensure_ascii=False)


def read_benchmark(
    path: Any,
    form: Literal["text2sparql", "qald"],
    *,
    language: str | None = None,
    score: str | None = None,
) -> list[dict[str, Any]]:
    """Read the questions of a benchmark; return templates, as `save_reference` writes them.

    Arguments and errors are those of `load_reference`. Each problem has the id of its question in
    the file.
    """
    for key, value, known in (("format", form, FORMATS), ("score", score, (None, *SCORES))):
        if value not in known:
            raise UsageError(
                f"{key}: expected {', '.join(filter(None, known))}, got {describe(value)}"
            )
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"reference: with a format, expected a path, got {type(path).__name__}")
    source = os.fspath(path)
    try:
        document = read_file(source)
        file = convert(document, _File)
    except UnreadableFile as error:
        raise ReferenceDataError([str(error)], source) from error
    except ValidationError as error:
        hint = "; answers are read by evaluate, with --format text2sparql" * isinstance(
            document, list
        )
        raise ReferenceDataError([f"format {form}: {_said(error)}{hint}"], source) from None
    dataset = file.dataset or _Dataset()
    if form == "text2sparql" and not (dataset.id and dataset.prefix):
        raise ReferenceDataError(
            ["dataset: expected id and prefix, which only text2sparql has"], source
        )
    template: dict[str, Any] = {
        "template_id": (dataset.id or form) if form == "qald" else dataset.prefix
    }
    if dataset.id:
        template["tags"] = {"dataset": dataset.id}
    return _Reader(form, dataset.prefix, language, score).read(file.questions, template, source)


class _Reader:
    """Collects the questions of a file, and what is wrong with them."""

    def __init__(
        self, form: str, prefix: str | None, language: str | None, score: str | None
    ) -> None:
        self._is_qald, self._score = form == "qald", score
        self._language = "en" if language is None and self._is_qald else language
        self._prefix = prefix
        self._languages: set[str] = set()
        self._noted: defaultdict[str, list[str]] = defaultdict(list)

    def read(self, items: list[Any], template: dict[str, Any], source: str) -> list[dict[str, Any]]:
        """Return the template with all questions; warn of those that are skipped."""
        questions: list[dict[str, Any]] = []
        problems = []
        for number, item in enumerate(items, 1):
            name = item.get("id") if isinstance(item, dict) else None
            try:
                questions += self._read(convert(item, _Question), number if name is None else name)
            except (ValueError, ValidationError) as error:
                place = f"questions[{number - 1}]" if name is None else f"question {describe(name)}"
                problems.append(f"{place}: {_said(error)}")
        templates = [{**template, "questions": questions}]
        for problem in read_templates(templates, {}).problems:  # One of each question.
            found = re.match(r"templates\[0\]\.questions\[(\d+)\][.:] ?(.*)", problem, re.DOTALL)
            problems.append(
                f"question {questions[int(found[1])]['id']!r}: {found[2]}" if found else problem
            )
        if not items:
            problems = ["questions: the list is empty"]
        elif not problems and not questions:
            known = f"the file has {sorted(self._languages)}"
            problems = [
                f"no question with a query or answers in language {self._language!r}; {known}"
            ]
        if problems:
            raise ReferenceDataError(problems, source)
        for note, ids in self._noted.items():
            if len(ids) < len(items):
                warn_caller(f"{source}: {note}: {', '.join(ids)}")
        return templates

    def _read(self, given: _Question, own: str | int) -> list[dict[str, Any]]:
        """Return a question in each language that is asked for; a `ValueError` says what is
        wrong.
        """
        if isinstance(given.question, list) != self._is_qald:
            raise ValueError(f"question: it is of the format {FORMATS[not self._is_qald]}")
        texts, step = given.texts(), given.step(self._score)
        self._languages.update(texts)
        if not texts:
            raise ValueError("question: no text in any language")
        if "reference_query" not in step and not self._is_qald:
            raise ValueError("query.sparql: missing")
        languages = [each for each in texts if self._language in (None, each)]
        if not languages:
            self._noted[f"skipped, no text in language {self._language!r}"].append(str(own))
        elif not {"reference_query", "output"} & step.keys():
            self._noted["skipped, no query and no answers"].append(str(own))
            languages = []
        elif self._is_qald and "output" not in step:
            self._noted["no answers, only a query, which `execute` runs"].append(str(own))
        return [
            {
                "id": str(own) if self._is_qald else f"{self._prefix}:{own}-{language}",
                "question_text": texts[language],
                "tags": {**dict.fromkeys(given.features or (), True), "language": language},
                "reference_steps": [[step]],
            }
            for language in languages
        ]


def _said(error: Exception) -> str:
    """What an error says, with the place first."""
    what, _, place = str(error).partition(" - at `$")
    return f"{place.strip('.`')}: {what}" if place else what
