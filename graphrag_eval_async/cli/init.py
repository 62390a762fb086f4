"""``init``, ``schema`` and ``grafana``: files to start from, and files for other programs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.text import one_line, tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.commands import Given

FILMS = ("reference.yaml", "responses.jsonl", "judges.yaml", "harness.py")


def run(given: Given, _interrupts: Interrupts) -> Exit:
    """Write the files of the folder `films` beside this module, or the given questions instead of films."""
    folder, source = Path(given.folder), files(__package__) / "films"
    paths = {name: source / (f"{name}.txt" if name.endswith(".py") else name) for name in FILMS}
    texts = {name: path.read_bytes() for name, path in paths.items()}
    if given.questions is not None:
        from graphrag_eval_async.reference.authoring import to_yaml
        from graphrag_eval_async.reference.importing import import_questions

        del texts["responses.jsonl"]
        questions = to_yaml(import_questions(given.questions))
        texts["reference.yaml"] = (source / "questions.txt").read_bytes() + questions
    if taken := [name for name in texts if os.path.lexists(folder / name)]:
        raise UsageError(f"{given.folder!r} has {', '.join(taken)} already; give another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with open(folder / name, "xb") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{given.folder!r} cannot be written: {error.strerror}") from error
    reference, responses = (shlex.quote(str(folder / name)) for name in FILMS[:2])
    tell(sys.stdout, one_line(f"wrote {', '.join(texts)} to {given.folder}; next:"))
    evaluate = f"evaluate {reference} {responses} -o results.jsonl"
    command = f"validate {reference}" if given.questions else evaluate
    tell(sys.stdout, one_line(f"  graphrag-eval-async {command}"))
    return Exit.OK


def schema(given: Given, _interrupts: Interrupts) -> Exit:
    from graphrag_eval_async.reference.schemas import json_schema

    tell(sys.stdout, json.dumps(json_schema(given.name), indent=2))
    return Exit.OK


def grafana(_given: Given, _interrupts: Interrupts) -> Exit:
    dashboard = files("graphrag_eval_async.monitor") / "grafana.json"
    tell(sys.stdout, dashboard.read_text(encoding="utf-8").removesuffix("\n"))
    return Exit.OK
