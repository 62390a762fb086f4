"""Which columns of tables are paired where their names differ, and how to forbid it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphrag_eval_async import load_reference, run_evaluation_sync
from tests.steps.support import encode, literal, query, result_of, texts
from tests.support.data import question, taken, template

BY_NAME = {"steps": {"match_columns": "name"}}
BY_COUNT = {"steps": {"match_columns": "count"}}


def number(value: int) -> Any:
    return literal(str(value), "integer")


def node(label: str) -> Any:
    return {"type": "bnode", "value": label}


def pairs_of(reference: dict[str, Any], output: Any, **more: Any) -> Any:
    """The pairs of columns in the result of a response, whose step is right."""
    result = result_of(reference, output, **more)
    assert result["steps_score"] == 1
    [[step]] = result["reference_steps"]
    return step.get("paired_columns")


EDGES = encode([[literal("a"), literal("b")], [literal("a"), literal("c")]], ["source", "target"])
SWAPPED_EDGES = encode(
    [[literal("a"), literal("b")], [literal("a"), literal("c")]], ["target", "source"]
)
SWAPPED = {"source": "target", "target": "source"}


@pytest.mark.parametrize(
    ("keys", "output"),
    [
        pytest.param({}, SWAPPED_EDGES, id="set"),
        pytest.param({"ordered": True}, SWAPPED_EDGES, id="ordered"),
        pytest.param({"ignore_duplicates": False}, SWAPPED_EDGES, id="multiset"),
        pytest.param({"score": "f1"}, SWAPPED_EDGES, id="f1"),
        pytest.param({}, "target,source\na,b\na,c\n", id="csv"),
        pytest.param({}, "| target | source |\n|---|---|\n| a | b |\n| a | c |", id="markdown"),
        pytest.param(
            {}, '[{"target": "a", "source": "b"}, {"target": "a", "source": "c"}]', id="list"
        ),
        pytest.param({}, "target,source,x\na,b,1\na,c,2\n", id="extra_column"),
        pytest.param(
            {"alternatives": [{"output": EDGES}], "output": texts("z")},
            SWAPPED_EDGES,
            id="alternative",
        ),
    ],
)
def test_swapped_columns_are_named(keys: dict[str, Any], output: str) -> None:
    reference = query(EDGES) | keys
    assert pairs_of(reference, output) == SWAPPED
    if "alternatives" not in keys:
        # Each way to forbid it: in the step, and for all steps.
        in_step = result_of(reference | {"match_columns": "name"}, output)
        in_configuration = result_of(reference, output, config=BY_NAME)
        assert in_step["steps_score"] == in_configuration["steps_score"] < 1
        for result in (in_step, in_configuration):
            assert "paired_columns" not in result["reference_steps"][0][0]


@pytest.mark.parametrize(
    ("names", "output", "pairs"),
    [
        pytest.param("ab", texts(["1", "2"], names="ba"), {"a": "b", "b": "a"}, id="two"),
        pytest.param("ab", texts(["1", "2"], names="xy"), {"a": "x", "b": "y"}, id="other_names"),
        pytest.param(
            "ab", texts(["2", "1"], names="ax"), {"a": "x", "b": "a"}, id="name_of_another"
        ),
        pytest.param("ab", texts(["2", "1"], names="ba"), None, id="other_order_of_columns"),
        pytest.param("ab", texts(["1", "2", "3"], names="abc"), None, id="more_columns"),
        pytest.param("ab", texts(["1", "1", "2"], names="xab"), None, id="equal_cells_elsewhere"),
    ],
)
def test_pairs_are_told_only_where_names_differ(names: str, output: str, pairs: Any) -> None:
    assert pairs_of(query(texts(["1", "2"], names=names)), output) == pairs


def test_columns_of_equal_cells_keep_their_names() -> None:
    reference = query(texts(["1", "1", "2"], names="abc"))
    assert pairs_of(reference, texts(["1", "1", "2"], names="bax")) == {
        "c": "x",
        "a": "a",
        "b": "b",
    }
    # Only what is required is told.
    assert pairs_of(reference | {"required_columns": ["a"]}, texts(["1", "2"], names="bx")) == {
        "a": "b"
    }


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("keys", [{}, {"score": "f1"}, {"ordered": True}])
def test_columns_of_blank_nodes_are_named(keys: dict[str, Any], width: int) -> None:
    rows = [[node("x"), literal("1"), number(1)], [node("y"), literal("2"), number(2)]]
    reference = query(encode([row[:2] for row in rows], ["child", "parent"]), **keys)
    names = ["parent", "child", "n"][:width]
    agent = encode([row[:width] for row in rows], names)
    assert pairs_of(reference, agent) == {"child": "parent", "parent": "child"}
    assert result_of(reference, agent, config=BY_NAME)["steps_score"] < 1


def test_steps_of_cypher_have_pairs() -> None:
    reference = {"name": "cypher_query", "output": [{"low": 1, "high": 9}]}
    agent = [{"low": 9, "high": 1}]
    assert pairs_of(reference, agent) == {"low": "high", "high": "low"}
    assert result_of(reference, agent, config=BY_NAME)["steps_score"] == 0
    # Columns without names are told by their position.
    assert pairs_of(reference, [[1, 9]]) == {"low": "column_0", "high": "column_1"}


def test_partial_credit_names_the_pairs_of_a_wrong_table() -> None:
    reference = query(texts(["1", "2"], ["3", "4"], names="ab"), score="f1")
    result = result_of(reference, texts(["1", "2"], ["3", "9"], names="ba"))
    assert 0 < result["steps_score"] < 1
    assert result["reference_steps"][0][0]["paired_columns"] == {"a": "b", "b": "a"}


@pytest.mark.parametrize(
    ("step_rule", "config", "score"),
    [
        pytest.param(None, None, 1, id="default"),
        pytest.param(None, BY_NAME, 0, id="configuration"),
        pytest.param("name", None, 0, id="step"),
        pytest.param("contents", BY_NAME, 1, id="step_takes_precedence"),
        pytest.param("name", {"steps": {"match_columns": "contents"}}, 0, id="step_is_stricter"),
        pytest.param(None, BY_COUNT, 1, id="count"),
    ],
)
def test_the_rule_of_a_step_takes_precedence(step_rule: Any, config: Any, score: int) -> None:
    keys = {} if step_rule is None else {"match_columns": step_rule}
    result = result_of(query(EDGES, **keys), SWAPPED_EDGES, config=config)
    assert result["steps_score"] == score


@pytest.mark.parametrize("config", [BY_NAME, BY_COUNT])
def test_the_rule_has_no_effect_on_other_steps(config: Any) -> None:
    values = query(EDGES, score="values_f1")
    assert result_of(values, SWAPPED_EDGES, config=config)["steps_score"] == 1
    document = {"name": "t", "output": [{"a": 1}], "output_media_type": "application/json"}
    assert result_of(document, [{"a": 1}], config=config)["steps_score"] == 1
    ask = query('{"head": {}, "boolean": true}')
    assert result_of(ask, "true", config=config)["steps_score"] == 1


def test_a_wider_table_is_refused_by_count() -> None:
    wider = "target,source,x\na,b,1\na,c,2\n"
    assert result_of(query(EDGES), wider, config=BY_COUNT)["steps_score"] == 0
    assert result_of(query(EDGES), wider, config=BY_NAME)["steps_score"] == 0
    same_names = "x,source,target\n1,a,b\n2,a,c\n"
    assert result_of(query(EDGES), same_names, config=BY_NAME)["steps_score"] == 1


def test_names_are_shortened_and_few_pairs_are_listed() -> None:
    names = [f"{'n' * 300}{number}" for number in range(60)]
    table = [[literal(str(number)) for number in range(60)]]
    pairs = pairs_of(query(encode(table, names)), encode(table, [*names[1:], names[0]]))
    assert len(pairs) <= 20
    assert max(map(len, [*pairs, *pairs.values()])) <= 201


def test_pairs_left_over_in_a_reference_set_are_ignored() -> None:
    step = query(EDGES, paired_columns={"source": "target"})
    reference = load_reference(template(question(step)))
    response = {"question_id": "q", "actual_steps": [taken(step, output=EDGES)]}
    [result] = run_evaluation_sync(reference, [response])
    assert "paired_columns" not in json.dumps(result)
