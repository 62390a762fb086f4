"""A small TEXT2SPARQL endpoint: answers with the queries of an agent of `benchmark/agents.py`.

python examples/text2sparql_server.py [--agent grammar] [--port 8000] curl -G localhost:8000 -d
dataset=https://example.org/grid/ --data-urlencode question="Who runs Dunmere?"
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

DATASET = "https://example.org/grid/"
AGENTS: dict[str, Callable[[str], dict[str, Any]]] = run_path(
    str(Path(__file__).with_name("benchmark") / "agents.py")
)["AGENTS"]


def refused(error: str) -> Response:
    return JSONResponse({"error": error}, 400)


def create_app(agent: str = "grammar") -> Starlette:
    """Return an app that answers `GET /?dataset=...&question=...`, and `POST /` with both as
    JSON.
    """

    async def answer(request: Request) -> Response:
        try:
            given = {**(request.query_params if request.method == "GET" else await request.json())}
        except (ValueError, TypeError):
            return refused("expected a JSON object with dataset and question")
        for name in ("dataset", "question"):
            if not isinstance(given.get(name), str):
                return refused(f"expected the parameter {name}, which is text")
        if given["dataset"] != DATASET:
            return refused(f"unknown dataset; the only one is {DATASET}")
        try:
            steps = AGENTS[agent](given["question"])["actual_steps"]
        except LookupError:  # The agent has no query.
            steps = []
        query = steps[-1]["args"]["query"] if steps else None
        return JSONResponse({"dataset": DATASET, "question": given["question"], "query": query})

    return Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=AGENTS, default="grammar")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(create_app(arguments.agent), port=arguments.port)
