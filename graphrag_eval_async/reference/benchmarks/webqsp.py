"""Questions of WebQSP, most of which have several parses: ways to understand them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field

from graphrag_eval_async.catalogue.media_types import SPARQL_RESULTS
from graphrag_eval_async.errors import ReferenceDataError, describe, warn_caller
from graphrag_eval_async.records.aliases import BENCHMARK_STEP
from graphrag_eval_async.reference.benchmarks.templates import (
    check_questions,
    place_first,
    scored,
)

WEBQSP = "webqsp"

FREEBASE = "http://rdf.freebase.com/ns/"
"""Begin of the IRIs of Freebase, of which WebQSP keeps the rest."""

VARIABLE = "x"
"""The variable that the queries of WebQSP select."""


class _File(Struct):
    questions: list[Any] = field(name="Questions")


class _Answer(Struct, rename="pascal"):
    answer_type: str
    answer_argument: str
    entity_name: str | None = None

    def term(self) -> dict[str, str]:
        """Return the term of SPARQL results in JSON."""
        if self.answer_type == "Entity":
            return {"type": "uri", "value": FREEBASE + self.answer_argument}
        return {"type": "literal", "value": self.answer_argument}


class _Parse(Struct, rename="pascal"):
    """A query of a question, and its answers when the file was made."""

    sparql: str | None = None
    answers: list[_Answer] = []

    def step(self) -> dict[str, Any]:
        """Return the keys of a reference step that come from this parse: the query, its output."""
        bindings = [{VARIABLE: answer.term()} for answer in self.answers]
        results = {"head": {"vars": [VARIABLE]}, "results": {"bindings": bindings}}
        return {
            "reference_query": self.sparql,
            "output": json.dumps(results, ensure_ascii=False),
            "output_media_type": SPARQL_RESULTS,
        }


class _Question(Struct, rename="pascal"):
    question_id: str
    raw_question: str
    parses: list[_Parse] = []


def read_webqsp(document: Any, source: str, *, score: str | None) -> list[dict[str, Any]]:
    """Return the questions of a file as a template, each with its parses as alternatives.

    The names of the first parse's answers become the reference answer. Warns of questions without
    a query, which are skipped.

    Args:
        document: the contents of the file.
        source: its path, for messages.
        score: the `score` of steps; None to leave it out.

    Raises:
        ReferenceDataError: the file has another layout; each problem has the id of its question.
    """
    try:
        file = convert(document, _File)
    except ValidationError as error:
        problem = f"format {WEBQSP}: {place_first(error)}"
        raise ReferenceDataError([problem], source) from None

    questions = []
    problems = []
    ids_without_query = []
    for index, item in enumerate(file.questions):
        try:
            question = convert(item, _Question)
        except ValidationError as error:
            place = f"Questions[{index}]"
            if isinstance(item, dict) and "QuestionId" in item:
                place = f"question {describe(item['QuestionId'])}"
            problems.append(f"{place}: {place_first(error)}")
            continue
        parses = [parse for parse in question.parses if parse.sparql]
        if parses:
            questions.append(_question(question, parses, score))
        else:
            ids_without_query.append(question.question_id)

    templates = [{"template_id": Path(source).stem, "questions": questions}]
    problems += check_questions(templates)
    if not questions and not problems:
        problems = ["no question with a query"]
    if problems:
        raise ReferenceDataError(problems, source)
    if ids_without_query:
        warn_caller(f"{source}: skipped, no query: {', '.join(ids_without_query)}")
    return templates


def _question(question: _Question, parses: list[_Parse], score: str | None) -> dict[str, Any]:
    """Return a question with one step: the first parse, with the other parses as alternatives."""
    first_parse, *other_parses = parses
    step = scored({"name": BENCHMARK_STEP, **first_parse.step()}, score)
    if other_parses:
        step["alternatives"] = [parse.step() for parse in other_parses]
    result: dict[str, Any] = {"id": question.question_id, "question_text": question.raw_question}
    names = [answer.entity_name or answer.answer_argument for answer in first_parse.answers]
    if names:
        result["reference_answer"] = "\n".join(names)
    result["reference_steps"] = [[step]]
    return result
