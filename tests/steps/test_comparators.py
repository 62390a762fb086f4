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


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        pytest.param({"name": "q"}, "output: missing", id="no output"),
        pytest.param(query(TABLE, required_columns=["z"]), "required_columns", id="unknown column"),
        pytest.param(
            DOCUMENT | {"output_media_type": [JSON]},
            "output_media_type: ",
            id="media type of a list",
        ),
        pytest.param(
            {"name": "q", "reference_query": "ASK {}", "score": "f2"},
            "score: must be absent, exact, f1 or values_f1",
            id="score of a query",
        ),
        pytest.param(
            {"name": "q", "reference_query": "ASK {}", "required_columns": ["a", "a"]},
            "required_columns: 'a'",
            id="column twice",
        ),
        pytest.param(
            query(TABLE, score="f2"),
            "score: must be absent, exact, f1 or values_f1",
            id="score of a table",
        ),
        pytest.param(
            {"name": "x", "output": "y", "score": "f1"},
            "score: f1 is only for outputs",
            id="score of text",
        ),
        pytest.param(
            {"name": "retrieval", "reference_query": "ASK {}"},
            "output: missing",
            id="query of retrieval",
        ),
        pytest.param({"name": ["q"], "output": "x"}, "name: ", id="name of a list"),
    ],
)
def test_invalid_reference_steps(reference: dict[str, Any], key: str) -> None:
    with pytest.raises(MalformedStep) as caught:
        check_step(reference)
    assert str(caught.value).startswith(key)
    if reference["name"] == "x":  # Your own comparator may have its own key.
        check_step(reference, {"x": lambda *_: 1.0})


# The user's comparators


@pytest.mark.parametrize("name", ["influx_query", "retrieval"])
def test_a_users_comparator_wins(name: str) -> None:
    scored = score(
        {"name": name, "output_media_type": "text/plain"}, {"output": "x"}, **{name: lambda *_: 0.5}
    )
    assert (scored.score, scored.matches) == (0.5, ((0, 0, 0),))


def failing(error: Exception) -> Comparator:
    def fail(_: dict[str, Any], __: dict[str, Any]) -> float:
        raise error

    return fail


@pytest.mark.parametrize(
    ("comparator", "problem"),
    [
        pytest.param(lambda *_: None, "", id="None"),
        pytest.param(lambda *_: math.nan, "", id="NaN"),
        pytest.param(lambda *_: -0.1, "", id="below 0"),
        pytest.param(lambda *_: 1.5, "", id="above 1"),
        pytest.param(lambda *_: "1", "", id="text"),
        pytest.param(lambda *_: 10**400, "", id="huge"),
        pytest.param(
            failing(ZeroDivisionError("by zero")), "ZeroDivisionError: by zero", id="exception"
        ),
        pytest.param(
            failing(ComparisonBudgetExceeded("mine")),
            "ComparisonBudgetExceeded: mine",
            id="budget",
        ),
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


@pytest.mark.parametrize(
    "comparator",
    [
        pytest.param("half", id="text"),
        pytest.param(None, id="none"),
        pytest.param(asynchronous, id="coroutine function"),
        pytest.param(functools.partial(asynchronous, {}), id="partial coroutine function"),
    ],
)
def test_invalid_comparators(comparator: Any) -> None:
    with pytest.raises(UsageError, match=r"^comparators\['a'\]: "):
        prepare_step({"name": "a"}, {"a": comparator})


# JSON


def same_json(reference: Any, actual: Any) -> float:
    return compared(DOCUMENT | {"output": reference}, {"output": actual})


def test_text_is_compared_as_it_is() -> None:
    for output, expected in (("[1]", 1), ("[1.0]", 0), (["[1]"], 0)):
        assert compared({"name": "q", "output": "[1]"}, {"output": output}) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("nope", id="text"),
        pytest.param("[1,]", id="comma"),
        pytest.param("NaN", id="NaN"),
        pytest.param("1e400", id="infinite"),
        pytest.param("\ufeff1", id="byte order mark"),
        pytest.param("[" * 1_000_000, id="not closed"),
        pytest.param("[" * 900 + "]" * 900, id="deep"),
    ],
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


@pytest.mark.parametrize("k", [0, 2.0, "2", True])
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


@pytest.mark.parametrize(
    "actual",
    [
        pytest.param("[]", id="empty list"),
        pytest.param("{}", id="object"),
        pytest.param("[1]", id="number in a list"),
        pytest.param('[{"id": []}]', id="id of a list"),
        pytest.param(1, id="number"),
    ],
)
def test_documents_that_cannot_be_read_are_missed(actual: Any) -> None:
    assert recall(docs(1), actual) == 0.0
    assert recall(docs(1, 2), docs(2, 1, 3), args={"k": 1}) == 0
    assert recall(docs(1, 2), docs(1, 3, 2), args={"k": 2.0}) == 0.5
    assert recall(docs(1), docs(1), args={"k": 0}) == recall(docs(1), docs(1), args=[2]) == 0.0


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(None, id="none"),
        pytest.param("[]", id="text of an empty list"),
        pytest.param([], id="empty list"),
        pytest.param("[{}]", id="no id"),
        pytest.param('[{"id": 1}, {"id": null}]', id="null id"),
    ],
)
def test_a_reference_needs_documents_with_ids(output: Any) -> None:
    with pytest.raises(MalformedStep, match=r"^output: "):
        prepare_step({"name": "retrieval", "output": output})


# Time series

NOW = "2025-03-01T12:00:00Z"


def points(reference: Any, actual: Any, executed: Any = NOW) -> float:
    step = {"args": actual, "execution_timestamp": executed}
    return compared(POINTS | {"args": reference}, step)


@pytest.mark.parametrize(
    ("reference", "actual", "expected"),
    [
        pytest.param({"mrid": "a"}, {"mrid": "a"}, 1, id="same"),
        pytest.param({"mrid": ["a", "b"]}, {"mrid": ["b", "a", "b"]}, 1, id="any order"),
        pytest.param({"mrid": ["a", "b"]}, {"mrid": ["a"]}, 0, id="one missing"),
        pytest.param({"mrid": "a"}, {"mrid": "a", "limit": 3}, 1, id="limit ignored"),
        pytest.param(
            {"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 3.0}, 1, id="limit of a float"
        ),
        pytest.param({"mrid": "a", "limit": 3}, {"mrid": "a", "limit": 4}, 0, id="another limit"),
        pytest.param(None, {"mrid": None, "limit": None}, 1, id="null"),
        pytest.param(None, {"limit": 3}, 0, id="limit alone"),
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
    pytest.param("2025-01-01T00:00:00Z", "2025-01-01", 1, id="date"),
    pytest.param("2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", 1, id="time zone"),
    pytest.param("2025-01-01T00:00:00Z", date(2025, 1, 1), 1, id="date object"),
    pytest.param("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+14:00", 0, id="ends of time"),
    pytest.param("now", "0s-ago", 1, id="now"),
    pytest.param("7d-ahead", "1w-ahead", 1, id="a week"),
    pytest.param("1d-ahead", "1d-ago", 0, id="past and future"),
    pytest.param(NOW, "now", 0, id="time for now"),
    pytest.param("now", None, 0, id="missing"),
    pytest.param(None, None, 1, id="both missing"),
]


@pytest.mark.parametrize("key", ["start", "end"])
@pytest.mark.parametrize(("reference", "actual", "expected"), TIMES)
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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(key, value, id=f"{key} {value!r:.20}")
        for key, values in MALFORMED.items()
        for value in values
    ],
)
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


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(IRI, id="plain"),
        pytest.param(f"<{IRI}>", id="angle brackets"),
        pytest.param(f'"{IRI}"', id="quotes"),
        pytest.param(f'"<{IRI}>"', id="quotes and brackets"),
        pytest.param(f"  {IRI}\n", id="spaces"),
        pytest.param('"urn:x\\u003a1"', id="escape"),
    ],
)
def test_ways_to_write_the_iri(written: str) -> None:
    assert discovered("sparql_query", f"<{IRI}>", written) == 1.0
    assert discovered("sparql_query", "<urn:x:2>", written) == 0.0


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(None, id="none"),
        pytest.param("", id="empty"),
        pytest.param("<>", id="empty brackets"),
        pytest.param("no scheme", id="no scheme"),
        pytest.param("/path", id="path"),
        pytest.param("urn:x y", id="space"),
        pytest.param("<urn:x", id="open bracket"),
        pytest.param(1, id="number"),
        pytest.param([IRI], id="list"),
    ],
)
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


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(bindings(IRI), id="results"),
        pytest.param([{"@id": IRI}], id="JSON-LD"),
        pytest.param(f"<{IRI}> a <urn:c> .", id="Turtle"),
        pytest.param(f"iri,name\n{IRI},one\n", id="CSV"),
        pytest.param(IRI, id="IRI alone"),
        pytest.param(f"See {IRI}.", id="prose"),
        pytest.param(json.dumps(bindings(IRI)), id="text of results"),
        pytest.param(f"[link]({IRI})", id="Markdown link"),
        pytest.param(f"['{IRI}','b']", id="Python list"),
        pytest.param(f"a\\b <{IRI}>", id="backslash"),
    ],
)
def test_a_query_that_finds_the_iri(output: Any) -> None:
    assert discovered("sparql_query", output)


@pytest.mark.parametrize(
    "output",
    [
        pytest.param(json.dumps(bindings("urn:x:12")), id="longer in results"),
        pytest.param(json.dumps(bindings("xurn:x:1")), id="letter before it"),
        pytest.param("<urn:x:12> a <urn:c> .", id="longer in Turtle"),
        pytest.param("urn:x:1.5", id="fraction"),
        pytest.param("urn:x:1é", id="letter after it"),
        pytest.param("urn:x:12,urn:x:13", id="longer in a list"),
    ],
)
def test_a_query_that_finds_only_similar_iris(output: str) -> None:
    assert not discovered("sparql_query", output)


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
