"""Sentences about a comparison of two runs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.catalogue.outcomes import AGENT_ERROR, CAUSED_BY_AGENT, NOT_RUN
from graphrag_eval_async.inference.pairs import SIDES
from graphrag_eval_async.inference.power import POWER
from graphrag_eval_async.inference.verdicts import BETTER, WORSE, is_decided
from graphrag_eval_async.records.snapshots import counts_of, interval_of_mean, mean_of_questions
from graphrag_eval_async.text import interval_cell, name_cell, number, percent, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphrag_eval_async.catalogue.conditions import Condition

RESOURCE_HEADINGS = {"total_tokens": "tokens", "elapsed_sec": "seconds"}
"""The metrics besides scores that tables show, and their headings."""

LISTED_IDS = 10  # how many ids of questions on one side only are listed
LISTED_CHANGES = 4  # of metrics and templates in a headline
CHANGES = ("regression", "improvement")
NOTHING_SCORED = (
    "Nothing scored the responses: there are no steps to compare, and no scores of answers. To "
    "compare answers, set `match` on questions, or evaluate with --llm PROVIDER/MODEL or "
    "--config FILE. To compare steps, questions need reference_steps, and responses actual_steps."
)
NO_SCORE = "no question has a primary score on both sides"
VALIDITY = {"one_look": "for one look at a finished run", "anytime": "valid however often you look"}


FAILURES = {
    AGENT_ERROR: "the agent failed: it raised an error, took too long or reported an error",
    "forbidden_step": "the agent took a step that the question forbids",
    "too_many_steps": "the agent took more steps than the question allows",
    "no_answer": "no answer, though no step is wrong",
    "no_steps": "the agent took no expected step",
    "missing_step": "the agent took other expected steps, but not this one",
    "wrong_step_order": "right steps in the wrong order",
    "step_error": "the step failed",
    "wrong_args": "the step has other arguments",
    "empty_result": "the step returned nothing",
    "missing_columns": "the query returned too few columns",
    "wrong_order": "right rows in the wrong order",
    "missing_rows": "mostly missing rows",
    "extra_rows": "mostly extra rows",
    "wrong_values": "mostly wrong values in rows that are otherwise right",
    "missing_triples": "mostly missing triples",
    "extra_triples": "mostly extra triples",
    "missed_retrieval": "some relevant documents were not found",
    "wrong_query_result": "the step returned something else",
    "right_steps_wrong_answer": "right steps, but a wrong answer",
    "wrong_answer": "the answer is wrong; there are no reference steps",
    "wrong_steps_right_answer": "the answer is right, though the steps are wrong",
}
"""What the reasons of failure mean."""


def reason_in_words(reason: str) -> str:
    """A reason of failure and what it means."""
    return f"{reason}: {FAILURES[reason]}" if reason in FAILURES else reason


def repeats_rows(group: Mapping[str, Any]) -> list[list[str]]:
    """Return k, pass@k, pass^k and their number of questions, for some k."""
    own = group.get("repeats") or {}
    shown = [k for k in range(1, len(own) // 3 + 1) if k <= 5 or k in (10, 20, 50, len(own) // 3)]
    rates = ([f"{own[f'{key}{k}']:.3f}" for key in ("pass@", "pass^")] for k in shown)
    return [
        [str(k), *each, str(own[f"questions@{k}"])] for k, each in zip(shown, rates, strict=True)
    ]


def published_lines(group: Mapping[str, Any]) -> list[str]:
    """Return the means as benchmarks publish them, a line each; [] without any."""
    means = group.get("published_means")
    if not means:
        return []
    questions = f"over {means['questions']:,} questions"
    return [
        f"macro F1 QALD: {means['qald_f1']:.3f} {questions}",
        f"mean as TEXT2SPARQL publishes it: {means['published']:.3f} {questions}",
    ]


def right_in_words(conditions: Iterable[Condition]) -> str:
    """Which samples count as right in `repeats`."""
    return f"no error, {', '.join(each.text for each in conditions)}, as far as the run has them"


def variances(group: Mapping[str, Any]) -> dict[str, str]:
    """Return in words how each score of repeated questions varies, as far as known."""
    known = {name: each.get("variance") for name, each in group.items() if isinstance(each, dict)}
    kinds = {"between": "between questions", "within": "between samples of a question"}
    return {
        name: "variance "
        + ", ".join(f"{max(own[key], 0):.3g} {words}" for key, words in kinds.items() if key in own)
        for name, own in known.items()
        if own
    }


def unscored(micro: Mapping[str, Any]) -> str:
    """Return why no response has a score, and the cure; empty if one has, or a judge failed or
    works.
    """
    scores = [each for name, each in micro.items() if isinstance(each, dict) and is_score(name)]
    covered = [each["coverage"] for each in scores if "coverage" in each]
    results, errors = counts_of(micro)
    judged = any(
        each["values"] or each["pending"] or {*each["failed"]} - CAUSED_BY_AGENT for each in covered
    )
    told = f"Errors: {errors} of {plural(results, 'response')}. " if errors else ""
    return told + NOTHING_SCORED if results > errors and not judged else ""


def missing(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return how many questions of the baseline the candidate lacks, and the first; "" if none."""
    ids = snapshot["missing"]
    of = plural(snapshot["questions"] + len(ids), "question")
    are = "is" if len(ids) == 1 else "are"
    told = f"{len(ids)} of {of} of the baseline {are} missing from the candidate"
    return f"{told}: {_listed(ids, name)}" if ids else ""


def not_run_in_words(coverage: Mapping[str, Any]) -> str:
    """How many results have no score of steps since queries could not be run; empty if none."""
    count = coverage.get("failed", {}).get(NOT_RUN)
    return f"the queries of {plural(count, 'result')} could not be run" if count else ""


def mean_cell(stats: Mapping[str, Any]) -> str:
    """The mean over questions, and the ends of its interval."""
    if "mean" not in stats:
        return ""
    mean, interval = mean_of_questions(stats), interval_of_mean(stats)
    if interval is None:
        return (
            number(mean)
            if abs(mean) >= 1000
            else f"{mean:.3f}"
            if "interval" in stats
            else f"{mean:.3g}"
        )
    return f"{mean:.3f} {interval_cell(interval['low'], interval['high'])}"


def headline(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return the outcome, after the questions that are missing; `name` renders names and ids."""
    lacking = f"{told}. " if (told := missing(snapshot, name=name)) else ""
    rows = {metric: row for metric, row in snapshot["overall"].items() if "verdict" in row}
    unjudged = not {*rows} - {ERROR_RATE}
    if unjudged and all(row["ties"] == row["pairs"] for row in rows.values()):
        return f"{lacking}Nothing to compare: {NO_SCORE}."
    lone = any(sides[side] for sides in snapshot["without_pair"].values() for side in SIDES)
    if not lone and all(row["ties"] == row["pairs"] for row in rows.values()):
        same = f"{plural(snapshot['questions'], 'question')} with the same values in both runs"
        alike = all(row["ties"] == row["pairs"] for row in snapshot["overall"].values())
        what = "" if alike else f" in {_listed_metrics(map(name, rows))}"
        return f"{lacking}No difference{what}: {same}."
    regressed, improved = len(snapshot["regressions"]), len(snapshot["improvements"])
    count = ", ".join(map(plural, (regressed, improved), CHANGES))
    verdict = _changes_in_words(snapshot, name=name)
    if not verdict:
        verdict = "Undecided: changes may be due to chance."
    alone = f" {NO_SCORE.capitalize()}." if unjudged else ""
    return f"{lacking}{verdict}{alone} {count}."


def _changes_in_words(snapshot: Mapping[str, Any], *, name: Callable[[str], str]) -> str:
    """Return sentences about what became worse and what better; empty if nothing is decided.

    A template is named if its change is decided and that of the metric overall is not the same.
    """
    decided = [
        *_decided_overall(snapshot, name=name),
        *_decided_in_templates(snapshot, name=name),
    ]
    sentences = []
    for verdict in (WORSE, BETTER):
        changes = [change for verdict_of_change, change in decided if verdict_of_change == verdict]
        if changes:
            listed = ", ".join(changes[:LISTED_CHANGES])
            if len(changes) > LISTED_CHANGES:
                listed += f" and {len(changes) - LISTED_CHANGES} more"
            sentences.append(f"{verdict.capitalize()}: {listed}.")
    return " ".join(sentences)


def _decided_overall(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the verdict on each metric that is decided overall, and its change in words."""
    for metric, row in snapshot["overall"].items():
        if is_decided(row):
            yield row["verdict"], f"{name(metric)} {change_of(row)}"
    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield sides["verdict"], f"{name(metric)} {_values(sides)}"


def _decided_in_templates(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the same for each template whose verdict differs from that of all templates."""
    overall = snapshot["overall"]
    for template, rows in snapshot["per_template"].items():
        for metric, row in rows.items():
            if is_decided(row) and row["verdict"] != overall[metric].get("verdict"):
                yield row["verdict"], f"{name(metric)} of {name(template)} {change_of(row)}"


def regressions(snapshot: Mapping[str, Any]) -> list[str]:
    """Return why a candidate is a regression: scores got worse, lost values, or do not exist."""
    primary = [metric for metric, row in snapshot["overall"].items() if "verdict" in row]
    reasons = [] if {*primary} - {ERROR_RATE} else [NO_SCORE]
    groups = [("", snapshot["overall"])]
    groups += [(f"{template}:", group) for template, group in snapshot["per_template"].items()]
    reasons += [
        f"{prefix}{metric} is worse: {change_of(group[metric])}; {_counts(group[metric])}, "
        f"p {_p_value(group[metric]['p_adjusted'])}"
        for prefix, group in groups
        for metric in primary
        if metric in group and group[metric]["verdict"] == "worse"
    ]
    return reasons + [
        f"{metric} {_values(sides)}"
        for metric, sides in snapshot["without_pair"].items()
        if sides.get("verdict") == "worse"
    ]


def one_sided(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield what only one side has, besides `missing` questions: others, pending ones, values of
    metrics.
    """
    lone = {"only in the candidate": snapshot["only_in_candidate"]}
    lone |= {
        f"pending in the {side}, and not compared": ids for side, ids in snapshot["pending"].items()
    }
    for told, ids in lone.items():
        if ids:
            yield f"{told}: {plural(len(ids), 'question')}: {_listed(ids)}"
    alike: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for metric, sides in snapshot["without_pair"].items():
        for side in SIDES:
            if ids := sides[side]:
                alike[side, (*ids,)].append(metric)
    for (where, same), metrics in alike.items():
        yield (
            f"{', '.join(metrics)} only in the {where}: {plural(len(same), 'question')}: "
            f"{_listed(same)}"
        )
    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield f"{metric} {_values(sides)}: {sides['verdict']}"


def _listed(ids: Sequence[str], name: Callable[[str], str] = name_cell) -> str:
    more = f" and {len(ids) - LISTED_IDS} more" if len(ids) > LISTED_IDS else ""
    return ", ".join(map(name, ids[:LISTED_IDS])) + more


def greatest_losses(
    comparison: Mapping[str, Any], count: int
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the rows of `worse` that changed most, each with its metric: first those that are
    decided.
    """
    worse, overall = comparison["worse"], comparison["overall"]
    every = [
        ("verdict" not in overall[metric], metric, row) for metric in worse for row in worse[metric]
    ]
    every.sort(key=lambda each: (each[0], -abs(each[2]["difference"])))
    return [(metric, row) for _, metric, row in every[:count]]


def ends(interval: Mapping[str, float] | None) -> str:
    """The ends of an interval for a difference; nothing if there is none."""
    return f"{signed(interval['low'])} to {signed(interval['high'])}" if interval else ""


def detectable(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Sentences about the changes that a comparison could have seen, each after a space."""
    known = {metric: row["detectable"] for metric, row in rows.items() if "detectable" in row}
    seen = [
        f"{signed(change)[1:]} in {metric}"
        for metric, change in known.items()
        if change is not None
    ]
    unseen = [metric for metric, change in known.items() if change is None]
    told = f" {percent(POWER)} power for a change of {_listed_metrics(seen)}." if seen else ""
    return told + (
        f" Too few questions to see any change of {_listed_metrics(unseen)}." if unseen else ""
    )


def validity(rows: Mapping[str, Mapping[str, Any]], level: float) -> str:
    """Sentences about the intervals and p of rows, and about the changes that they could have
    seen.
    """
    together = [metric for metric, row in rows.items() if row.get("decidable")]
    if not together:
        return f"Each interval is at {percent(level)}, for its row alone.{detectable(rows)}"
    if len(together) == 1:
        text = f"The interval and p of {together[0]} hold at {percent(level)}."
    else:
        text = f"Intervals and p of {_listed_metrics(together)} hold together, at {percent(level)}."
    if len(together) < len(rows):
        text += " Intervals of other rows are each for one row alone."
    return text + detectable(rows)


def _listed_metrics(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _counts(row: Mapping[str, Any]) -> str:
    return f"{plural(row['wins'], 'question')} better, {row['losses']} worse, {row['ties']} equal"


def _values(sides: Mapping[str, Any]) -> str:
    lost, gained = plural(len(sides["baseline"]), "question"), len(sides["candidate"])
    return (
        f"has lost its value in {lost}, gained it in {gained}; sign test p {_p_value(sides['p'])}"
    )


def change_of(row: Mapping[str, Any]) -> str:
    """Both means and their difference."""
    return f"{number(row['baseline'])} -> {number(row['candidate'])}, {signed(row['difference'])}"


def value_of(change: Mapping[str, Any]) -> str:
    """The value of an alert in words."""
    if change["value"] is not None:
        return number(change["value"])
    return "window not full yet" if change.get("samples") else "no values"


def signed(value: float) -> str:
    """A difference with its sign, in two or three digits."""
    text = (
        number(value)
        if abs(value) >= 1000
        else f"{value:.2g}"
        if abs(value) < 0.1
        else f"{value:.3g}"
    )
    return text if text.startswith("-") or not value else f"+{text}"


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def short_p(p: float | None) -> str:
    """A p-value in a table; nothing if there is none."""
    return "" if p is None else _p_value(p).removeprefix("= ").replace(" ", "")
