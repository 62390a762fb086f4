"""Each kind of value in each form that can carry it, against each other form."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from graphrag_eval_async import run_evaluation_sync
from tests.steps.cypher.forms import (
    FORMS,
    FORMS_OF_GRAPHS,
    LACKING,
    MON_ONCLE,
    PLAYTIME,
    Duration,
    Node,
    Path,
    Point,
    Rel,
    Table,
    compare,
    score,
    table,
)
from tests.support.data import question, template

TATI = Node(("Person",), {"name": "Jacques Tati", "born": 1907}, id=1)
DIRECTED = Rel("DIRECTED", TATI, PLAYTIME, {"since": 1964}, id=11)
DIRECTED_TOO = Rel("DIRECTED", TATI, MON_ONCLE, {"since": 1957}, id=12)
PATH = Path((PLAYTIME, TATI, MON_ONCLE), (DIRECTED, DIRECTED_TOO))

KINDS: dict[str, tuple[Table, Table]] = {
    "integer": (table([1967], [1958]), table([1967], [1959])),
    "float": (table([7.25], [8.5]), table([7.25], [8.75])),
    "boolean": (table([True, "a"], [False, "b"]), table([False, "a"], [True, "b"])),
    "text": (table(['It\'s a "film", |really'], ["x"]), table(["It's a film"], ["x"])),
    "node": (table([PLAYTIME], [MON_ONCLE]), table([PLAYTIME], [TATI])),
    "labels": (
        table([Node(("Film", "Classic"), {"title": "Playtime"}, id=2)]),
        table([Node(("Film", "Classic"), {"title": "Traffic"}, id=2)]),
    ),
    "relationship": (
        table([TATI, DIRECTED, PLAYTIME]),
        table([TATI, Rel("SAW", TATI, MON_ONCLE, {"since": 1965}, id=11), MON_ONCLE]),
    ),
    "path": (
        table([PATH]),
        table([Path((PLAYTIME, TATI, PLAYTIME), (DIRECTED, DIRECTED))]),
    ),
    "list": (table([["a", "b", "b"]]), table([["a", "a", "b"]])),
    "nested_list": (table([[[1, 2], [3]], 5]), table([[[1], [2, 3]], 5])),
    "list_of_nodes": (table([[PLAYTIME, MON_ONCLE]]), table([[PLAYTIME, TATI]])),
    "map": (table([{"n": 1, "inner": {"x": [2.5]}}]), table([{"n": 1, "inner": {"x": [2.25]}}])),
    "map_of_nodes": (table([{"film": PLAYTIME}]), table([{"film": MON_ONCLE}])),
    "point": (table([Point((10.75, 59.9))]), table([Point((10.75, 60.1))])),
    "date": (table([date(1967, 12, 16)]), table([date(1967, 12, 17)])),
    "datetime": (
        table([datetime(1967, 12, 16, 20, 30, tzinfo=UTC)]),
        table([datetime(1967, 12, 16, 20, 31, tzinfo=UTC)]),
    ),
    "local_datetime": (
        table([datetime(1967, 12, 16, 20, 30)]),
        table([datetime(1967, 12, 16, 21, 30)]),
    ),
    "time": (table([time(20, 30, 15)]), table([time(20, 30, 16)])),
    "duration": (table([Duration(0, 3, 7200)]), table([Duration(0, 3, 7201)])),
    "duration_months": (table([Duration(14, 3, 60)]), table([Duration(13, 3, 60)])),
    "dates_in_list": (table([[date(1967, 1, 2)], 4]), table([[date(1967, 1, 3)], 4])),
    "null": (table([None, "a"], ["x", "b"]), table(["x", "a"], [None, "b"])),
}
"""For each kind, a table, and one that differs in a value that all forms hold."""

CASES = [
    pytest.param(kind, form, id=f"{kind}-{form}")
    for kind in KINDS
    for form in FORMS
    if kind not in LACKING.get(form, ())
]


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_equal_results_score_1_and_others_0(kind: str, form: str) -> None:
    right, wrong = KINDS[kind]
    references = {"typed": FORMS["typed"](right), "form": FORMS[form](right)}
    questions = [
        question({"name": "cypher_query", "output": output}, question_id=name)
        for name, output in references.items()
    ]
    responses = [
        {"question_id": name, "actual_steps": [{"name": "cypher_query", "output": write(results)}]}
        for name in references
        for write in (FORMS["typed"], FORMS[form])
        for results in (right, wrong)
    ]
    results = run_evaluation_sync(template(*questions), responses)
    assert [result["steps_score"] for result in results] == [1, 0] * 4


@pytest.mark.parametrize("form", FORMS_OF_GRAPHS)
@pytest.mark.parametrize("kind", ["node", "labels", "relationship", "path"])
def test_nodes_relationships_and_paths_in_other_forms(kind: str, form: str) -> None:
    right, wrong = KINDS[kind]
    write = FORMS_OF_GRAPHS[form]
    for expected in (FORMS["typed"](right), write(right)):
        assert score(expected, write(right)) == 1
        assert score(expected, write(wrong)) == 0


FULL_FORMS = ["plain", "transactional_graph", "records_with_nodes", "record_lines", "csv_of_cypher"]


@pytest.mark.parametrize("form", FULL_FORMS)
def test_labels_count_where_both_outputs_tell_them(form: str) -> None:
    relabelled = table([Node(("Movie",), PLAYTIME.properties)])
    assert score(FORMS["typed"](table([PLAYTIME])), FORMS[form](relabelled)) == 0


@pytest.mark.parametrize("form", FULL_FORMS)
def test_types_and_properties_of_relationships_count_where_both_tell_them(form: str) -> None:
    expected = FORMS["typed"](table([TATI, DIRECTED, PLAYTIME]))
    for relationship in (
        Rel("SAW", TATI, PLAYTIME, DIRECTED.properties, id=11),
        Rel("DIRECTED", TATI, PLAYTIME, {"since": 1965}, id=11),
    ):
        assert score(expected, FORMS[form](table([TATI, relationship, PLAYTIME]))) == 0


def test_the_ends_of_a_relationship_count_where_both_outputs_hold_them() -> None:
    expected = table([TATI, MON_ONCLE, PLAYTIME, DIRECTED])
    other_end = Rel("DIRECTED", TATI, MON_ONCLE, DIRECTED.properties, id=11)
    actual = table([TATI, MON_ONCLE, PLAYTIME, other_end])
    assert score(FORMS["typed"](expected), FORMS["plain"](expected)) == 1
    assert score(FORMS["typed"](expected), FORMS["plain"](actual)) == 0
    assert score(FORMS["typed"](table([DIRECTED])), FORMS["plain"](table([other_end]))) == 1


@pytest.mark.parametrize("form", ["plain", "transactional_graph", "csv_of_cypher", "get_all_repr"])
def test_a_path_has_a_direction(form: str) -> None:
    forward = Path((TATI, PLAYTIME), (DIRECTED,))
    reversed_path = Path((PLAYTIME, TATI), (DIRECTED,))
    other_direction = Path((TATI, PLAYTIME), (Rel("DIRECTED", PLAYTIME, TATI, {"since": 1964}),))
    expected = FORMS["typed"](table([forward]))
    assert score(expected, FORMS[form](table([forward]))) == 1
    assert score(expected, FORMS[form](table([reversed_path]))) == 0
    assert score(expected, FORMS[form](table([other_direction]))) == 0


def test_reference_systems_of_points_count_where_both_outputs_tell_them() -> None:
    expected = FORMS["typed"](table([Point((1.0, 2.0))]))
    assert score(expected, FORMS["typed"](table([Point((1.0, 2.0), srid=7203)]))) == 0
    assert score(expected, '[{"p": "POINT (1.0 2.0)"}]') == 1
    assert score(expected, '[{"p": {"crs": "wgs-84", "longitude": 1, "latitude": 2}}]') == 1


def test_what_was_not_compared_is_said() -> None:
    expected = FORMS["typed"](table([PLAYTIME, DIRECTED]))
    result = compare(expected, FORMS["records"](table([MON_ONCLE, DIRECTED])))
    assert result["failure_detail"] == (
        "compared by what both outputs tell: the agent's output does not tell the labels of nodes, "
        "the properties of relationships"
    )
    assert "failure_detail" not in compare(expected, FORMS["typed"](table([MON_ONCLE, DIRECTED])))
