"""Mistakes that people make in files of reference sets, and what they are told."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from graphrag_eval_async import (
    GraphragEvalWarning,
    ReferenceDataError,
    load_reference,
    run_evaluation_sync,
)
from tests.support.data import question, template

if TYPE_CHECKING:
    from pathlib import Path

VALID = """\
- template_id: films
  questions:
  - id: q1
    question_text: Which films did Tati direct?
    reference_answer: Playtime
    match: contains
    reference_steps:
    - - name: sparql_query
        output_media_type: text/csv
        output: |
          film
          urn:film:playtime
  - id: q2
    question_text: How many?
    reference_answer: "2"
"""
OUTPUT = "output: |\n          film\n          urn:film:playtime"
AS_JSON = json.dumps(yaml.safe_load(VALID), indent=2)


class Mistake(NamedTuple):
    """A change of a valid file, and words of the message that it causes."""

    old: str
    new: str
    words: tuple[str, ...]


def mistake(old: str, new: str, *words: str) -> Mistake:
    assert old in VALID or old in AS_JSON
    return Mistake(old, new, words)


def messages(path: Path) -> list[str]:
    """Return the problems and doubts about a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphragEvalWarning)
        try:
            return [*load_reference(path).doubts]
        except ReferenceDataError as error:
            return [*error.problems, *error.doubts]


def check_message(path: Path, words: tuple[str, ...]) -> None:
    """Check that one message about a file has all the words."""
    found = messages(path)
    assert any(all(word in message for word in words) for message in found), found


KEYS = {
    "question_id": mistake("- id: q1", "- question_id: q1", "did you mean id?", "line 3"),
    "upper case": mistake("- id: q1", "- ID: q1", "did you mean id?", "line 3"),
    "camel case": mistake("question_text", "questionText", "did you mean question_text?", "line 4"),
    "question": mistake("question_text", "question", "did you mean question_text?", "line 4"),
    "prompt": mistake("question_text", "prompt", "did you mean question_text?", "line 4"),
    "template": mistake("template_id", "template", "did you mean template_id?", "line 1"),
    "name of a template": mistake("template_id", "name", "did you mean template_id?", "line 1"),
    "items": mistake("  questions:", "  items:", "did you mean questions?", "line 2"),
    "answer": mistake("reference_answer", "answer", "did you mean reference_answer?", "line 5"),
    "ground truth": mistake(
        "reference_answer", "ground_truth", "did you mean reference_answer?", "line 5"
    ),
    "mach": mistake("match:", "mach:", "did you mean match?", "line 6"),
    "expected_steps": mistake(
        "reference_steps", "expected_steps", "did you mean reference_steps?", "ignored", "line 7"
    ),
    "steps": mistake("reference_steps", "steps", "did you mean reference_steps?", "line 7"),
    "tool": mistake("- - name:", "- - tool:", "did you mean name?", "line 8"),
    "media_type": mistake(
        "output_media_type", "media_type", "did you mean output_media_type?", "line 9"
    ),
    "format": mistake("output_media_type", "format", "did you mean output_media_type?", "line 9"),
    "outputs": mistake("output: |", "outputs: |", "did you mean output?", "line 10"),
    "expected_output": mistake(
        "output: |", "expected_output: |", "did you mean output?", "line 10"
    ),
    "curly quotes": mistake(
        "reference_answer:", "“reference_answer”:", "did you mean reference_answer?", "line 5"
    ),
    "sorted": mistake(
        "        output: |", "        sorted: true\n        output: |", "did you mean ordered?"
    ),
    "no template": mistake("template_id: films\n  ", "", "template_id: missing", "line 1"),
    "no name": mistake("- - name: sparql_query\n", "- -\n", "name: missing", "line 9"),
    "key of a step in a question": mistake(
        "match: contains", "score: f1", "score is a key of a step", "line 6"
    ),
    "key of a question in a template": mistake(
        "  questions:",
        "  reference_steps: [[{name: a, output: b}]]\n  questions:",
        "reference_steps is a key of a question",
        "line 2",
    ),
    "sparql": mistake(
        OUTPUT, "sparql: ASK {}", "did you mean reference_query?", "required", "line 10"
    ),
    "number as a key": mistake(
        "match:", "5:", "expected text as key, got the number 5; put it in quotes", "line 6"
    ),
    "key of an alternative": mistake(
        "        output: |",
        "        alternatives: [{outputs: x}]\n        output: |",
        "alternatives[0].outputs: unknown key; did you mean output?",
        "line 10",
    ),
    "question of a template and a key below it": mistake(
        "  questions:\n  - id: q1",
        "  question:\n  - question_id: q1",
        "question_id: unknown key; did you mean id?",
        "line 3",
    ),
}

VALUES = {
    "id is a number": mistake("id: q1", "id: 7", "the number 7; put it in quotes", "line 3"),
    "id is a long number": mistake("id: q1", f"id: {10**30}", "put it in quotes", "line 3"),
    "id is no": mistake("id: q1", "id: no", "got false", "put it in quotes", "line 3"),
    "id is null": mistake("id: q1", "id:", "got nothing", "line 3"),
    "id is empty": mistake("id: q1", 'id: ""', "empty text; write the text", "line 3"),
    "id with a space": mistake("id: q1", 'id: "q1 "', "begins or ends with a space", "line 3"),
    "id twice": mistake("id: q2", "id: q1", "already the id of templates[0].questions[0]", "line"),
    "answer is a number": mistake('"2"', "2", "the number 2; put it in quotes", "line 15"),
    "answer is yes": mistake('"2"', "yes", "got true; YAML reads yes, no", "line 15"),
    "answer is a comment": mistake("Playtime", "#1", "begins with # as a comment", "line 5"),
    "id in curly quotes": mistake("id: q1", "id: “q1”", "curly quotes are part of it", "line 3"),
    "question is empty": mistake("How many?", '""', "question_text: empty", "line 14"),
    "answers in a list": mistake('"2"', "[a, b]", "a list needs `match: contains`", "line 15"),
    "answer is an object": mistake('"2"', "{text: a}", "expected text or a list of texts", "line"),
    "match is misspelt": mistake("contains", "contain", "did you mean contains?", "line 6"),
    "match is another": mistake("contains", "fuzzy", "write one of these", "line 6"),
    "match in curly quotes": mistake("contains", "“contains”", "did you mean contains?", "line 6"),
    "no number": mistake("contains", "number", "must have one number", "line 5"),
    "tolerance is infinite": mistake(
        "contains", "contains\n    tolerance: .inf", "write a finite number", "line 7"
    ),
    "tolerance in percent": mistake(
        "contains", "contains\n    tolerance: 5%", "write 0.05 for 5%", "line 7"
    ),
    "max_steps is text": mistake(
        "contains", 'contains\n    max_steps: "3"', "write 3 without quotes", "line 7"
    ),
    "forbidden_steps is text": mistake(
        "contains", "contains\n    forbidden_steps: find", "write [find]", "line 7"
    ),
    "tags are text": mistake("contains", "contains\n    tags: hard", "[name]", "line 7"),
    "order is true": mistake(
        "        output: |", "        order: true\n        output: |", "ordered: true", "line 10"
    ),
    "ordered is text": mistake(
        "        output: |",
        '        ordered: "yes"\n        output: |',
        "write true or false without quotes",
        "line 10",
    ),
    "score in upper case": mistake(
        "        output: |", "        score: F1\n        output: |", "did you mean f1?", "line 10"
    ),
    "args is a query": mistake(
        "        output: |",
        "        args: SELECT\n        output: |",
        "write {argument: value}",
        "line 10",
    ),
    "folded": mistake("output: |", "output: >", "folded text", "output: |", "line 10"),
    "folded and stripped": mistake("output: |", "output: >-", "folded text", "line 10"),
    "text in several lines": mistake("output: |", "output:", "folded text", "line 10"),
    "folded alternative": mistake(
        "        output: |",
        "        alternatives:\n        - output: >\n            a\n            1\n"
        "        output: |",
        "alternatives[0].output: folded text",
        "line 11",
    ),
    "TSV as CSV": mistake(
        "          film\n", "          film\tname\n", "text/tab-separated-values", "line 10"
    ),
    "CSV as JSON": mistake("text/csv", "json", "output_media_type: text/csv", "line 10"),
    "object as CSV": mistake(
        OUTPUT,
        "output: {film: playtime}",
        "below `output: |`",
        "line 10",
    ),
    "output is a number": mistake(
        f"output_media_type: text/csv\n        {OUTPUT}",
        "output: 5",
        "put it in quotes if the tool returns text",
        "line 9",
    ),
    "output is no": mistake(
        f"output_media_type: text/csv\n        {OUTPUT}",
        "output: no",
        "YAML reads no as false; put it in quotes",
        "line 9",
    ),
    "unknown media type": mistake("text/csv", "text/tortoise", "known: application/", "line 9"),
    "misspelt media type": mistake("text/csv", "sparql-jsn", "did you mean sparql-json?", "line 9"),
    "unknown media type and a problem": mistake(
        "- - name: sparql_query\n        output_media_type: text/csv",
        "- - nme: sparql_query\n        output_media_type: sparql-jsn",
        "unknown media type 'sparql-jsn'",
        "line 9",
    ),
    "unknown media type of a table": mistake(
        "text/csv",
        "sparql-jsn\n        match_columns: name",
        "match_columns: only for outputs that are tables; correct output_media_type",
        "line 10",
    ),
    "unknown media type beside its columns": mistake(
        "text/csv",
        "sparql-jsn\n        match_columns: name",
        "unknown media type 'sparql-jsn'",
        "line 9",
    ),
}

LAYOUT = {
    "steps are not in a list": mistake(
        "- - name: sparql_query\n        output_media_type: text/csv\n        output: |\n",
        "- name: sparql_query\n      output_media_type: text/csv\n      output: |\n",
        "a list of their own",
        "line 8",
    ),
    "steps are an object": mistake(
        "    - - name: sparql_query\n", "        name: sparql_query\n", "groups of steps", "line 7"
    ),
    "steps are names": mistake(
        "    reference_steps:\n",
        "    reference_steps: [[sparql_query]]\n    left:\n",
        "expected a step, got 'sparql_query'",
        "line 7",
    ),
    "steps are text": mistake(
        "    reference_steps:\n",
        "    reference_steps: sparql_query\n    left:\n",
        "expected a list of groups",
        "line 7",
    ),
    "question is text": mistake(
        "  - id: q2\n", "  - What?\n  - id: q2\n", "got 'What?'", "line 13"
    ),
    "template is null": mistake('"2"\n', '"2"\n-\n', "got nothing", "line 16"),
    "questions are an object": mistake(
        "  questions:\n",
        "  questions: {}\n  left:\n",
        "begin each question with `- id: `",
        "line 2",
    ),
}

SYNTAX = {
    "colon": mistake("Tati direct", "Tati: direct", "line 4", "needs quotes"),
    "tab": mistake("    match", "\tmatch", "line 6", "with spaces, not with tabs"),
    "further in": mistake("    match", "     match", "line 6", "not aligned"),
    "less far in": mistake("    match", "   match", "line 6", "not aligned"),
    "no space after a colon": mistake("match: ", "match:", "line 6", "a space after the colon"),
    "no space after a dash": mistake("- id: q2", "-id: q2", "line 13", "a space after the -"),
    "no dash": mistake("  - id: q2", "    id: q2", "line 13", "duplicate key 'id'", "with -"),
    "star": mistake("Playtime", "*any", "line 5", "begins with * needs quotes"),
    "at sign": mistake("Playtime", "@me", "line 5", "needs quotes"),
    "exclamation mark": mistake("Playtime", "!yes it is", "line 5", "begins with ! needs quotes"),
    "brace": mistake("Playtime", "{x} is it", "line 5", "begins with { or [ needs quotes"),
    "bar": mistake("Playtime", "| x", "line 5", "begins with | or > needs quotes"),
    "open quote": mistake("Playtime", '"Playtime', "line 5", "must end with it"),
    "quote inside": mistake("Playtime", '"Play" time', "line 5", "must end with it"),
    "apostrophe": mistake("Playtime", "'it's'", "line 5", "must end with it"),
    "backslash": mistake("Playtime", '"C:\\dir"', "line 5", "write \\\\ for a backslash"),
    "no-break spaces": mistake("    match", "\u00a0\u00a0match", "line 6", "write plain ones"),
    "text is not indented": mistake("          urn:", "urn:", "line 12", "indent the line further"),
    "dash": mistake("Playtime", "- a", "line 5", "begins with - and a space needs quotes"),
    "open bracket": mistake("Playtime", "[Playtime", "line 5", "must be closed"),
    "two documents": mistake("  - id: q2", "---\n  - id: q2", "one document; remove the line ---"),
}

YAML_MISTAKES = KEYS | VALUES | LAYOUT | SYNTAX

JSON_MISTAKES = {
    "trailing comma": mistake('"2"\n', '"2",\n', "line 23", "remove the comma"),
    "missing comma": mistake('"contains",', '"contains"', "line 10", "a comma", "is missing"),
    "single quotes": mistake('"template_id"', "'template_id'", "line 3", "write double quotes"),
    "curly quotes": mistake('"template_id"', "“template_id”", "line 3", "straight double quotes"),
    "comment": mistake('"template_id"', '// x\n"template_id"', "line 3", "no comments"),
    "True": mistake('"contains"', "True", "line 9", "true, false or null in lower case"),
    "line break in a text": mistake("film\\n", "film\n", "line 15", "write \\n for a line break"),
    "backslash": mistake("Playtime", "a\\d", "line 8", "write \\\\ for a backslash"),
    "wrong key": mistake('"output"', '"outputs"', "did you mean output?"),
    "two values": mistake("[\n  {", "{}\n[\n  {", "put several JSON values in one list"),
}

FILES = {
    "empty": ("r.yaml", "", "the file is empty; begin with"),
    "blank": ("r.yaml", "\n \n", "the file is empty; begin with"),
    "comments": ("r.yaml", "# a\n# b\n", "nothing but comments; begin with"),
    "null": ("r.yaml", "null\n", "only null; begin with"),
    "empty JSON": ("r.json", "", "the file is empty; begin with"),
    "null in JSON": ("r.json", "null", "got nothing (null)"),
    "text": ("r.yaml", "hello", "got 'hello'"),
    "table": ("r.csv", "id,question\nq1,What?\n", "run init --questions"),
    "YAML in JSON": ("r.json", VALID, "it looks like YAML, so name the file .yaml"),
    "Excel": ("r.yaml", b"PK\x03\x04\x14\x00", "Excel file"),
    "not UTF-8": ("r.yaml", b"- a\n- f\xeate\n", "in line 2; save the file as UTF-8"),
    "JSON lines": ("r.jsonl", '{"id": "a"}\n{"id": "b"}\n', "in one list"),
    "responses": (
        "r.yaml",
        "- question_id: q1\n  actual_answer: x\n",
        "give the reference set first, then the responses",
    ),
    "questions of another tool": (
        "r.yaml",
        "- question_id: q1\n  question: What?\n  answer: x\n",
        "question_id: unknown key; did you mean id?",
    ),
    "configuration": ("r.yaml", "llm: {}\n", "which --config takes"),
    "under templates": ("r.yaml", f"templates:\n{VALID}", "remove the key templates"),
    "under an id": ("r.yaml", "films:\n  questions: []\n", "`- template_id: films`"),
    "one template": ("r.yaml", "template_id: a\nquestions: []\n", "begin each template with `-"),
    "only questions": ("r.yaml", "questions: []\n", "put `questions` below it"),
    "questions without a template": (
        "r.yaml",
        "- id: q\n  question_text: What?\n- id: r\n  question_text: Who?\n",
        (
            "put questions in templates: [{template_id: NAME, questions: [...]}]; in 2 places "
            "(lines 1, 3)"
        ),
    ),
}


@pytest.mark.parametrize("case", YAML_MISTAKES.values(), ids=YAML_MISTAKES)
def test_a_mistake_in_yaml(case: Mistake, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(VALID.replace(case.old, case.new, 1))
    check_message(path, case.words)


@pytest.mark.parametrize("case", JSON_MISTAKES.values(), ids=JSON_MISTAKES)
def test_a_mistake_in_json(case: Mistake, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(AS_JSON.replace(case.old, case.new, 1))
    check_message(path, case.words)


@pytest.mark.parametrize(("name", "content", "words"), FILES.values(), ids=FILES)
def test_a_file_that_is_something_else(
    name: str, content: str | bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    check_message(path, (words,))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param('{"questions": []}', id="only questions"),
        pytest.param('{"template_id": "a", "questions": []}', id="one template"),
        pytest.param('{"films": {"questions": []}}', id="under an id"),
        pytest.param('[{"template_id": "a", "questions": {}}]', id="questions are an object"),
        pytest.param(AS_JSON.replace('"How many?"', "null"), id="no text"),
        pytest.param(AS_JSON.replace('"2"', "true"), id="answer is true"),
        pytest.param(AS_JSON.replace('"Playtime"', "null"), id="no answer to match"),
        pytest.param(
            AS_JSON.replace('"film\\nurn:film:playtime\\n"', '{"film": 1}'), id="object as CSV"
        ),
        pytest.param(
            json.dumps(template({**question(), "reference_steps": [[[{"name": "a"}]]]})),
            id="steps are too deep",
        ),
    ],
)
def test_files_in_json_get_no_advice_about_yaml(content: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    found = messages(path)
    assert found
    for message in found:
        for words in ("YAML", "`-", "- id", "output: |", "#"):
            assert words not in message


def test_a_directory(tmp_path: Path) -> None:
    assert messages(tmp_path) == ["is a directory; name the file of the reference set in it"]


@pytest.mark.parametrize(
    "text",
    [VALID, VALID.replace("\n", "\r\n"), f"\ufeff{VALID}", f"---\n{VALID}", AS_JSON],
    ids=["as it is", "line ends of Windows", "byte-order mark", "begin of a document", "JSON"],
)
def test_what_is_no_mistake(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(text.encode())
    assert messages(path) == []


SHORT_NAMES = ["csv", "CSV", ".csv", "application/csv", "text/csv; charset=utf-8"]


@pytest.mark.parametrize("media_type", SHORT_NAMES)
def test_short_names_of_media_types(media_type: str) -> None:
    step = {"name": "find", "output_media_type": media_type, "output": "film\nurn:a\nurn:b\n"}
    response = {
        "question_id": "q",
        "actual_steps": [{"name": "find", "output": "film\nurn:b\nurn:a\n"}],
    }
    [result] = run_evaluation_sync(template(question(step)), [response])
    assert result["steps_score"] == 1


@pytest.mark.parametrize(
    ("media_type", "output"),
    [
        ("json", "[1]"),
        ("sparql-json", '{"head": {}, "boolean": true}'),
        ("sparql", '{"head": {}, "boolean": true}'),
        ("tsv", "?a\n<urn:b>\n"),
        ("ttl", "<urn:a> <urn:b> <urn:c> ."),
        ("n_triples", "<urn:a> <urn:b> <urn:c> ."),
        ("cypher", '[{"a": 1}]'),
        ("text", "5"),
        (
            "xml",
            (
                '<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/>'
                "<boolean>true</boolean></sparql>"
            ),
        ),
    ],
)
def test_short_names_are_no_doubt(media_type: str, output: str) -> None:
    step = {"name": "find", "output_media_type": media_type, "output": output}
    assert load_reference(template(question(step)), strict=True).doubts == ()


SYNTAX_MISTAKES = """\
- template_id: films
  questions:
  - id: q1
    question_text: Which of these: a or b?
\treference_answer: x
  -id: q2
    question_text: 5
  - id: 6
    question_text: [What
"""


def test_lines_below_one_that_is_not_yaml_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(SYNTAX_MISTAKES)
    found = messages(path)
    lines = [message.partition("line ")[2].partition(",")[0].rstrip(")") for message in found]
    lines = [line.partition(";")[0] for line in lines]
    assert lines == ["4", "5", "6", "9", "7", "8"]


MANY_MISTAKES = """\
- template: films
  questions:
  - question_id: q1
    question_text: Which of these: a or b?
    reference_answer: 7
    mach: contains
    expected_steps:
    - - tool: find
        outputs: x
  - id: q2
    question: How many?
    reference_answer: a
    match: contain
    reference_steps:
    - - name: sparql_query
        order: true
        media_type: csv
        output: >
          film
          urn:a
  - id: q2
    question_text: @you
"""
LINES = [1, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 18, 21, 22]


def test_all_mistakes_of_a_file_are_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(MANY_MISTAKES)
    found = messages(path)
    for line in LINES:
        assert any(f"line {line}" in f"{message}," for message in found), (line, found)
    assert len(found) == len(LINES)


def test_equal_mistakes_are_one(tmp_path: Path) -> None:
    questions = [{"id": number, "question_text": "What?"} for number in range(300)]
    path = tmp_path / "r.json"
    path.write_text(json.dumps(template(*questions), indent=1))
    assert messages(path) == [
        (
            "templates[0].questions[0].id: expected text, got the number 0; put it in quotes; "
            "in 300 places (lines 6, 10, 14 and 297 more)"
        )
    ]
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(template(*questions))
    assert caught.value.problems == [
        (
            "templates[0].questions[0].id: expected text, got the number 0; put it in quotes; "
            "in 300 places, also templates[0].questions[1].id, templates[0].questions[2].id and "
            "297 more"
        )
    ]


def test_the_message_of_an_error_has_the_first_problems() -> None:
    questions = [question(question_id=f"q{number // 2}") for number in range(60)]
    with pytest.raises(ReferenceDataError) as caught:
        load_reference(template(*questions))
    assert len(caught.value.problems) == 30
    headline, *listed, rest = str(caught.value).splitlines()
    assert headline == "reference set: 30 problems"
    assert len(listed) == 20
    assert rest == "  ... and 10 more; `graphrag-eval-async validate` lists all"


def test_queries_that_are_not_run_are_one_problem() -> None:
    questions = [
        question({"name": "sparql", "reference_query": "ASK {}"}, question_id=f"q{number}")
        for number in range(200)
    ]
    with pytest.raises(ReferenceDataError) as caught:
        run_evaluation_sync(template(*questions), [])
    assert caught.value.problems == [
        (
            "question 'q0': reference_steps[0][0].output: missing; `execute` in the configuration "
            "says where its reference_query, in SPARQL, is run; in 200 places, also question 'q1', "
            "question 'q2' and 197 more"
        )
    ]
