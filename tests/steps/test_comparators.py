"""The comparators of single steps: the table of them, the user's own, and those of one name
each.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep, UsageError
from graphrag_eval_async.steps import (
    Budget,
    Comparator,
    StepsScore,
    average_precision,
    check_step,
    prepare_step,
    recall_at_k,
    score_steps,
)
from graphrag_eval_async.steps.actual import ActualStep
from tests.steps.support import encode, query
from tests.support.cases import each

JSON = "application/json"
TABLE = encode([[{"type": "uri", "value": "urn:x"}]], "a")
SERIES = {"name": "retrieve_time_series"}
POINTS = {"name": "retrieve_data_points"}
DOCUMENT = {"name": "q", "output": "[1]", "output_media_type": JSON}
PLACE = "reference_steps[0][0] (a) against actual_steps[0]: "


def score(
    reference: dict[str, Any], actual: dict[str, Any], **comparators: Comparator
) -> StepsScore:
    step = {"status": "success", "name": reference["name"], **actual}
    return score_steps([[prepare_step(reference, comparators)]], [step], mode="last")


def compared(reference: dict[str, Any], actual: dict[str, Any]) -> float:
    """The score, or `MalformedStep` of either step."""
    return prepare_step(reference).compare(ActualStep(actual)).score


@each(
    ("reference", "key"),
    [
        ({"name": "q"}, "output: missing"),
        (query(TABLE, required_columns=["z"]), "required_columns"),
        (DOCUMENT | {"output_media_type": [JSON]}, "output_media_type: "),
        (
            {"name": "q", "reference_query": "ASK {}", "score": "f2"},
            "score: must be absent, exact, f1 or values_f1",
        ),
        (
            {"name": "q", "reference_query": "ASK {}", "required_columns": ["a", "a"]},
            "required_columns: 'a'",
        ),
        (query(TABLE, score="f2"), "score: must be absent, exact, f1 or values_f1"),
        ({"name": "x", "output": "y", "score": "f1"}, "score: f1 is only for outputs"),
        ({"name": "retrieval", "reference_query": "ASK {}"}, "output: missing"),
        ({"name": ["q"], "output": "x"}, "name: "),
    ],
)
def test_invalid_reference_steps(reference: dict[str, Any], key: str) -> None:
    with pytest.raises(MalformedStep) as caught:
        check_step(reference)
    assert str(caught.value).startswith(key)
    if reference["name"] == "x":  # Your own comparator may have its own key.
        check_step(reference, {"x": lambda *_: 1.0})


# The user's comparators


@each("name", ["influx_query", "retrieval"])
def test_a_users_comparator_wins(name: str) -> None:
    scored = score(
        {"name": name, "output_media_type": "text/plain"}, {"output": "x"}, **{name: lambda *_: 0.5}
    )
    assert (scored.score, scored.matches) == (0.5, ((0, 0, 0),))


def failing(error: Exception) -> Comparator:
    def fail(_: dict[str, Any], __: dict[str, Any]) -> float:
        raise error

    return fail


@each(
    ("comparator", "problem"),
    [
        *(
            (lambda *_, value=value: value, "")
            for value in (None, math.nan, -0.1, 1.5, "1", 10**400)
        ),
        (failing(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero"),
        (failing(ComparisonBudgetExceeded("mine")), "ComparisonBudgetExceeded: mine"),
    ],
)
def test_one_that_fails_scores_0_and_is_reported(comparator: Any, problem: str) -> None:
    result = score({"name": "a"}, {"output": "x"}, a=comparator)
    assert (result.score, result.matches) == (0.0, ())
    [error] = result.errors
    assert error.startswith(PLACE)
    assert problem in error


def test_it_gets_copies() -> None:
    def greedy(reference: dict[str, Any], actual: dict[str, Any]) -> float:
        reference["args"].clear()
        actual.clear()
        return 1.0

    reference, actual = (
        {"name": "a", "args": {"x": 1}},
        {"name": "a", "status": "success", "output": "x"},
    )
    before = copy.deepcopy((reference, actual))
    step = prepare_step(reference, {"a": greedy})
    assert [score_steps([[step]], [actual], mode="last").score for _ in range(2)] == [1, 1]
    assert (reference, actual) == before


async def asynchronous(_: dict[str, Any], __: dict[str, Any]) -> float:
    return 1.0


@each("comparator", ["half", None, asynchronous, functools.partial(asynchronous, {})])
def test_invalid_comparators(comparator: Any) -> None:
    with pytest.raises(UsageError, match=r"^comparators\['a'\]: "):
        prepare_step({"name": "a"}, {"a": comparator})


# JSON


def same_json(reference: Any, actual: Any) -> float:
    return compared(DOCUMENT | {"output": reference}, {"output": actual})


def test_text_is_compared_as_it_is() -> None:
    for output, expected in (("[1]", 1), ("[1.0]", 0), (["[1]"], 0)):
        assert compared({"name": "q", "output": "[1]"}, {"output": output}) == expected


@each(
    "text", ["", "nope", "[1,]", "NaN", "1e400", "\ufeff1", "[" * 1_000_000, "[" * 900 + "]" * 900]
)
def test_what_is_no_json_is_malformed_on_either_side(text: str) -> None:
    for pair in ((text, "1"), ("1", text)):
        with pytest.raises(MalformedStep, match=r"^output: not JSON: "):
            same_json(*pair)


scalars = st.sampled_from(
    [None, True, False, *range(-2, 3), -0.0, 0.0, 1.0, 0.5, "", "1", "a", "é", "true"]
    + [2**53 + i for i in (-1, 0, 1)]
    + [2**64 + i for i in (-1, 0, 1)]
    + [2.0**53, 2.0**64]
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab1"), inner, max_size=2)
    ),
    max_leaves=6,
)


def canonical(value: Any) -> Any:
    """Numbers tagged, so that no boolean equals one."""
    match value:
        case None | bool() | str():
            return (type(value).__name__, value)
        case int() | float():
            return ("number", value)
        case list():
            return ("array", [canonical(item) for item in value])
    return ("object", {key: canonical(item) for key, item in value.items()})


@given(json_values, json_values, st.sampled_from([None, 2]), st.booleans())
def test_json_agrees_with_a_plain_oracle(
    left: Any, right: Any, indent: int | None, ascii_only: bool
) -> None:
    left_text = json.dumps(left)
    right_text = json.dumps(right, indent=indent, ensure_ascii=ascii_only, sort_keys=True)
    expected = canonical(json.loads(left_text)) == canonical(json.loads(right_text))
    assert same_json(left_text, right_text) == same_json([left], f"[{right_text}]") == expected


# Retrieval

documents = st.lists(st.integers(0, 6), max_size=8)


@given(documents.filter(bool), documents, st.none() | st.integers(1, 10))
def test_recall_agrees_with_a_plain_oracle(
    relevant: list[int], retrieved: list[int], k: int | None
) -> None:
    wanted, got = (relevant, retrieved) if k is None else (relevant[:k], retrieved[:k])
    unique = [doc for rank, doc in enumerate(wanted) if doc not in wanted[:rank]]
    assert recall_at_k(relevant, retrieved, k) == sum(doc in got for doc in unique) / len(unique)
    as_set = set(relevant)
    possible = len(as_set) if k is None else min(k, len(as_set))
    assert recall_at_k(as_set, retrieved, k) == sum(doc in got for doc in as_set) / possible


@given(documents.filter(bool), documents)
def test_average_precision_agrees_with_a_plain_oracle(
    relevant: list[int], retrieved: list[int]
) -> None:
    total = Fraction(0)
    for rank in range(1, len(retrieved) + 1):
        is_hit = (
            retrieved[rank - 1] in relevant and retrieved[rank - 1] not in retrieved[: rank - 1]
        )
        total += Fraction(len(set(retrieved[:rank]) & set(relevant)), rank) * is_hit
    score = average_precision(relevant, retrieved)
    assert score == pytest.approx(float(total / len(set(relevant))), abs=1e-15)
    assert 0 <= score <= 1


@each("k", [0, 2.0, "2", True])
def test_what_no_recall_is_computed_of(k: Any) -> None:
    with pytest.raises(UsageError, match=r"^relevant_docs: "):
        recall_at_k([], [1], 1)
    with pytest.raises(UsageError, match=r"^relevant_docs: "):
        average_precision([], [1])
    with pytest.raises(UsageError, match=r"^k: "):
        recall_at_k([1], [1], k)


def docs(*ids: Any) -> str:
    return json.dumps([{"id": identifier, "text": "..."} for identifier in ids])


def recall(reference: Any, actual: Any, **step: Any) -> float:
    return compared({"name": "retrieval", "output": reference}, {"output": actual, **step})


@each("actual", ["[]", "{}", "[1]", '[{"id": []}]', 1])
def test_documents_that_cannot_be_read_are_missed(actual: Any) -> None:
    assert recall(docs(1), actual) == 0.0
    assert recall(docs(1, 2), docs(2, 1, 3), args={"k": 1}) == 0
    assert recall(docs(1, 2), docs(1, 3, 2), args={"k": 2.0}) == 0.5
    assert recall(docs(1), docs(1), args={"k": 0}) == recall(docs(1), docs(1), args=[2]) == 0.0


@each("output", [None, "[]", [], "[{}]", '[{"id": 1}, {"id": null}]'])
def test_a_reference_needs_documents_with_ids(output: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        prepare_step({"name": "retrieval", "output": output})


# Time series

NOW = "2025-03-01T12:00:00Z"


def points(reference: Any, actual: Any, executed: Any = NOW) -> float:
    step = {"args": actual, "execution_timestamp": executed}
    return compared(POINTS | {"args": reference}, step)


@each(
    ("reference", "actual", "expected"),
    [
        ({"mrid": "a"}, {"mrid": "a"}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["b", "a", "b"]}, 1),
        ({"mrid": ["a", "b"]}, {"mrid": ["a"]}, 0),
        ({"mrid": "a"}, {"mrid": "a", "limit": 3}, 1),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 3.0}, 1),
        ({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 4}, 0),
        (None, {"mrid": None, "limit": None}, 1),
        (None, {"limit": 3}, 0),
    ],
)
def test_time_series(reference: Any, actual: Any, expected: float) -> None:
    assert compared(SERIES | {"args": reference}, {"args": actual}) == expected


def test_granularities_are_equal_in_any_spelling_and_never_converted() -> None:
    spellings = [
        ["h", "1h", "hr", "1hour", "1 Hours"],
        ["60m", "60MINUTES"],
        ["2mo", "2months"],
        ["2m"],
    ]
    spelled = [(unit, text) for unit, written in enumerate(spellings) for text in written]
    for (unit, left), (other, right) in product(spelled, spelled):
        assert points({"granularity": left}, {"granularity": right}) == (unit == other), (
            left,
            right,
        )
    assert points({"granularity": "h"}, {}) == points({}, {"granularity": "h"}) == 0


TIMES = [
    ("2025-01-01T00:00:00Z", "2025-01-01", 1),
    ("2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", 1),
    ("2025-01-01T00:00:00Z", date(2025, 1, 1), 1),
    ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+14:00", 0),
    ("now", "0s-ago", 1),
    ("7d-ahead", "1w-ahead", 1),
    ("1d-ahead", "1d-ago", 0),
    (NOW, "now", 0),
    ("now", None, 0),
    (None, None, 1),
]


@each("key", ["start", "end"])
@each(("reference", "actual", "expected"), TIMES)
def test_times(key: str, reference: Any, actual: Any, expected: float) -> None:
    assert points({key: reference}, {key: actual}) == expected


MALFORMED = {
    "external_id": [1, ["a", []]],
    "limit": [True, "3"],
    "granularity": ["", "15", "15x", "1.5h", "٣h", "9" * 5_000 + "h", 15],
    "start": [
        "",
        "yesterday",
        "2025-13-01",
        "1mo-ago",
        "1h-later",
        "9" * 18 + "w-ago",
        "\ud800",
        5,
        [],
    ],
}


@each(("key", "value"), [(key, value) for key, several in MALFORMED.items() for value in several])
def test_malformed_arguments(key: str, value: Any) -> None:
    for reference, actual in (({key: value}, None), (None, {key: value})):
        with pytest.raises(MalformedStep, match=rf"^args\.{key}: "):
            points(reference, actual)


def test_a_relative_time_needs_a_readable_execution_timestamp() -> None:
    with pytest.raises(MalformedStep, match=r"^execution_timestamp: "):
        points({"start": "now"}, {"start": NOW}, "yesterday")
    assert points({"start": NOW}, {"start": NOW}, None) == 1


@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 10**5),
    st.sampled_from("smhdw"),
    st.booleans(),
    st.integers(-61 * 10**6, 61 * 10**6),
)
def test_relative_against_absolute_agrees_with_datetime_arithmetic(
    executed: datetime, amount: int, unit: str, ahead: bool, drift: int
) -> None:
    words = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    offset = timedelta(**{words[unit]: amount}) * (1 if ahead else -1)
    try:
        actual = executed + offset + timedelta(microseconds=drift)
    except OverflowError:
        return
    reference = f"{amount}{unit}-{'ahead' if ahead else 'ago'}"
    found = points({"end": reference}, {"end": actual.isoformat()}, executed.isoformat())
    assert found == (abs(drift) <= 60 * 10**6)


# IRI discovery

IRI = "urn:x:1"


def bindings(*values: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        encode([[{"type": "uri", "value": value}] for value in values], ["iri"])
    )
    return found


def discovered(name: str, output: Any, iri: Any = IRI) -> float:
    return compared({"name": "iri_discovery", "output": iri}, {"name": name, "output": output})


@each("written", [IRI, f"<{IRI}>", f'"{IRI}"', f'"<{IRI}>"', f"  {IRI}\n", '"urn:x\\u003a1"'])
def test_ways_to_write_the_iri(written: str) -> None:
    assert discovered("sparql_query", f"<{IRI}>", written) == 1.0
    assert discovered("sparql_query", "<urn:x:2>", written) == 0.0


@each("written", [None, "", "<>", "no scheme", "/path", "urn:x y", "<urn:x", 1, [IRI]])
def test_a_reference_without_an_iri(written: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        prepare_step({"name": "iri_discovery", "output": written})


def test_strict_types_refuse_a_search_without_types() -> None:
    step, search = (
        prepare_step({"name": "iri_discovery", "output": IRI}),
        {"name": "autocomplete_search"},
    )
    actual = ActualStep(search | {"output": f"iri\n{IRI}\n"}, Budget(strict_types=True))
    with pytest.raises(MalformedStep, match="the cells have no types"):
        step.compare(actual)


WHOLE = [
    bindings(IRI),
    [{"@id": IRI}],
    f"<{IRI}> a <urn:c> .",
    f"iri,name\n{IRI},one\n",
    IRI,
    f"See {IRI}.",
]
WHOLE += [json.dumps(bindings(IRI)), f"[link]({IRI})", f"['{IRI}','b']", f"a\\b <{IRI}>"]
PARTS = [
    json.dumps(bindings("urn:x:12")),
    json.dumps(bindings("xurn:x:1")),
    "<urn:x:12> a <urn:c> .",
]
PARTS += ["urn:x:1.5", "urn:x:1é", "urn:x:12,urn:x:13"]


@each("output", [*WHOLE, *PARTS])
def test_a_query_that_finds_it_or_does_not(output: Any) -> None:
    assert discovered("sparql_query", output) == (output in WHOLE)


iris = st.builds(
    "".join,
    st.tuples(st.sampled_from(["urn:x", "http:/"]), st.text("/:#.,ab12é-", min_size=1, max_size=4)),
)


@given(iris, st.lists(iris, max_size=4), st.sampled_from(["json", "escaped", "decoded", "turtle"]))
def test_discovery_agrees_with_membership(iri: str, others: list[str], form: str) -> None:
    value = bindings(*others)
    output: Any = {
        "json": json.dumps(value, ensure_ascii=False),
        "escaped": json.dumps(value).replace("/", "\\/"),
        "decoded": value,
        "turtle": "\n".join(f"<{other}> a <urn:class> ." for other in others),
    }[form]
    assert discovered("sparql_query", output, iri) == (iri in others)
    if form != "turtle":
        assert discovered("autocomplete_search", output, iri) == (iri in others)
