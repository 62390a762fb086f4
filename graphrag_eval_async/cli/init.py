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
    """Write the files of the folder `films` beside this module, or the given questions instead
    of films.
    """
    folder, source = Path(given.folder), files(__package__) / "films"
    paths = {name: source / (f"{name}.txt" if name.endswith(".py") else name) for name in FILMS}
    texts = {name: path.read_bytes() for name, path in paths.items()}
    if given.questions is not None:
        from graphrag_eval_async.reference.authoring import to_yaml
        from graphrag_eval_async.reference.importing import import_questions

        del texts["responses.jsonl"]
        questions = to_yaml(import_questions(given.questions))
        texts["reference.yaml"] = (source / "questions.txt").read_bytes() + questions
    existing = [name for name in texts if os.path.lexists(folder / name)]
    try:
        if changed := [name for name in existing if not _has(folder / name, texts[name])]:
            raise UsageError(
                f"{given.folder!r} has {', '.join(changed)} already; give another folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        new = [name for name in texts if name not in existing]
        for name in new:
            with open(folder / name, "xb") as file:
                file.write(texts[name])
    except OSError as error:
        raise UsageError(f"{given.folder!r} cannot be written: {error.strerror}") from error
    done = (
        f"wrote {', '.join(new)} to {given.folder}"
        if new
        else f"{given.folder} has all files already"
    )
    tell(sys.stdout, one_line(done))
    for goal, command in _next(folder, own_questions=given.questions is not None):
        tell(sys.stdout, f"\n{goal}:\n  {one_line(command)}")
    return Exit.OK


def _has(path: Path, text: bytes) -> bool:
    return path.is_file() and path.read_bytes() == text


def _next(folder: Path, *, own_questions: bool) -> list[tuple[str, str]]:
    """What to do next: a goal and the command for it, of each step."""
    reference, responses, _, harness = (shlex.quote(str(folder / name)) for name in FILMS)
    agent = ("score your agent, once harness.py calls it", f"python {harness}")
    if own_questions:
        return [("check the questions", f"graphrag-eval-async validate {reference}"), agent]
    evaluate = f"graphrag-eval-async evaluate {reference} {responses} -o results.jsonl"
    return [
        ("score the two responses (one is wrong)", evaluate),
        ("see why it is wrong", "graphrag-eval-async report results.jsonl"),
        agent,
        ("check the questions, once they are yours", f"graphrag-eval-async validate {reference}"),
    ]


def schema(given: Given, _interrupts: Interrupts) -> Exit:
    from graphrag_eval_async.reference.schemas import json_schema

    tell(sys.stdout, json.dumps(json_schema(given.name), indent=2))
    return Exit.OK


def grafana(_given: Given, _interrupts: Interrupts) -> Exit:
    dashboard = files("graphrag_eval_async.monitor") / "grafana.json"
    tell(sys.stdout, dashboard.read_text(encoding="utf-8").removesuffix("\n"))
    return Exit.OK
