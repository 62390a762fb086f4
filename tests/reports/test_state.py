"""What is said of a run: whether scores changed, since when, and how far the run is."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from math import fsum
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from graphrag_eval_async.reports import history as history_module
from graphrag_eval_async.reports.history import EVERY, MAX_CHECKED_TEMPLATES, History
from graphrag_eval_async.reports.progress import Phase, RunProgress
from graphrag_eval_async.reports.state import RunState, StateKind, run_state
from tests.support.histograms import weights_of
from tests.support.summaries import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SCORE = "steps_score"
LEVEL = 0.95
NOON = 1_800_000_000.0
"""A time in seconds since 1970: 2027-01-15 08:00 UTC."""


def state_of(history: History, scores: Iterable[str] = (SCORE,), level: float = LEVEL) -> RunState:
    return run_state(history.courses(), [*scores], level)


def history_of(
    results: Iterable[tuple[str, float | None]], *, score: str = SCORE, restored: bool = False
) -> History:
    """The history of results: each a template and a score, None for an error."""
    history = History()
    for template, value in results:
        values = None if value is None else {score: value}
        history.add(seen(values, template), restored=restored)
    return history


def first_change(
    draw: Callable[[int], tuple[str, float]], results: int, *, level: float = LEVEL
) -> tuple[int, RunState] | None:
    """After how many results a change is told first, if somebody looks all the time."""
    history = History()
    for number in range(1, results + 1):
        template, mean = draw(number)
        history.add(seen({SCORE: mean}, template))
        if number % EVERY == 0:
            state = state_of(history, level=level)
            if state.changes:
                return number, state
    return None


def of_one_template(random: Random, _number: int, _results: int) -> tuple[str, float]:
    return "t", float(random.random() < 0.9)


def of_five_templates(random: Random, _number: int, _results: int) -> tuple[str, float]:
    place = random.randrange(5)
    return f"t{place}", float(random.random() < 0.95 - place / 10)


def shifting(random: Random, number: int, results: int) -> tuple[str, float]:
    """The hard template's share rises from 20% to 64%; each template's mean stays the same."""
    share = 0.2 if number <= results / 2 else 0.64
    template, mean = ("hard", 0.4) if random.random() < share else ("easy", 0.92)
    return template, float(random.random() < mean)


def drifting(random: Random, number: int, results: int) -> tuple[str, float]:
    """The share of the hardest of five templates rises all the time."""
    if random.random() < number / results:
        return "t4", float(random.random() < 0.1)
    place = random.randrange(5)
    return f"t{place}", float(random.random() < 0.9 - place / 5)


def sorted_by_template(random: Random, number: int, results: int) -> tuple[str, float]:
    """One template after the other, the easiest first."""
    place = number * 4 // (results + 1)
    return f"t{place}", float(random.random() < 0.95 - place / 4)


def in_waves(random: Random, number: int, _results: int) -> tuple[str, float]:
    """The mix swings to and fro every 100 results; scores are fractions, not 0 or 1."""
    share = 0.8 if number // 100 % 2 else 0.1
    if random.random() < share:
        return "hard", random.random() / 2
    return "easy", 1 - random.random() / 5


# At a level of 50%, so that a mistake of the method has room to show.
@pytest.mark.parametrize(
    ("mix", "runs"),
    [
        (of_one_template, 300),
        (of_five_templates, 100),
        (shifting, 300),
        (drifting, 100),
        (sorted_by_template, 100),
        (in_waves, 100),
    ],
)
def test_a_change_of_the_mix_is_no_change_of_scores(
    mix: Callable[[Random, int, int], tuple[str, float]], runs: int
) -> None:
    level = 0.5
    results = 400
    wrong = 0
    for seed in range(runs):
        random = Random(seed)
        told = first_change(lambda number: mix(random, number, results), results, level=level)  # noqa: B023
        wrong += told is not None
    assert wrong / runs <= 1 - level


def test_a_change_of_the_mix_is_said_as_such() -> None:
    random = Random(1)
    history = history_of(shifting(random, number, 2000) for number in range(1, 2001))
    state = state_of(history)
    assert state.kind is StateKind.STEADY
    assert state.mix is not None
    assert state.mix.template == "hard"
    assert abs(state.mix.since_result - 1000) <= 100
    assert re.fullmatch(
        r"Steady: the share of template hard rose from (19|2\d)% to 6\d%; "
        r"no template clearly changed",
        state.text,
    )


TEMPLATES = {"points": 0.9, "lines_between": 0.95, "stations": 0.8, "counts": 0.6}


@pytest.mark.parametrize(
    ("fallen", "most_results"),
    [({"lines_between": 0.3}, 200), ({name: mean - 0.3 for name, mean in TEMPLATES.items()}, 400)],
    ids=["one template of four", "all templates"],
)
def test_a_real_fall_is_found_and_dated(fallen: dict[str, float], most_results: int) -> None:
    for seed in range(10):
        random = Random(seed)

        def draw(number: int, random: Random = random) -> tuple[str, float]:
            template = random.choice([*TEMPLATES])
            means = TEMPLATES if number <= 1000 else TEMPLATES | fallen
            return template, float(random.random() < means[template])

        found = first_change(draw, 1000 + most_results)
        assert found is not None
        results, state = found
        assert results > 1000
        assert state.kind is StateKind.WORSE
        change = state.changes[0]
        assert change.is_loss
        assert abs(change.since_result - 1000) <= 2 * EVERY
        assert change.before - change.after > 0.15
        if len(fallen) == 1:
            assert change.template == "lines_between"


def test_a_fall_everywhere_is_not_blamed_on_one_template() -> None:
    """Not either as long as the falls of few templates are certain."""
    leading_templates = []
    for seed in range(10):
        random = Random(seed)

        def draw(number: int, random: Random = random) -> tuple[str, float]:
            mean = 0.95 if number <= 1500 else 0.7
            return random.choice("abcde"), float(random.random() < mean)

        history = history_of(draw(number) for number in range(1, 1501))
        for number in range(1501, 2501):
            template, value = draw(number)
            history.add(seen({SCORE: value}, template))
            if number % EVERY == 0:
                state = state_of(history)
                if any(change.template is None for change in state.changes):
                    leading_templates.append(state.changes[0].template)
    assert leading_templates.count(None) > 50
    # At first, few results make up the mean of a template, so that some seem to fall much more.
    assert leading_templates.count(None) > 0.9 * len(leading_templates)


FALLS = {
    "the second of five templates": (
        {"a": 0.9, "b": 0.95, "c": 0.8, "d": 0.6, "e": 0.85}, {"b": 0.73}, 300, 800,
    ),
    "one template of four": (TEMPLATES, {"lines_between": 0.3}, 50, 100),
    "the only template": ({"t": 0.9}, {"t": 0.7}, 100, 250),
    "all templates": (TEMPLATES, {name: mean - 0.15 for name, mean in TEMPLATES.items()}, 200, 700),
}  # fmt: skip


@pytest.mark.parametrize(
    ("means", "fallen", "results_to_doubt", "results_to_certainty"), FALLS.values(), ids=FALLS
)
def test_most_falls_are_tentative_soon_and_certain_later(
    means: dict[str, float],
    fallen: dict[str, float],
    results_to_doubt: int,
    results_to_certainty: int,
) -> None:
    runs = 10
    results_before = 2000
    in_doubt = 0
    certain = 0
    for seed in range(runs):
        random = Random(seed)

        def draw(means: dict[str, float], random: Random = random) -> tuple[str, float]:
            template = random.choice([*means])
            return template, float(random.random() < means[template])

        history = history_of(draw(means) for _ in range(results_before))
        for number in range(1, results_to_certainty + 1):
            template, value = draw(means | fallen)
            history.add(seen({SCORE: value}, template))
            if number == results_to_doubt:
                kind = state_of(history).kind
                in_doubt += kind in {StateKind.PERHAPS_WORSE, StateKind.WORSE}
        certain += state_of(history).kind is StateKind.WORSE
    assert in_doubt >= 0.7 * runs
    assert certain >= 0.7 * runs


def test_a_run_without_changes_is_hardly_ever_perhaps_worse() -> None:
    looks = 0
    in_doubt = 0
    for seed in range(30):
        random = Random(seed)
        history = History()
        for number in range(1, 1501):
            template, value = of_five_templates(random, number, 1500)
            history.add(seen({SCORE: value}, template))
            if number % EVERY == 0:
                looks += 1
                in_doubt += state_of(history).kind is StateKind.PERHAPS_WORSE
    assert in_doubt / looks <= 0.01


TENTATIVE = (
    [("a", 1.0), ("b", 1.0)] * 100 + [("a", 1.0), ("b", 0.0)] * 5 + [("a", 1.0), ("b", 1.0)] * 20
)
"""Results of two templates. After 200 of them, five of the second template are wrong."""

TENTATIVE_SCORES = "b 1.00 to 0.80, steps_score 1.00 to 0.90"


def test_a_tentative_loss_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    at_times(monkeypatch, 1.0)
    state = state_of(history_of(TENTATIVE))
    assert state.kind is StateKind.PERHAPS_WORSE
    assert state.text == (
        f"Perhaps getting worse since 15 Jan 08:03 UTC: {TENTATIVE_SCORES} (not certain yet)"
    )
    assert state.changes == ()
    assert [loss.template for loss in state.tentative_losses] == ["b", None]
    assert state.since == state.tentative_losses[0].since
    as_json = json.loads(json.dumps(state.as_dict()))
    assert (as_json["kind"], as_json["changes"]) == ("perhaps_worse", [])
    assert (
        as_json["tentative_losses"][0]["since"] == as_json["since"] == "2027-01-15T08:03:20+00:00"
    )


def test_a_tentative_loss_says_that_means_are_over_results() -> None:
    courses = history_of(TENTATIVE, restored=True).courses()
    assert run_state(courses, [SCORE], LEVEL, uneven_groups=["b"]).text == (
        f"Perhaps getting worse since result 200: {TENTATIVE_SCORES} "
        "(means over results, not certain yet)"
    )


def test_a_tentative_gain_is_not_told() -> None:
    results = [(template, 1 - value) for template, value in TENTATIVE]
    assert state_of(history_of(results)).text == "Steady"


def test_errors_may_be_tentative_losses() -> None:
    results = [(name, value or None) for name, value in TENTATIVE]
    text = state_of(history_of(results, restored=True)).text
    assert text.startswith("Perhaps getting worse since result 200: errors of b 0% to 20%")


def test_a_fall_within_a_shift_of_the_mix_is_found() -> None:
    """The mean of all results stays about the same, since more of them are easy."""
    random = Random(3)
    history = History()
    for number in range(1, 3001):
        share, mean = (0.6, 0.7) if number <= 1500 else (0.25, 0.3)
        if random.random() < share:
            history.add(seen({SCORE: float(random.random() < mean)}, "hard"))
        else:
            history.add(seen({SCORE: float(random.random() < 0.9)}, "easy"))
    state = state_of(history)
    assert state.kind is StateKind.WORSE
    assert state.changes[0].template == "hard"
    assert "hard 0.69 to 0.29" in state.text
    assert "the share of template easy rose" in state.text


def at_times(monkeypatch: pytest.MonkeyPatch, seconds_a_result: float) -> None:
    """Let a result come every so many seconds, from `NOON` on."""
    count = 0

    def tick() -> float:
        return NOON + count * seconds_a_result

    monkeypatch.setattr(history_module, "time", tick)
    add = History.add

    def counted(self: History, *args: Any, **options: Any) -> None:
        nonlocal count
        add(self, *args, **options)
        count += 1

    monkeypatch.setattr(History, "add", counted)


SAME = [("t", 1.0)]
CASES: dict[str, tuple[Sequence[tuple[str, float | None]], str, str]] = {
    "no result": ([], "Too early to say: 0 of about 100 results", SCORE),
    "few results": (SAME * 99, "Too early to say: 99 of about 100 results", SCORE),
    "equal": (SAME * 100, "Steady", SCORE),
    "to and fro": ([("t", 1.0), ("t", 0.0)] * 500, "Steady", SCORE),
    "not from 0 to 1": ([("t", 5.0)] * 1000 + SAME * 500, "Steady", "tone"),
    "a fall": (
        SAME * 3800 + [("t", 0.5)] * 200,
        "Getting worse since 15 Jan 09:03 UTC: steps_score 1.00 to 0.50",
        SCORE,
    ),
    "an empty name": (
        [("", float(number < 200)) for number in range(400)],
        "Getting worse since 15 Jan 08:03 UTC: steps_score 1.00 to 0.00",
        SCORE,
    ),
    "a small fall": (
        SAME * 5000 + [("t", 0.99)] * 5000,
        "Getting worse since 15 Jan 09:26 UTC: steps_score 1.000 to 0.990",
        SCORE,
    ),
    "a rise": (
        [("t", 0.2)] * 500 + [("t", 0.9)] * 500,
        "Getting better since 15 Jan 08:08 UTC: steps_score 0.20 to 0.90",
        SCORE,
    ),
    "fewer errors": (
        [("t", None), ("t", 0.5)] * 300 + [("t", 0.5)] * 300,
        "Getting better since 15 Jan 08:10 UTC: errors 50% to 0%",
        SCORE,
    ),
    "only errors later": (
        SAME * 300 + [("t", None)] * 300,
        "Getting worse since 15 Jan 08:05 UTC: errors 0% to 100%",
        SCORE,
    ),
    "one of 30 templates": (
        [(f"t{i}", float((i + j) % 2 if i else j < 100)) for j in range(200) for i in range(30)],
        "Getting worse since 15 Jan 08:50 UTC: t0 1.00 to 0.00",
        SCORE,
    ),
    "a name from outside": (
        [(f"{name}\n\x1b[31m", value) for value in (1.0, 0.0) for _ in range(200) for name in "ab"],
        r"Getting worse since 15 Jan 08:06 UTC: steps_score 1.00 to 0.00, a \x1b[31m 1.00 to 0.00, b \x1b[31m 1.00 to 0.00",  # noqa: E501
        SCORE,
    ),
}


@pytest.mark.parametrize(("results", "expected", "score"), CASES.values(), ids=CASES)
def test_the_line(
    monkeypatch: pytest.MonkeyPatch,
    results: Sequence[tuple[str, float | None]],
    expected: str,
    score: str,
) -> None:
    at_times(monkeypatch, 1.0)
    state = state_of(history_of(results, score=score), [score])
    assert state.text == expected
    assert json.loads(json.dumps(state.as_dict()))["text"] == expected


def test_without_a_score() -> None:
    state = state_of(history_of(SAME * 200, score="total_tokens"), [])
    assert (state.kind, state.text) == (StateKind.NO_SCORES, "No score from 0 to 1 so far")


def test_a_fall_in_an_earlier_run_has_no_time() -> None:
    history = history_of(SAME * 400 + [("t", 0.2)] * 400, restored=True)
    state = state_of(history)
    assert state.text == "Getting worse since result 400: steps_score 1.00 to 0.20"
    assert (state.since, state.changes[0].since) == (None, None)


def test_a_fall_after_a_break_began_with_the_first_result_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = NOON
    monkeypatch.setattr(history_module, "time", lambda: now)
    history = History()
    for _ in range(400):
        history.add(seen({SCORE: 1.0}))
    now += 12 * 3600
    for _ in range(200):
        history.add(seen({SCORE: 0.2}))
    state = state_of(history)
    assert state.since is not None
    assert state.since.timestamp() == now


def test_means_over_results_are_said_to_be_so_where_questions_repeat() -> None:
    history = history_of(SAME * 400 + [("t", 0.2)] * 400, restored=True)
    state = run_state(history.courses(), [SCORE], LEVEL, uneven_groups=[None])
    assert state.text == (
        "Getting worse since result 400: steps_score 1.00 to 0.20 (means over results)"
    )


def test_several_scores_are_named() -> None:
    history = History()
    for number in range(800):
        values = {SCORE: 1.0 if number < 400 else 0.5, "answer_f1": 0.5 + number % 2 / 4}
        history.add(seen(values, f"t{number % 2}"))
    text = state_of(history, [SCORE, "answer_f1"]).text
    assert "steps_score of t0 1.00 to 0.50" in text
    assert "answer_f1" not in text


def test_many_templates_take_no_more_memory_than_some() -> None:
    history = History()
    for number in range(3000):
        history.add(seen({SCORE: 1.0}, f"t{number}"))
    courses = history.courses()
    assert len(courses.checkpoints[-1].values) == MAX_CHECKED_TEMPLATES + 1
    assert state_of(history).kind is StateKind.STEADY


def test_checkpoints_are_dense_of_late_and_sum_up_all_results() -> None:
    random = Random(1)
    values = [random.random() for _ in range(10_000)]
    history = history_of(("t", value) for value in values)
    checkpoints = history.courses().checkpoints
    assert [each.results for each in checkpoints[-16:]] == [*range(9250, 10_001, EVERY)]
    assert len(checkpoints) < 60
    for checkpoint in checkpoints[1:]:
        so_far = values[: checkpoint.results]
        counted = checkpoint.values["t"][SCORE]
        assert counted.size == len(so_far)
        assert counted.total == pytest.approx(fsum(so_far))
        assert counted.squares == pytest.approx(fsum(value**2 for value in so_far))
        assert counted.weights == pytest.approx(weights_of(so_far), abs=1e-6)
    earlier = [each.results for each in checkpoints[:-16]]
    # The distances grow with the age.
    assert max(after / before for before, after in pairwise(earlier[8:])) < 1.3


PROGRESS = {
    "running": (
        {"phase": Phase.RUNNING, "results": 412, "done": 412, "total": 1000, "rate": 3.2,
         "eta_seconds": 184.0},
        "412 of 1,000 questions, 3.2 results/s, about 3 min left",
    ),
    "one question": (
        {"phase": Phase.RUNNING, "results": 0, "done": 0, "total": 1, "rate": 0.0},
        "0 of 1 question, 0.0 results/s",
    ),
    "repeats": (
        {"phase": Phase.RUNNING, "results": 2400, "done": 240, "total": 240, "rate": 0.1},
        "2,400 results of 240 questions, 0.1 results/s",
    ),
    "repeats, not all asked": (
        {"phase": Phase.RUNNING, "results": 2400, "done": 120, "total": 240, "rate": 0.1},
        "2,400 results, 120 of 240 questions, 0.1 results/s",
    ),
    "repeats of one question": (
        {"phase": Phase.RUNNING, "results": 2, "done": 1, "total": 1, "rate": 0.1},
        "2 results of 1 question, 0.1 results/s",
    ),
    "no reference set": (
        {"phase": Phase.RUNNING, "results": 1, "rate": 0.5},
        "1 result, 0.5 results/s",
    ),
    "a long time left": (
        {"phase": Phase.RUNNING, "results": 10, "done": 10, "total": 9000, "rate": 1.0,
         "eta_seconds": 8990.0},
        "10 of 9,000 questions, 1.0 results/s, about 2 h 30 min left",
    ),
    "ended": ({"phase": Phase.ENDED, "results": 1000}, "ended after 1,000 results"),
    "restoring": (
        {"phase": Phase.RESTORING, "results": 1500},
        "restoring the results of an earlier run: 1,500 so far",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), PROGRESS.values(), ids=PROGRESS)
def test_the_progress_in_words(fields: dict[str, Any], expected: str) -> None:
    progress = RunProgress(**fields)
    assert progress.text == expected
    assert json.loads(json.dumps(progress.as_dict()))["text"] == expected
