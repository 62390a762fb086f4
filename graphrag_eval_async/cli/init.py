"""``init``: a small reference set, responses, a configuration and a harness to start from."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.text import one_line, tell

if TYPE_CHECKING:
    from graphrag_eval_async.cli.options import Given

REFERENCE = """\
# A reference set: templates of questions with what is expected of an agent. Replace it by your own.
- template_id: films_of_a_director      # questions of one kind; scores are shown for each template
  questions:
  - id: films-of-varda                  # responses name their question by this id
    question_text: Which films did Agnes Varda direct?
    reference_answer: Cleo from 5 to 7 and Vagabond
    reference_steps:                    # groups of steps; those of the last group are scored
    - - name: sparql_query              # "- -" begins a group; its other steps begin with "  -"
        output_media_type: application/sparql-results+json
        required_columns: [film]        # of the results; their names may be others in the response
        output: |
          {"head": {"vars": ["film"]},
           "results": {"bindings": [{"film": {"type": "uri", "value": "urn:film:cleo"}},
                                    {"film": {"type": "uri", "value": "urn:film:vagabond"}}]}}
"""

RESPONSES = """\
{"question_id": "films-of-varda", "actual_answer": "Cleo from 5 to 7, and Vagabond.", "elapsed_sec": 2.5, \
"actual_steps": [{"name": "sparql_query", "id": "call_1", "status": "success", \
"args": {"query": "SELECT ?f {?f <urn:director> <urn:varda>}"}, \
"output": "{\\"head\\": {\\"vars\\": [\\"f\\"]}, \\"results\\": {\\"bindings\\": [\
{\\"f\\": {\\"type\\": \\"uri\\", \\"value\\": \\"urn:film:vagabond\\"}}, \
{\\"f\\": {\\"type\\": \\"uri\\", \\"value\\": \\"urn:film:cleo\\"}}]}}"}]}
"""

JUDGES = """\
# LLM judges: evaluate ... --config judges.yaml; with --dry-run, only says what that would cost.
llm:
  generation: {provider: openai, model: gpt-4o-mini}   # the key is in OPENAI_API_KEY
  limits: {budget_usd: 1}
answer_correctness: {}
"""

HARNESS = '''\
"""Asks an agent every question, and evaluates each answer as it comes."""

import asyncio
from pathlib import Path

from graphrag_eval_async import evaluate_agent


async def agent(question):
    """Call your agent here. What it returns has the form of responses.jsonl."""
    return {"actual_answer": f"I do not know: {question.text}", "actual_steps": []}


async def main():
    reference = Path(__file__).with_name("reference.yaml")
    async with evaluate_agent(reference, agent, max_concurrency=4, timeout=60) as stream:
        async for result in stream:
            print(result["question_id"], result["status"], result["steps_score"], result["failure"])
        for reject in stream.rejects:
            print("rejected:", reject)


asyncio.run(main())
'''

FILES = {
    "reference.yaml": REFERENCE,
    "responses.jsonl": RESPONSES,
    "judges.yaml": JUDGES,
    "harness.py": HARNESS,
}


def run(given: Given, _interrupts: Interrupts) -> Exit:
    folder = Path(given.folder)
    if taken := [name for name in FILES if os.path.lexists(folder / name)]:
        raise UsageError(f"{given.folder!r} has {', '.join(taken)} already; give another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in FILES.items():
            with open(folder / name, "x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise UsageError(f"{given.folder!r} cannot be written: {error.strerror}") from error
    reference, responses = (shlex.quote(str(folder / name)) for name in ("reference.yaml", "responses.jsonl"))
    tell(sys.stdout, one_line(f"wrote {', '.join(FILES)} to {given.folder}; next:"))
    tell(sys.stdout, one_line(f"  graphrag-eval-async evaluate {reference} {responses} -o results.jsonl"))
    return Exit.OK
