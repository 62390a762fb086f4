"""``init``, ``schema`` and ``grafana``: files to start from, and files for other programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from graphrag_eval_async.cli.command_table import OptionValues
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.errors import UsageError, check_extra
from graphrag_eval_async.helpers.text import one_line, tell

FILMS = ("reference.yaml", "responses.jsonl", "judges.yaml", "harness.py")
"""Files of an example whose agent queries SPARQL; of the folder `cli/films`."""

CYPHER_FILMS = ("reference.yaml", "responses.jsonl", "execute.yaml")
"""Files of an example whose agent queries Cypher; of the folder `cli/films_cypher`."""

DATABASE = "films.lbug"
"""The file of Ladybug with the films."""


@dataclass(frozen=True, kw_only=True)
class InitOptions(OptionValues):
    """The options of ``init``."""

    folder: str
    questions: str | None
    cypher: bool


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(OptionValues):
    """The options of ``schema``."""

    name: Literal["reference", "responses", "results", "aggregates", "configuration"]


def run(options: InitOptions, _interrupts: Interrupts) -> Exit:
    """Write the files of an example into a folder, or one with the user's questions."""
    if options.cypher and options.questions is not None:
        raise UsageError("--cypher: not with --questions")
    folder = Path(options.folder)
    if options.cypher:
        contents = _cypher_contents(folder)
        next_commands = _next_commands_for_cypher(folder)
    else:
        contents = _contents(options.questions)
        next_commands = _next_commands(folder, has_own_questions=options.questions is not None)

    new_names = _write(folder, contents, options.folder)
    if new_names:
        done = f"wrote {', '.join(new_names)} to {options.folder}"
    else:
        done = f"{options.folder} has all files already"
    tell(sys.stdout, one_line(done))
    for goal, command in next_commands:
        tell(sys.stdout, f"\n{goal}:\n  {one_line(command)}")
    return Exit.OK


def _contents(questions_path: str | None) -> dict[str, bytes]:
    """Return the contents of the files of an example, by name.

    Args:
        questions_path: file with the user's questions; None for questions about films.
    """
    source = files("graphrag_eval_async.cli") / "films"
    contents = {}
    for name in FILMS:
        # In a package, a program that ends in .py would be taken for a part of it.
        written_name = f"{name}.txt" if name.endswith(".py") else name
        contents[name] = (source / written_name).read_bytes()
    if questions_path is not None:
        from graphrag_eval_async.reference.authoring import to_yaml
        from graphrag_eval_async.reference.importing import import_questions

        del contents["responses.jsonl"]
        questions = to_yaml(import_questions(questions_path))
        contents["reference.yaml"] = (source / "questions.txt").read_bytes() + questions
    return contents


def _cypher_contents(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files of an example with Cypher, by name.

    An existing database counts as it is, since Ladybug does not write equal files.

    Args:
        folder: the folder for the files, whose path the configuration holds.
    """
    check_extra("init --cypher", "cypher", "ladybug")
    source = files("graphrag_eval_async.cli") / "films_cypher"
    contents = {name: (source / name).read_bytes() for name in CYPHER_FILMS}
    path = json.dumps(str(folder / DATABASE), ensure_ascii=False)
    contents["execute.yaml"] = contents["execute.yaml"].replace(b"FILMS", path.encode())
    database = folder / DATABASE
    if database.is_file():
        contents[DATABASE] = database.read_bytes()
    else:
        statements = (source / "films.cypher").read_text(encoding="utf-8")
        contents[DATABASE] = _make_database(statements)
    return contents


def _make_database(statements: str) -> bytes:
    """Return the content of a database file of Ladybug, made by statements in Cypher.

    Args:
        statements: the statements, each of which ends in a semicolon.
    """
    import ladybug

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / DATABASE
        # Without limits, Ladybug reserves 8 TB of address space.
        size = 64 * 1024 * 1024
        with (
            ladybug.Database(path, max_db_size=size, buffer_pool_size=size) as database,
            ladybug.Connection(database) as connection,
        ):
            connection.execute(statements)
        return path.read_bytes()


def _write(folder: Path, contents: dict[str, bytes], shown_folder: str) -> list[str]:
    """Write files that do not exist yet, and return their names.

    Raises:
        UsageError: a file exists with other contents, or cannot be written.
    """
    existing_names = [name for name in contents if os.path.lexists(folder / name)]
    new_names = [name for name in contents if name not in existing_names]
    try:
        changed_names = [
            name for name in existing_names if not _has_contents(folder / name, contents[name])
        ]
        if changed_names:
            raise UsageError(
                f"{shown_folder!r} has {', '.join(changed_names)} already; give another folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name in new_names:
            with open(folder / name, "xb") as file:
                file.write(contents[name])
    except OSError as error:
        raise UsageError(f"{shown_folder!r} cannot be written: {error.strerror}") from error
    return new_names


def _has_contents(path: Path, contents: bytes) -> bool:
    """Return whether a path is a file with these contents."""
    return path.is_file() and path.read_bytes() == contents


def _next_commands(folder: Path, *, has_own_questions: bool) -> list[tuple[str, str]]:
    """Return what to do next: pairs of a goal and the command for it."""
    reference, responses, _, harness = (shlex.quote(str(folder / name)) for name in FILMS)
    score_agent = ("score your agent, once harness.py calls it", f"python {harness}")
    validate = f"graphrag-eval-async validate {reference}"
    if has_own_questions:
        return [("check the questions", validate), score_agent]
    evaluate = f"graphrag-eval-async evaluate {reference} {responses} -o results.jsonl"
    return [
        ("score the two responses (one is wrong)", evaluate),
        ("see why it is wrong", "graphrag-eval-async report results.jsonl"),
        score_agent,
        ("check the questions, once they are yours", validate),
    ]


def _next_commands_for_cypher(folder: Path) -> list[tuple[str, str]]:
    """Return what to do next with an example with Cypher: pairs of a goal and the command."""
    reference, responses, config = (shlex.quote(str(folder / name)) for name in CYPHER_FILMS)
    evaluate = f"graphrag-eval-async evaluate {reference} {responses}"
    return [
        (
            "run the queries of the two responses and score them (one is wrong)",
            f"{evaluate} --config {config} -o results.jsonl",
        ),
        ("see why it is wrong", "graphrag-eval-async report results.jsonl"),
        (
            "check the questions, once they are yours",
            f"graphrag-eval-async validate {reference}",
        ),
    ]


def schema(options: SchemaOptions, _interrupts: Interrupts) -> Exit:
    """Print the JSON schema of a file."""
    from graphrag_eval_async.reference.schemas import json_schema

    tell(sys.stdout, json.dumps(json_schema(options.name), indent=2))
    return Exit.OK


def grafana(_options: OptionValues, _interrupts: Interrupts) -> Exit:
    """Print the dashboard for Grafana."""
    dashboard = files("graphrag_eval_async.exporters") / "grafana.json"
    tell(sys.stdout, dashboard.read_text(encoding="utf-8").removesuffix("\n"))
    return Exit.OK
