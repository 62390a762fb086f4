"""A small TEXT2SPARQL endpoint, in which rules stand for a model: they turn English questions into SPARQL.

python examples/text2sparql_server.py --port 8000 --graph examples/grid.ttl --dataset https://example.org/grid/
curl -G localhost:8000 -d dataset=https://example.org/grid/ -d question="How many substations are there?"
"""

from __future__ import annotations

import argparse
import json
import re
from difflib import get_close_matches
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pyoxigraph
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

GRAPH, DATASET = Path(__file__).with_name("grid.ttl"), "https://example.org/grid/"

KIND, AT = r"(?P<kind>[\w ]+?)", r"(?: are)?(?: there)? (?:at|in) (?P<value>.+)"
LIMIT = r" (?:have|with) an? (?P<property>[\w ]+?) (?P<sign>over|under) (?P<number>\d+(?:\.\d+)?)(?: \w+)?"

NAMED = "SELECT ?name { ?x a $kind ; $label ?name"
RULES = {
    f"(?:which|what) {KIND}{AT}": f"{NAMED} ; ($links)/$label $value }}",
    f"(?:which|what) {KIND}{LIMIT}": f"{NAMED} ; $property ?n FILTER(?n $sign $number) }}",
    f"list the {KIND} by (?P<property>[\\w ]+), the (?P<order>largest|smallest) first": (
        f"{NAMED} ; $property ?n }} ORDER BY $order(?n) ?name"
    ),
    f"(?:list|which|what) (?:all |the )*{KIND}(?: are there)?": f"{NAMED} }}",
    f"how many {KIND}{AT}": "SELECT (COUNT(*) AS ?count) { ?x a $kind ; ($links)/$label $value }",
    f"how many {KIND}(?: are there)?": "SELECT (COUNT(*) AS ?count) { ?x a $kind }",
    r"does (?P<object>\w+) (?P<property>\w+) (?P<value>.+)": "ASK { ?x $label $value ; $property $object }",
    r"(?:what is the (?P<property>[\w ]+) of|who (?P<verb>\w+)) (?P<value>.+)": (
        "SELECT ?value { ?x $label $value ; $property ?value }"
    ),
}
"""What questions look like, and their queries. The first rule whose query finds something answers."""

WORDS = {"over": ">", "under": "<", "largest": "DESC", "smallest": "ASC"}


class Answerer:
    """Knows a graph, whose classes and properties are named as in questions."""

    def __init__(self, path: Path) -> None:
        self._store = pyoxigraph.Store()
        self._store.load(path=str(path))
        self._kinds = self._names("SELECT DISTINCT ?term { ?x a ?term }")
        self._properties = self._names("SELECT DISTINCT ?term { ?x ?term ?y }")
        self._label = self._properties["name"]
        links = self._names(f"SELECT DISTINCT ?term {{ ?x ?term ?y . ?y {self._label} ?name }}")
        self._links = "|".join(links.values())

    def _names(self, query: str) -> dict[str, str]:
        """The IRIs that a query finds, by their last words: `rated power` for `ratedPower`."""
        found: Any = self._store.query(query)
        terms = [row["term"] for row in found]
        words = {term: re.split(r"[/#]", term.value)[-1] for term in terms}
        return {re.sub(r"(?<=[a-z])(?=[A-Z])", " ", word).lower(): str(term) for term, word in words.items()}

    def query(self, question: str) -> str | None:
        """Return a query that answers the question; None if there is none."""
        for pattern, query in RULES.items():
            if found := re.fullmatch(pattern, question.strip(" ?.!"), re.IGNORECASE):
                parts = {name: text for name, text in found.groupdict().items() if text}
                parts["property"] = parts.pop("verb", parts.get("property", "name"))
                for name, known in (("kind", self._kinds), ("property", self._properties)):
                    near = get_close_matches(parts.get(name, "").lower(), known, 1, 0.7)
                    parts[name] = known[near[0]] if near else "<urn:unknown>"
                for name in {"value", "object"} & parts.keys():
                    parts[name] = str(pyoxigraph.Literal(parts[name]))
                parts = {name: WORDS.get(text.lower(), text) for name, text in parts.items()}
                written = Template(query).substitute(parts, label=self._label, links=self._links)
                result: Any = self._store.query(written)
                if "<urn:unknown>" not in written and (written.startswith("ASK") or any(result)):
                    return written
        return None


def create_app(graph: Path = GRAPH, dataset: str = DATASET) -> Starlette:
    """Return an app that answers `GET /?dataset=...&question=...`, and `POST /` with both as JSON."""
    answerer = Answerer(graph)

    async def answer(request: Request) -> Response:
        try:
            given = dict(request.query_params) if request.method == "GET" else await request.json()
            asked, question = str(given["dataset"]), str(given["question"])
        except (json.JSONDecodeError, KeyError, TypeError):
            return JSONResponse({"error": "expected the parameters dataset and question"}, 400)
        if asked != dataset:
            return JSONResponse({"error": f"unknown dataset; the only one is {dataset}"}, 400)
        return JSONResponse({"dataset": asked, "question": question, "query": answerer.query(question)})

    return Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--graph", type=Path, default=GRAPH)
    parser.add_argument("--dataset", default=DATASET)
    arguments = parser.parse_args()
    uvicorn.run(create_app(arguments.graph, arguments.dataset), port=arguments.port)
