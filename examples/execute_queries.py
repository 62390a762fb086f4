"""Run reference queries and an agent's queries on a file, and compare what they return.

python examples/execute_queries.py
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from graphrag_eval_async import evaluate_stream

HERE = Path(__file__).parent

QUERIES = {
    "right": 'SELECT ?n { ?x grid:in ?s ; grid:name ?n . ?s grid:name "Bergheim" }',
    "wrong": "SELECT ?n { ?x grid:in ?s ; grid:name ?n }",
    "invalid": "SELECT ?n { ?x grid:in }",
    "refused": "SELECT ?n { SERVICE <https://example.org/sparql> { ?x ?p ?n } }",
}


def response(query: str) -> dict[str, object]:
    step = {"name": "sparql_query", "status": "success", "args": {"query": query}}
    return {"question_id": "transformers-of-bergheim", "actual_steps": [step]}


async def main() -> None:
    stream = evaluate_stream(
        HERE / "grid_questions.yaml",
        map(response, QUERIES.values()),
        config={"execute": {"graph": str(HERE / "grid.ttl")}},
        ordered=True,
    )
    async with stream:
        for name in QUERIES:
            result = await anext(stream)
            print(name, result["steps_score"], result["failure"])


if __name__ == "__main__":
    asyncio.run(main())
