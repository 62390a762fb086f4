"""Results to aggregate, ordinary and extreme."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from graphrag_eval_async.errors import FAILURES
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
        "[[]]",
        "not JSON []",
        '{"head": {"vars": []}, "results": {"bindings": []}}',
        (
            '{"head": {"link": []}, "results": {"bindings": [{"x": {"type": "literal", "value": '
            '"[]"}}]}}'
        ),
        [],
        {"results": {"bindings": []}},
        {"results": []},
    ]
)


tags = st.dictionaries(st.sampled_from("kl"), st.sampled_from("12"))


def _steps() -> st.SearchStrategy[dict[str, Any]]:
    optional = {
        metric: st.none() | numbers for metric in (*RETRIEVAL_METRICS[::2], "x_cost", "steps_score")
    }
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["retrieval", "sparql_query", "é"])},
        optional=optional | {"status": st.sampled_from(["success", "error"]), "output": outputs},
    )


def results() -> st.SearchStrategy[dict[str, Any]]:
    optional = {
        metric: st.none() | numbers for metric in (*RESULT_METRICS[::2], "a_cost", "x_cost")
    }
    never = {"metadata": st.just({"a_cost": 1}), "answer_reference_claims_count": st.just(3)}
    return st.fixed_dictionaries(
        {
            "template_id": st.sampled_from([*TEMPLATES, "z", "0"]),
            "question_id": st.sampled_from(["q", "q", "r", "s"]) | st.none(),
            "status": st.sampled_from(["success", "success", "error"]),
        },
        optional=optional
        | never
        | {"actual_steps": st.none() | st.lists(_steps(), max_size=3), "tags": tags},
    )


def scored() -> st.SearchStrategy[dict[str, Any]]:
    """Results with a score of some questions."""
    return st.fixed_dictionaries(
        {
            "template_id": st.sampled_from("ab"),
            "question_id": st.none() | st.sampled_from("pqrst"),
            "sample": st.integers(1, 3) | st.none(),
            "steps_score": st.floats(0, 1) | st.sampled_from([0.0, 1.0, 0.5, 1, 0]),
            "input_tokens": st.integers(0, 10**6),
            "tags": tags,
        }
    )


JUDGE: dict[str, Any] = {
    "model": "m",
    "prompts": "p",
    "outputs": ["tone", "length", "note"],
    "fractions": ["tone"],
}
ERRORS = st.sampled_from(
    [*(f"{kind}: so it was" for kind in FAILURES), "budget", "disaster: no", "", None, 7]
)
SCORES = st.sampled_from([0.0, 0.25, 1.0, 1])
CARRIED = ("total_tokens", "elapsed_sec")
PARTS = ("recall", "precision")
CORRECTNESS = ("answer_recall", "answer_precision", "answer_f1")
RETRIEVAL = [
    f"retrieval_{about}_{part}"
    for about in ("answer", "context")
    for part in ("recall", "precision")
]


@st.composite
def retrieval_steps(draw: st.DrawFn) -> dict[str, Any]:
    step: dict[str, Any] = {"name": draw(st.sampled_from(["retrieval", "retrieval", "sparql"]))}
    for metric in RETRIEVAL:
        match draw(st.sampled_from(["absent", "value", "error"])):
            case "value":
                step[metric] = draw(SCORES)
            case "error":
                step[f"{metric}_error"] = draw(ERRORS)
    for about in ("answer", "context"):
        parts = [step.get(f"retrieval_{about}_{part}") for part in PARTS]
        if None not in parts:
            step[f"retrieval_{about}_f1"] = parts[0]
    return step


@st.composite
def judged(draw: st.DrawFn) -> dict[str, Any]:
    result: dict[str, Any] = {"template_id": draw(st.sampled_from("ab"))}
    result |= draw(st.fixed_dictionaries({}, optional={"reference_steps": st.just([[]])}))
    result |= draw(st.fixed_dictionaries({}, optional={"reference_answer": st.just("yes")}))
    result["status"] = draw(st.sampled_from(["success", "success", "error"]))
    if draw(st.booleans()):
        result["actual_steps"] = draw(st.lists(retrieval_steps(), max_size=2))
    for part in [
        CORRECTNESS,
        ("answer_relevance",),
        ("ragas_answer_correctness",),
        ("steps_score",),
    ]:
        match draw(st.sampled_from(["absent", "value", "error"])):
            case "value":
                result |= dict.fromkeys(part, draw(SCORES))
            case "error" if part != ("steps_score",):
                name = "answer_eval" if part == CORRECTNESS else part[0]
                result[f"{name}_error"] = draw(ERRORS)
    result |= draw(st.fixed_dictionaries({}, optional=dict.fromkeys(CARRIED, st.integers(0, 9))))
    answers = st.sampled_from(["yes", "", " \n", None])
    result |= draw(st.fixed_dictionaries({}, optional={"actual_answer": answers}))
    if draw(st.booleans()):  # Two custom evaluations, of two outputs and of one.
        result["judge"] = draw(st.sampled_from([JUDGE, JUDGE, {**JUDGE, "fractions": []}]))
        for evaluation, outputs in (("style", ["tone", "length"]), ("words", ["note"])):
            if draw(st.booleans()) and draw(st.booleans()):
                continue
            if draw(st.booleans()):
                result |= {output: draw(SCORES | st.just("fine")) for output in outputs}
            else:
                result |= {**dict.fromkeys(outputs), f"{evaluation}_error": draw(ERRORS)}
    return result | draw(
        st.fixed_dictionaries({}, optional={"failure": st.sampled_from(["none", "no_steps"])})
    )
