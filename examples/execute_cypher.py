"""Run reference queries and an agent's queries in Cypher on a file, and compare what they return.

It needs the extra `cypher`.

python examples/execute_cypher.py
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import ladybug

from graphrag_eval_async import evaluate_stream

STATEMENTS = """
CREATE NODE TABLE Station(name STRING PRIMARY KEY);
CREATE REL TABLE LINE(FROM Station TO Station, kv INT64);
CREATE (a:Station {name: 'Bergheim'})-[:LINE {kv: 110}]->(b:Station {name: 'Lindau'}),
    (b)-[:LINE {kv: 220}]->(:Station {name: 'Tannau'});
"""

REFERENCE = [
    {
        "template_id": "stations",
        "questions": [
            {
                "id": "next-to-lindau",
                "question_text": "Which stations are connected with Lindau?",
                "reference_steps": [
                    [
                        {
                            "name": "cypher_query",
                            "reference_query": (
                                "MATCH (:Station {name: 'Lindau'})-[:LINE]-(s:Station) "
                                "RETURN s.name ORDER BY s.name"
                            ),
                        }
                    ]
                ],
            }
        ],
    }
]

QUERIES = {
    "right": "MATCH (s)-[:LINE]-(l) WHERE l.name = $name RETURN s.name ORDER BY s.name",
    "wrong": "MATCH (s)-[:LINE]->(l) WHERE l.name = $name RETURN s.name",
    "invalid": "MATCH (s:Town) RETURN s.name",
    "refused": "MATCH (s:Station) DETACH DELETE s",
}


def write_stations(path: Path) -> None:
    """Write a Ladybug database with three stations."""
    with (
        ladybug.Database(path, max_db_size=1 << 26, buffer_pool_size=1 << 26) as database,
        ladybug.Connection(database) as connection,
    ):
        connection.execute(STATEMENTS)


def response(query: str) -> dict[str, object]:
    args = {"query": query, "params": {"name": "Lindau"}}
    step = {"name": "cypher_query", "status": "success", "args": args}
    return {"question_id": "next-to-lindau", "actual_steps": [step]}


async def main(path: Path) -> None:
    stream = evaluate_stream(
        REFERENCE,
        map(response, QUERIES.values()),
        config={"execute": {"graph": str(path)}},
        ordered=True,
    )
    async with stream:
        for name in QUERIES:
            result = await anext(stream)
            print(name, result["steps_score"], result["failure"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stations.lbug"
        write_stations(file)
        asyncio.run(main(file))
