"""Questions of TEXT2SPARQL, QALD and QALD-9-plus, which have texts in several languages."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from msgspec import Struct, ValidationError, convert

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.errors import ReferenceDataError, describe, warn_caller
from graphrag_eval_async.records.aliases import BENCHMARK_STEP
from graphrag_eval_async.reference.benchmarks.templates import (
    check_questions,
    place_first,
    scored,
)

TEXT2SPARQL = "text2sparql"
QALD = "qald"
QALD_9_PLUS = "qald-9-plus"

WITH_SEVERAL_LANGUAGES = (TEXT2SPARQL, QALD, QALD_9_PLUS)
"""The benchmarks that `read_question_file` reads."""

OUT_OF_SCOPE = "OUT OF SCOPE"
"""What QALD writes in place of a query that its graph cannot answer."""


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
    """SPARQL results in JSON, as QALD writes them."""

    head: dict[str, list[str] | None] | None = None
    results: _Results | None = None
    boolean: bool | None = None

    def variables(self) -> list[str]:
        return (self.head or {}).get("vars") or []

    def rows(self) -> list[dict[str, dict[str, Any]]]:
        """Return the rows of the answer, without unbound variables and with all values as text."""
        bindings = []
        if self.results is not None and self.results.bindings is not None:
            bindings = self.results.bindings
        return [
            {name: _with_text(term) for name, term in binding.items() if term is not None}
            for binding in bindings
        ]


class _Question(Struct, kw_only=True):
    """A question of a file; its texts are a dict by language, or a list in QALD."""

    id: str | int | None = None
    question: dict[str, str | None] | list[_Text]
    query: _Query | None = None
    features: list[str] | None = None
    answers: list[_Answer] | None = None

    def texts(self) -> list[tuple[str, str]]:
        """Return the pairs of language and text that are not empty."""
        if isinstance(self.question, dict):
            pairs = list(self.question.items())
        else:
            pairs = [(text.language, text.string) for text in self.question]
        return [(language, text) for language, text in pairs if text and not text.isspace()]

    def reference_step(self, score: str | None) -> dict[str, Any]:
        """Return the reference step, with the query and the output that the question has."""
        step: dict[str, Any] = {"name": BENCHMARK_STEP}
        query = self.query.sparql if self.query is not None else None
        # Some files mark questions without a query by the text `OUT_OF_SCOPE`.
        if query and query.strip().upper() not in ("", OUT_OF_SCOPE):
            step["reference_query"] = query
        if self.answers:
            step["output"] = _sparql_results(self.answers)
            step["output_media_type"] = SPARQL_RESULTS
        if self.features is not None and "RESULT_ORDER_MATTERS" in self.features:
            step["ordered"] = True
        return scored(step, score)


def read_question_file(
    document: Any, source: str, form: str, *, language: str | None, score: str | None
) -> list[dict[str, Any]]:
    """Return the questions of a file as templates.

    Args:
        document: the contents of the file.
        source: its path, for messages.
        form: the benchmark, one of `WITH_SEVERAL_LANGUAGES`.
        language: language of the questions to read. Default: all languages of TEXT2SPARQL, English
            for QALD.
        score: the `score` of steps with SELECT or ASK; None to leave it out.

    Raises:
        ReferenceDataError: the file has another layout; each problem has the id of its question.
    """
    try:
        file = convert(document, _File)
    except ValidationError as error:
        message = f"format {form}: {place_first(error)}"
        if isinstance(document, list):
            message += "; answers are read by evaluate, with --format text2sparql"
        raise ReferenceDataError([message], source) from None

    # All questions are in one template, which is named after the dataset.
    dataset = file.dataset or _Dataset()
    if form == TEXT2SPARQL:
        if not (dataset.id and dataset.prefix):
            problem = "dataset: expected id and prefix, which only text2sparql has"
            raise ReferenceDataError([problem], source)
        template: dict[str, Any] = {"template_id": dataset.prefix}
    else:
        template = {"template_id": dataset.id or form}
    if dataset.id:
        template["tags"] = {"dataset": dataset.id}

    if language is None and form != TEXT2SPARQL:
        language = "en"
    reader = _QuestionReader(form, prefix=dataset.prefix, language=language, score=score)
    return reader.read(file.questions, template, source)


class _QuestionReader:
    """Reads the questions of one file, and collects what is to be said of them.

    Args:
        form: the benchmark.
        prefix: of the ids, with TEXT2SPARQL.
        language: of the questions to read; None for all.
        score: of the reference steps.
    """

    def __init__(
        self, form: str, *, prefix: str | None, language: str | None, score: str | None
    ) -> None:
        """Prepare to read the questions of a file.

        Args:
            form: the format of the benchmark.
            prefix: the beginning of the ids of TEXT2SPARQL; other formats do not use it.
            language: the language of the questions to read; None for all languages.
            score: the `score` of steps; None to leave it out.
        """
        self._form = form
        self._prefix = prefix
        self._language = language
        self._score = score

        # The languages of all questions, which a message lists if none is in `language`.
        self._languages: set[str] = set()
        # The ids of questions, by a note that a warning will give, such as why they are skipped.
        self._ids_by_note: defaultdict[str, list[str]] = defaultdict(list)

    def read(self, items: list[Any], template: dict[str, Any], source: str) -> list[dict[str, Any]]:
        """Return the template with all questions, and warn of the questions that are skipped.

        Raises:
            ReferenceDataError: there is no question, or some cannot be read.
        """
        questions: list[dict[str, Any]] = []
        problems = []
        for index, item in enumerate(items):
            id_in_file = item.get("id") if isinstance(item, dict) else None
            try:
                question = convert(item, _Question)
                # Without an id, a question has its number.
                question_id = str(index + 1 if id_in_file is None else id_in_file)
                questions += self._read_question(question, question_id)
            except (ValueError, ValidationError) as error:
                place = f"questions[{index}]"
                if id_in_file is not None:
                    place = f"question {describe(id_in_file)}"
                problems.append(f"{place}: {place_first(error)}")

        templates = [{**template, "questions": questions}]
        problems += check_questions(templates)
        if not items:
            problems = ["questions: the list is empty"]
        elif not problems and not questions:
            languages = f"the file has {sorted(self._languages)}"
            problems = [
                f"no question with a query or answers in language {self._language!r}; {languages}"
            ]
        if problems:
            raise ReferenceDataError(problems, source)

        for note, ids in self._ids_by_note.items():
            # A note on all questions of the file is no warning: the file is meant to be so.
            if len(ids) < len(items):
                warn_caller(f"{source}: {note}: {', '.join(ids)}")
        return templates

    def _read_question(self, question: _Question, question_id: str) -> list[dict[str, Any]]:
        """Return a question once for each of its texts in the language that is asked for.

        Raises:
            ValueError: the question has no text, no query, or the layout of another benchmark.
        """
        has_list = isinstance(question.question, list)
        if has_list and self._form == TEXT2SPARQL:
            raise ValueError(f"question: it is of the format {QALD}")
        if not has_list and self._form != TEXT2SPARQL:
            raise ValueError(f"question: it is of the format {TEXT2SPARQL}")

        texts = question.texts()
        self._languages.update(language for language, _ in texts)
        if not texts:
            raise ValueError("question: no text in any language")
        step = question.reference_step(self._score)
        if self._form == TEXT2SPARQL and "reference_query" not in step:
            raise ValueError("query.sparql: missing")

        texts = [pair for pair in texts if self._language in (None, pair[0])]
        if not texts:
            note = f"skipped, no text in language {self._language!r}"
            self._ids_by_note[note].append(question_id)
            return []
        if "reference_query" not in step and "output" not in step:
            self._ids_by_note["skipped, no query and no answers"].append(question_id)
            return []
        if self._form != TEXT2SPARQL and "output" not in step:
            note = "no answers, only a query, which `execute` runs"
            self._ids_by_note[note].append(question_id)

        features = dict.fromkeys(question.features or (), True)
        return [
            {
                "id": text_id,
                "question_text": text,
                "tags": {**features, "language": language},
                "reference_steps": [[step]],
            }
            for text_id, language, text in self._with_ids(texts, question_id)
        ]

    def _with_ids(
        self, texts: list[tuple[str, str]], question_id: str
    ) -> list[tuple[str, str, str]]:
        """Return the id, language and text of each text of a question that is read.

        - TEXT2SPARQL has one text in each language. The language becomes a part of the id.
        - QALD may have several texts in a language. The last one is read, as other programs do.
        - QALD-9-plus may have several texts, which are all read. The second one has ``-2`` at the
          end of its id.

        Args:
            texts: the language and text of each text.
            question_id: the id of the question in the file.
        """
        if self._form == TEXT2SPARQL:
            return [
                (f"{self._prefix}:{question_id}-{language}", language, text)
                for language, text in texts
            ]
        if self._form == QALD:
            language, text = texts[-1]
            return [(question_id, language, text)]
        language, text = texts[0]
        with_ids = [(question_id, language, text)]
        for number, (language, text) in enumerate(texts[1:], start=2):
            with_ids.append((f"{question_id}-{number}", language, text))
        return with_ids


def _sparql_results(answers: list[_Answer]) -> str:
    """Return answers as SPARQL results in JSON: a boolean, or the rows of all answers.

    Raises:
        ValueError: a boolean stands beside other answers.
    """
    first_boolean = answers[0].boolean
    if len(answers) == 1 and first_boolean is not None:
        return json.dumps({"head": {}, "boolean": first_boolean})
    if any(answer.boolean is not None for answer in answers):
        raise ValueError("answers: a boolean stands beside other answers; keep one")

    rows = [row for answer in answers for row in answer.rows()]
    variables = dict.fromkeys(name for answer in answers for name in answer.variables())
    bound_variables = dict.fromkeys(name for row in rows for name in row)
    # In some files, the head names other variables than the rows have. Then the rows count.
    if not bound_variables.keys() <= variables.keys():
        variables = bound_variables
    if not variables:
        # Rows without variables would be equal to those of any table.
        rows = []
    results = {"head": {"vars": list(variables)}, "results": {"bindings": rows}}
    return json.dumps(results, ensure_ascii=False)


def _with_text(term: dict[str, Any]) -> dict[str, Any]:
    """Return a term of SPARQL results, with its value as text if the file has a number there."""
    value = term.get("value")
    if isinstance(value, int | float):
        return {**term, "value": json.dumps(value)}
    return term
