"""Values of Cypher, and what databases, drivers and tools write of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from graphrag_eval_async import run_evaluation_sync
from tests.support.data import question, template

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SRID_CLASSES = {4326: "WGS84Point", 4979: "WGS84Point", 7203: "CartesianPoint"}


@dataclass(frozen=True)
class Node:
    labels: tuple[str, ...]
    properties: dict[str, Any]
    id: int = 0


@dataclass(frozen=True)
class Rel:
    type: str
    start: Node
    end: Node
    properties: dict[str, Any] = field(default_factory=dict)
    id: int = 0


@dataclass(frozen=True)
class Path:
    nodes: tuple[Node, ...]
    rels: tuple[Rel, ...]


@dataclass(frozen=True)
class Point:
    coordinates: tuple[float, ...]
    srid: int = 4326


@dataclass(frozen=True)
class Duration:
    months: int
    days: int
    seconds: int


@dataclass(frozen=True)
class Table:
    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def table(*rows: Sequence[Any], names: Sequence[str] = "abcdef") -> Table:
    return Table(tuple(names[: len(rows[0])]), tuple(map(tuple, rows)))


def iso(value: date | time | Duration) -> str:
    """A date, time or duration as Neo4j writes it."""
    if isinstance(value, Duration):
        return f"P{value.months}M{value.days}DT{value.seconds}S"
    if isinstance(value, datetime | time):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat()


# JSON of Neo4j's Query API.


def typed(value: Any) -> dict[str, Any]:  # noqa: C901 - one case for each kind
    def of(kind: str, contents: Any) -> dict[str, Any]:
        return {"$type": kind, "_value": contents}

    match value:
        case None:
            return of("Null", None)
        case bool():
            return of("Boolean", value)
        case int():
            return of("Integer", str(value))
        case float():
            return of("Float", repr(value))
        case str():
            return of("String", value)
        case datetime():
            return of("OffsetDateTime" if value.tzinfo else "LocalDateTime", iso(value))
        case date():
            return of("Date", iso(value))
        case time():
            return of("Time" if value.tzinfo else "LocalTime", iso(value))
        case Duration():
            return of("Duration", iso(value))
        case list():
            return of("List", [typed(item) for item in value])
        case dict():
            return of("Map", {key: typed(item) for key, item in value.items()})
        case Point():
            numbers = " ".join(map(str, value.coordinates))
            return of("Point", f"SRID={value.srid};POINT ({numbers})")
        case Node():
            members = {
                "_element_id": f"4:db:{value.id}",
                "_labels": [*value.labels],
                "_properties": {key: typed(item) for key, item in value.properties.items()},
            }
            return of("Node", members)
        case Rel():
            members = {
                "_element_id": f"5:db:{value.id}",
                "_start_node_element_id": f"4:db:{value.start.id}",
                "_end_node_element_id": f"4:db:{value.end.id}",
                "_type": value.type,
                "_properties": {key: typed(item) for key, item in value.properties.items()},
            }
            return of("Relationship", members)
    return of("Path", [typed(part) for part in in_turns(value)])


def in_turns(path: Path) -> list[Any]:
    """The nodes and relationships of a path in turns."""
    parts: list[Any] = [path.nodes[0]]
    for rel, node in zip(path.rels, path.nodes[1:], strict=True):
        parts += [rel, node]
    return parts


def plain(value: Any) -> Any:
    """A value in the JSON of the Query API without types."""
    match value:
        case date() | time() | Duration():
            return iso(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case Point():
            return {"srid": value.srid, **dict(zip("xyz", value.coordinates, strict=False))}
        case Node():
            return {
                "elementId": f"4:db:{value.id}",
                "labels": [*value.labels],
                "properties": plain(value.properties),
            }
        case Rel():
            return {
                "elementId": f"5:db:{value.id}",
                "startNodeElementId": f"4:db:{value.start.id}",
                "endNodeElementId": f"4:db:{value.end.id}",
                "type": value.type,
                "properties": plain(value.properties),
            }
        case Path():
            return [plain(part) for part in in_turns(value)]
    return value


def query_api(results: Table, write: Callable[[Any], Any]) -> str:
    rows = [[write(cell) for cell in row] for row in results.rows]
    return json.dumps({"data": {"fields": results.names, "values": rows}, "bookmarks": ["b"]})


# JSON of Neo4j's transactional API.


def properties_alone(value: Any) -> Any:
    match value:
        case Node() | Rel():
            return plain(value.properties)
        case Path():
            return [properties_alone(part) for part in in_turns(value)]
        case list():
            return [properties_alone(item) for item in value]
        case dict():
            return {key: properties_alone(item) for key, item in value.items()}
        case Point():
            system = {"srid": value.srid, "name": "wgs-84", "type": "link", "properties": {}}
            return {"type": "Point", "coordinates": [*value.coordinates], "crs": system}
    return plain(value)


def metas(value: Any) -> list[Any]:
    match value:
        case Node():
            return [{"id": value.id, "type": "node", "deleted": False}]
        case Rel():
            return [{"id": value.id, "type": "relationship", "deleted": False}]
        case Path():
            return [[meta for part in in_turns(value) for meta in metas(part)]]
        case list():
            return [meta for item in value for meta in metas(item)]
        case dict():
            return [meta for item in value.values() for meta in metas(item)]
    return [None]


def entities(value: Any) -> list[Any]:
    match value:
        case Node():
            return [value]
        case Rel():
            return [value, value.start, value.end]
        case Path():
            return [entity for part in in_turns(value) for entity in entities(part)]
        case list():
            return [entity for item in value for entity in entities(item)]
        case dict():
            return [entity for item in value.values() for entity in entities(item)]
    return []


def transactional(results: Table, *, with_graph: bool) -> str:
    data = []
    for row in results.rows:
        item: dict[str, Any] = {"row": [properties_alone(cell) for cell in row]}
        item["meta"] = [meta for cell in row for meta in metas(cell)]
        if with_graph:
            inside = entities([*row])
            item["graph"] = {
                "nodes": [
                    {
                        "id": str(each.id),
                        "labels": [*each.labels],
                        "properties": plain(each.properties),
                    }
                    for each in inside
                    if isinstance(each, Node)
                ],
                "relationships": [
                    {
                        "id": str(each.id),
                        "type": each.type,
                        "startNode": str(each.start.id),
                        "endNode": str(each.end.id),
                        "properties": plain(each.properties),
                    }
                    for each in inside
                    if isinstance(each, Rel)
                ],
            }
        data.append(item)
    return json.dumps({"results": [{"columns": results.names, "data": data}], "errors": []})


# Rows of `record.data()` of Neo4j's driver.


def record_data(value: Any) -> Any:  # noqa: C901 - one case for each kind
    """A value as `record.data()` and then JSON have it."""
    match value:
        case Node():
            return record_data(value.properties)
        case Rel():
            start, end = record_data(value.start), record_data(value.end)
            return [start, value.type, end]
        case Path():
            return [
                part.type if isinstance(part, Rel) else record_data(part)
                for part in in_turns(value)
            ]
        case Point():
            return [*value.coordinates]
        case Duration():
            return [value.months, value.days, value.seconds, 0]
        case datetime():
            return iso(value).replace("Z", "+00:00")
        case time():
            return value.isoformat(timespec="microseconds") + "000"
        case date():
            return iso(value)
        case list():
            return [record_data(item) for item in value]
        case dict():
            return {key: record_data(item) for key, item in value.items()}
    return value


def records(results: Table, write: Callable[[Any], Any] = record_data) -> list[dict[str, Any]]:
    return [dict(zip(results.names, map(write, row), strict=True)) for row in results.rows]


# What Python shows.


def shown(value: Any) -> str:  # noqa: C901 - one case for each kind
    """A value as Python's `repr` shows the objects of Neo4j's driver."""
    match value:
        case Node():
            labels = ", ".join(map(repr, value.labels))
            return (
                f"<Node element_id='4:db:{value.id}' labels=frozenset({{{labels}}}) "
                f"properties={shown(value.properties)}>"
            )
        case Rel():
            return (
                f"<Relationship element_id='5:db:{value.id}' "
                f"nodes=({shown(value.start)}, {shown(value.end)}) "
                f"type={value.type!r} properties={shown(value.properties)}>"
            )
        case Path():
            first, last = shown(value.nodes[0]), shown(value.nodes[-1])
            return f"<Path start={first} end={last} size={len(value.rels)}>"
        case Point():
            return f"{SRID_CLASSES[value.srid]}({', '.join(map(str, value.coordinates))})"
        case Duration():
            return (
                f"neo4j.time.Duration(months={value.months}, days={value.days}, "
                f"seconds={value.seconds}, nanoseconds=0)"
            )
        case datetime():
            parts = [value.year, value.month, value.day, value.hour, value.minute, value.second]
            zone = ", tzinfo=<UTC>" if value.tzinfo else ""
            return f"neo4j.time.DateTime({', '.join(map(str, parts))}, 0{zone})"
        case date():
            return f"neo4j.time.Date({value.year}, {value.month}, {value.day})"
        case time():
            return f"neo4j.time.Time({value.hour}, {value.minute}, {value.second}, 0)"
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case tuple():
            return f"({', '.join(map(shown, value))})"
        case dict():
            entries = [f"{key!r}: {shown(item)}" for key, item in value.items()]
            return f"{{{', '.join(entries)}}}"
    return repr(value)


def data_with_types(value: Any) -> Any:
    """A value as `record.data()` has it, before JSON."""
    match value:
        case Node():
            return value.properties
        case Rel():
            return (value.start.properties, value.type, value.end.properties)
        case Path():
            return [
                part.type if isinstance(part, Rel) else part.properties for part in in_turns(value)
            ]
        case list():
            return [data_with_types(item) for item in value]
        case dict():
            return {key: data_with_types(item) for key, item in value.items()}
    return value


def python_repr(results: Table) -> str:
    return shown(records(results, data_with_types))


def record_lines(results: Table) -> str:
    lines = []
    for row in results.rows:
        fields = [f"{name}={shown(cell)}" for name, cell in zip(results.names, row, strict=True)]
        lines.append(f"<Record {' '.join(fields)}>")
    return "\n".join(lines)


def retriever_result(results: Table) -> dict[str, Any]:
    """The hits of neo4j-graphrag's Text2CypherRetriever."""
    lines = record_lines(results).split("\n")
    return {
        "items": [{"content": line, "metadata": None} for line in lines],
        "metadata": {"cypher": "MATCH ...", "__retriever": "Text2CypherRetriever"},
    }


# Ladybug.


def ladybug(value: Any) -> Any:
    """A value of Ladybug, whose nodes also have the properties of other tables, as None."""
    match value:
        case Node():
            inside = {"_ID": {"offset": value.id, "table": 0}, "_LABEL": value.labels[0]}
            return {**inside, **ladybug(value.properties), "absent": None}
        case Rel():
            ends = {
                "_SRC": {"offset": value.start.id, "table": 0},
                "_DST": {"offset": value.end.id, "table": 0},
            }
            inside = {"_LABEL": value.type, "_ID": {"offset": value.id, "table": 2}}
            return {**ends, **inside, **ladybug(value.properties)}
        case Path():
            return {
                "_NODES": [ladybug(node) for node in value.nodes],
                "_RELS": [ladybug(rel) for rel in value.rels],
            }
        case Duration():
            return timedelta(days=value.days, seconds=value.seconds)
        case list():
            return [ladybug(item) for item in value]
        case dict():
            return {key: ladybug(item) for key, item in value.items()}
    return value


def get_all(results: Table) -> list[list[Any]]:
    return [[ladybug(cell) for cell in row] for row in results.rows]


def data_frame(results: Table) -> str:
    """Rows as pandas writes a data frame to JSON by default, with dates as text."""
    columns = zip(*get_all(results), strict=True)
    frame = {
        name: {str(number): cell for number, cell in enumerate(column)}
        for name, column in zip(results.names, columns, strict=True)
    }
    return json.dumps(frame, default=str)


# Text with cells.


def to_csv(results: Table, write: Callable[[Any], str]) -> str:
    written = io.StringIO()
    rows = [["" if cell is None else write(cell) for cell in row] for row in results.rows]
    csv.writer(written).writerows([results.names, *rows])
    return written.getvalue()


def to_markdown(results: Table) -> str:
    rows = [[as_text(cell).replace("|", "\\|") for cell in row] for row in results.rows]
    lines = [results.names, ["---"] * len(results.names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def as_text(value: Any) -> str:
    """A cell as Python's `str` writes it."""
    match value:
        case None | bool() | int() | float() | str():
            return str(value)
        case date() | time() | Duration():
            return iso(value)
    return shown(value)


def notation(value: Any) -> str:  # noqa: C901 - one case for each kind
    """A value in the notation of Cypher, as cypher-shell prints it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return json.dumps(value)
        case date() | time() | Duration():
            return iso(value)
        case list():
            return f"[{', '.join(map(notation, value))}]"
        case dict():
            entries = [f"{key}: {notation(item)}" for key, item in value.items()]
            return f"{{{', '.join(entries)}}}"
        case Node():
            labels = "".join(f":{label}" for label in value.labels)
            return f"({labels} {notation(value.properties)})"
        case Rel():
            return f"[:{value.type} {notation(value.properties)}]"
        case Path():
            text = notation(value.nodes[0])
            for rel, node, after in zip(value.rels, value.nodes, value.nodes[1:], strict=False):
                is_forward = rel.start == node
                text += f"-{notation(rel)}->" if is_forward else f"<-{notation(rel)}-"
                text += notation(after)
            return text
        case Point():
            return (
                f"point({{srid:{value.srid}, x:{value.coordinates[0]}, y:{value.coordinates[1]}}})"
            )
    return str(value)


# Other drivers and databases.


def integer(number: int) -> dict[str, int]:
    """An integer of Neo4j's JavaScript driver."""
    return {"low": number, "high": 0}


def javascript(value: Any) -> Any:
    """A value as Neo4j's JavaScript driver and then JSON have it."""
    match value:
        case bool() | str():
            return value
        case int():
            return integer(value)
        case dict():
            return {key: javascript(item) for key, item in value.items()}
        case Node():
            return {
                "identity": integer(value.id),
                "labels": [*value.labels],
                "properties": javascript(value.properties),
                "elementId": f"4:db:{value.id}",
            }
        case Rel():
            return {
                "identity": integer(value.id),
                "start": integer(value.start.id),
                "end": integer(value.end.id),
                "type": value.type,
                "properties": javascript(value.properties),
                "elementId": f"5:db:{value.id}",
                "startNodeElementId": f"4:db:{value.start.id}",
                "endNodeElementId": f"4:db:{value.end.id}",
            }
    segments = [
        {"start": javascript(start), "relationship": javascript(rel), "end": javascript(end)}
        for start, rel, end in zip(value.nodes, value.rels, value.nodes[1:], strict=False)
    ]
    return {
        "start": javascript(value.nodes[0]),
        "end": javascript(value.nodes[-1]),
        "segments": segments,
        "length": len(segments),
    }


def neptune(value: Any) -> Any:
    """A value as Neptune's openCypher endpoint has it."""
    match value:
        case Node():
            inside = {"~id": str(value.id), "~entityType": "node", "~labels": [*value.labels]}
            return {**inside, "~properties": value.properties}
        case Rel():
            ends = {"~start": str(value.start.id), "~end": str(value.end.id)}
            inside = {"~id": str(value.id), "~entityType": "relationship", "~type": value.type}
            return {**inside, **ends, "~properties": value.properties}
        case Path():
            return [neptune(part) for part in in_turns(value)]
    return value


def memgraph(value: Any) -> Any:
    """A value as Memgraph's clients write it to JSON."""
    match value:
        case Node():
            inside = {"id": value.id, "labels": [*value.labels], "type": "node"}
            return {**inside, "properties": value.properties}
        case Rel():
            ends = {"start": value.start.id, "end": value.end.id}
            inside = {"id": value.id, "label": value.type, "type": "relationship"}
            return {**inside, **ends, "properties": value.properties}
        case Path():
            nodes = [memgraph(node) for node in value.nodes]
            return {"nodes": nodes, "relationships": [memgraph(rel) for rel in value.rels]}
    return value


def apoc(value: Any) -> Any:
    """A value as APOC exports it to JSON: relationships hold the nodes at their ends."""
    match value:
        case Rel():
            ends = {"start": memgraph(value.start), "end": memgraph(value.end)}
            return {**memgraph(value), **ends}
        case Path():
            return [apoc(part) for part in in_turns(value)]
    return memgraph(value)


def eager_result(results: Table) -> str:
    """What `driver.execute_query` of Neo4j's Python driver returns, as Python shows it."""
    lines = record_lines(results).replace("\n", ", ")
    summary = "<neo4j._work.summary.ResultSummary object at 0x7feb682d05d0>"
    return f"EagerResult(records=[{lines}], summary={summary}, keys={[*results.names]})"


def shown_retriever_result(results: Table) -> str:
    """The hits of neo4j-graphrag's Text2CypherRetriever, as Python shows them."""
    items = [
        f"RetrieverResultItem(content={line!r}, metadata=None)"
        for line in record_lines(results).split("\n")
    ]
    return f"items=[{', '.join(items)}] metadata={{'cypher': 'MATCH ...'}}"


def shown_tool_result(results: Table) -> str:
    """The reply of a tool of an MCP server, as Python shows it."""
    text = json.dumps(records(results), default=str)
    block = f"TextContent(type='text', text={text!r}, annotations=None, meta=None)"
    return f"meta=None content=[{block}] structuredContent=None isError=False"


def mcp(results: Table) -> dict[str, Any]:
    """The reply of the tool `read_neo4j_cypher` of Neo4j's MCP server."""
    text = json.dumps(records(results), default=str)
    return {"content": [{"type": "text", "text": text}], "isError": False}


def intermediate_steps(results: Table) -> dict[str, Any]:
    """What LangChain's GraphCypherQAChain returns."""
    steps = [{"query": "MATCH (f:Film) RETURN f"}, {"context": records(results)}]
    return {"query": "Which films?", "result": "Playtime.", "intermediate_steps": steps}


FORMS: dict[str, Callable[[Table], Any]] = {
    "typed": lambda results: query_api(results, typed),
    "plain": lambda results: query_api(results, plain),
    "transactional": lambda results: transactional(results, with_graph=False),
    "transactional_graph": lambda results: transactional(results, with_graph=True),
    "records": records,
    "records_text": lambda results: json.dumps(records(results)),
    "records_in_lines": lambda results: "\n".join(map(json.dumps, records(results))),
    "records_with_nodes": lambda results: records(results, plain),
    "python_repr": python_repr,
    "record_lines": record_lines,
    "record_list": lambda results: f"[{record_lines(results).replace(chr(10), ', ')}]",
    "retriever_result": retriever_result,
    "get_all_json": lambda results: json.dumps(get_all(results), default=str),
    "get_all_repr": lambda results: str(get_all(results)),
    "data_frame": data_frame,
    "mcp": mcp,
    "intermediate_steps": intermediate_steps,
    "csv_of_python": lambda results: to_csv(results, as_text),
    "csv_of_json": lambda results: to_csv(
        results, lambda cell: cell if isinstance(cell, str) else json.dumps(plain(cell)).strip('"')
    ),
    "csv_of_cypher": lambda results: to_csv(
        results, lambda cell: cell if isinstance(cell, str) else notation(cell)
    ),
    "markdown": to_markdown,
    "fence": lambda results: f"Here is what I found:\n```json\n{json.dumps(records(results))}\n```",
}
"""What writes a table in each form."""

FORMS_OF_GRAPHS: dict[str, Callable[[Table], Any]] = {
    "javascript": lambda results: records(results, javascript),
    "neptune": lambda results: {"results": records(results, neptune)},
    "memgraph": lambda results: json.dumps(records(results, memgraph)),
    "apoc": lambda results: "\n".join(map(json.dumps, records(results, apoc))),
    "eager_result": eager_result,
    "shown_retriever_result": shown_retriever_result,
    "shown_tool_result": shown_tool_result,
    "records_as_json_by_default": lambda results: json.dumps(
        [[shown(cell) for cell in row] for row in results.rows]
    ),
    "typed_records": lambda results: records(results, typed),
}
"""Other forms, with nodes, relationships and paths alone."""

LACKING = {
    "get_all_json": {"point", "duration_months", "labels"},
    "get_all_repr": {"point", "duration_months", "labels"},
    "data_frame": {"point", "duration_months", "labels"},
}
"""Kinds of values that a form cannot hold: Ladybug has no points, and one label a node."""
PLAYTIME = Node(("Film",), {"title": "Playtime", "year": 1967}, id=2)
MON_ONCLE = Node(("Film",), {"title": "Mon Oncle", "year": 1958}, id=3)


def compare(expected: Any, actual: Any, **keys: Any) -> dict[str, Any]:
    """The result of a response with one step of Cypher."""
    step = {"name": "cypher_query", "output": expected, **keys}
    response = {
        "question_id": "q",
        "actual_steps": [{"name": "read_neo4j_cypher", "output": actual}],
    }
    [result] = run_evaluation_sync(template(question(step)), [response])
    return result


def score(expected: Any, actual: Any, **keys: Any) -> float:
    return float(compare(expected, actual, **keys)["steps_score"])
