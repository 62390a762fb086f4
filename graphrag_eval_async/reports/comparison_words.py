"""Words about a comparison of two runs: its headline, what changed, and what the intervals mean."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.inference.pairs import SIDES
from graphrag_eval_async.inference.power import POWER
from graphrag_eval_async.inference.verdicts import BETTER, WORSE, is_decided
from graphrag_eval_async.text import name_cell, number, percent, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

LISTED_IDS = 10  # how many ids of questions on one side only are listed


LISTED_CHANGES = 4  # of metrics and templates in a headline


CHANGES = ("regression", "improvement")


NO_SCORE = "no question has a primary score on both sides"


def missing(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return how many questions of the baseline the candidate lacks, and the first; "" if none."""
    ids = snapshot["missing"]
    of = plural(snapshot["questions"] + len(ids), "question")
    are = "is" if len(ids) == 1 else "are"
    told = f"{len(ids)} of {of} of the baseline {are} missing from the candidate"
    return f"{told}: {_listed(ids, name)}" if ids else ""


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
