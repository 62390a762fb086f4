"""Tells which benchmark a file looks like, and how to read it."""

from __future__ import annotations

import shlex
from typing import Any

from msgspec import Struct

from graphrag_eval_async.records.yaml_file import UnreadableFile
from graphrag_eval_async.reference.benchmarks.records import (
    UnreadableRecords,
    first_records,
    read_records,
    value_at,
)


class Benchmark(Struct, frozen=True, kw_only=True):
    """A benchmark, and how to tell and read its files.

    Attributes:
        name: as its authors write it.
        keys: paths that each question has, in the layout of `value_at`.
        options: of ``convert`` that read the file.
        format: the name that `load_reference` takes; None if the file is read by naming its keys.
    """

    name: str
    keys: tuple[str, ...]
    options: str
    format: str | None = None


class Recognized(Struct, frozen=True, kw_only=True):
    """What a file looks like.

    Attributes:
        message: which benchmark, and the command that converts the file.
        format: the name that `load_reference` takes, if there is one.
    """

    message: str
    format: str | None


def _by_keys(name: str, signature: str, options: str) -> Benchmark:
    return Benchmark(name=name, keys=tuple(signature.split()), options=f"--from json {options}")


BENCHMARKS = (
    _by_keys(
        "LC-QuAD 1.0",
        "_id corrected_question sparql_query",
        "--id _id --question corrected_question --query sparql_query",
    ),
    _by_keys(
        "LC-QuAD 2.0",
        "uid NNQT_question sparql_wikidata",
        "--id uid --question question --query sparql_wikidata",
    ),
    _by_keys(
        "GrailQA",
        "qid s_expression sparql_query",
        "--id qid --question question --query sparql_query",
    ),
    _by_keys(
        "ComplexWebQuestions",
        "ID webqsp_ID compositionality_type",
        "--id ID --question question --query sparql --answer answers.answer",
    ),
    _by_keys(
        "KQA Pro",
        "question choices program",
        "--question question --query sparql --answer answer",
    ),
    Benchmark(
        name="QALD",
        keys=("id", "question.language", "query"),
        options="--from qald",
        format="qald",
    ),
    _by_keys(
        "SciQA",
        "id question.string query.sparql",
        "--id id --question question.string --query query.sparql",
    ),
    _by_keys(
        "Text2Cypher",
        "question cypher schema",
        "--id instance_id --question question --query cypher",
    ),
    _by_keys(
        "CypherBench",
        "qid nl_question gold_cypher",
        "--id qid --question nl_question --query gold_cypher",
    ),
    Benchmark(
        name="WebQSP", keys=("QuestionId", "Parses"), options="--from webqsp", format="webqsp"
    ),
    Benchmark(
        name="TEXT2SPARQL",
        keys=("id", "question", "query.sparql", "features"),
        options="--from text2sparql",
        format="text2sparql",
    ),
)
"""The benchmarks that are recognized; the first whose keys fit a file is the one that is meant.

QALD comes before SciQA, whose keys its questions have, too.
"""


def describe_benchmark(document: Any, source: str) -> Recognized | None:
    """Return which benchmark a file looks like; None if it looks like none of the known ones.

    Args:
        document: the contents of the file.
        source: its path, for the command in the message.
    """
    records = first_records(document)
    if not records:
        return None
    for benchmark in BENCHMARKS:
        if all(_has_all(record, benchmark.keys) for record in records):
            command = f"graphrag-eval-async convert {benchmark.options} {shlex.quote(source)}"
            return Recognized(
                message=f"looks like {benchmark.name}; to read it: {command} -o reference.yaml",
                format=benchmark.format,
            )
    return None


def recognize_file(path: str) -> Recognized | None:
    """Return which benchmark a file looks like: a file of JSON, JSON lines or CSV.

    Returns:
        None if the file cannot be read, or looks like none of the known benchmarks.
    """
    try:
        records = read_records(path)
    except (UnreadableFile, UnreadableRecords):
        return None
    return describe_benchmark([record for _, record in records], path)


def _has_all(record: dict[str, Any], paths: tuple[str, ...]) -> bool:
    return all(value_at(record, path) is not None for path in paths)
