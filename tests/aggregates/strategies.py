"""Results to aggregate, ordinary and extreme."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.aggregates.oracle import RESULT_METRICS, RETRIEVAL_METRICS

TEMPLATES = ["b", "a", "d", "c"]

numbers = st.one_of(
    st.integers(0, 5),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**64 - 1, 2**64 - 2048, -(2**63)]),
    st.sampled_from([0.0, -0.0, 0.1, 0.5, 1.0, 1e-320, 5e-324, 1.7e308, -1.7e308, 2.0**53]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 1),
)

outputs: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        "",
        "[]",
        " [\n] ",
        "[1]",
        "[[]]",
        "not JSON []",
        '"[]"',
        '{"head": {"vars": []}, "results": {"bindings": []}}',
        '{"head": {"link": []}, "results": {"bindings": [{"x": {"type": "literal", "value": "[]"}}]}}',
        '{"head": {}, "boolean": true}',
        [],
        [0],
        {"results": {"bindings": []}},
        {"results": {"bindings": [{}]}},
        {"results": []},
        7,
    ]
)


def _steps() -> st.SearchStrategy[dict[str, Any]]:
    optional = {metric: st.none() | numbers for metric in (*RETRIEVAL_METRICS[::2], "x_cost", "steps_score")}
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["retrieval", "sparql_query", "é"])},
        optional=optional | {"status": st.sampled_from(["success", "error"]), "output": outputs},
    )


def results() -> st.SearchStrategy[dict[str, Any]]:
    optional = {metric: st.none() | numbers for metric in (*RESULT_METRICS[::2], "a_cost", "x_cost")}
    never = {"metadata": st.just({"a_cost": 1}), "answer_reference_claims_count": st.just(3)}
    return st.fixed_dictionaries(
        {
            "template_id": st.sampled_from([*TEMPLATES, "z", "0"]),
            "question_id": st.sampled_from(["q", "q", "r", "s"]) | st.none(),
            "status": st.sampled_from(["success", "success", "error"]),
        },
        optional=optional | never | {"actual_steps": st.none() | st.lists(_steps(), max_size=3)},
    )
