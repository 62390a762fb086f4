"""Words about a comparison of two runs: its headline, what changed, and what the intervals mean."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE, is_score
from graphrag_eval_async.helpers.text import name_cell, number, percent, plural
from graphrag_eval_async.inference.pairs import SIDES
from graphrag_eval_async.inference.power import POWER
from graphrag_eval_async.inference.verdicts import BETTER, WORSE, is_decided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

LISTED_IDS = 10
"""How many question ids a sentence lists."""

LISTED_CHANGES = 4
"""How many changes of metrics a headline lists with the same verdict."""

LISTED_TEMPLATES = 2
"""How many templates a headline names beside the change of one metric."""

NO_SCORE = "no question has a primary score on both sides"


def missing(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return how many questions of the baseline the candidate lacks, and the first; "" if none."""
    ids = snapshot["missing"]
    if not ids:
        return ""
    questions = plural(snapshot["questions"] + len(ids), "question")
    verb = "is" if len(ids) == 1 else "are"
    count = f"{len(ids)} of {questions} of the baseline {verb} missing from the candidate"
    return f"{count}: {_list_ids(ids, name)}"


def headline(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return the outcome of a comparison in a few sentences.

    The questions that the candidate lacks come first, then what became worse or better and how
    far, then the number of questions that became wrong or right.

    Args:
        snapshot: the comparison.
        name: renders names of metrics and templates, and ids of questions.
    """
    sentences = []
    lacking = missing(snapshot, name=name)
    if lacking:
        sentences.append(f"{lacking}.")

    primary_rows = {metric: row for metric, row in snapshot["overall"].items() if "verdict" in row}
    has_score = any(metric != ERROR_RATE for metric in primary_rows)
    is_equal = all(map(_is_equal, primary_rows.values()))
    has_one_sided_scores = any(
        sides[side]
        for metric, sides in snapshot["without_pair"].items()
        if is_score(metric)
        for side in SIDES
    )
    if is_equal and not has_score:
        sentences.append(f"Nothing to compare: {NO_SCORE}.")
        return " ".join(sentences)
    if is_equal and not has_one_sided_scores:
        sentences.append(_no_difference(snapshot, map(name, primary_rows)))
        return " ".join(sentences)

    verdicts = _verdicts_in_words(snapshot, name=name)
    sentences += verdicts or [_undecided(primary_rows, name=name)]
    if not has_score:
        sentences.append(f"{NO_SCORE.capitalize()}.")
    regressed = plural(len(snapshot["regressions"]), "regression")
    improved = plural(len(snapshot["improvements"]), "improvement")
    sentences.append(f"{regressed}, {improved}.")
    return " ".join(sentences)


def _is_equal(row: Mapping[str, Any]) -> bool:
    """Return whether each question has the same value of a metric in both runs."""
    return bool(row["ties"] == row["pairs"])


def _no_difference(snapshot: Mapping[str, Any], primary_metrics: Iterable[str]) -> str:
    """Return the headline of two runs whose primary metrics are equal in each question."""
    questions = plural(snapshot["questions"], "question")
    where = ""
    if not all(map(_is_equal, snapshot["overall"].values())):
        where = f" in {_list_metrics(primary_metrics)}"
    return f"No difference{where}: {questions} with the same values in both runs."


def _undecided(rows: Mapping[str, Mapping[str, Any]], *, name: Callable[[str], str]) -> str:
    """Return a sentence about the changes of primary metrics, none of which is decided.

    Metrics whose mean is the same are named only if no mean changed.
    """
    differing = {metric: row for metric, row in rows.items() if not _is_equal(row)}
    moved = {metric: row for metric, row in differing.items() if row["difference"] != 0}
    changes = [f"{name(metric)} {change_of(row)}" for metric, row in (moved or differing).items()]
    if not changes:
        return "Undecided: changes may be due to chance."
    return f"Undecided, may be due to chance: {_list_changes(changes)}."


def _verdicts_in_words(snapshot: Mapping[str, Any], *, name: Callable[[str], str]) -> list[str]:
    """Return a sentence about what became worse, and one about what became better, if anything."""
    decided = [
        *_decided_overall(snapshot, name=name),
        *_decided_in_templates(snapshot, name=name),
    ]
    sentences = []
    for verdict in (WORSE, BETTER):
        changes = [change for verdict_of_change, change in decided if verdict_of_change == verdict]
        if changes:
            sentences.append(f"{verdict.capitalize()}: {_list_changes(changes)}.")
    return sentences


def _decided_overall(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the verdict on each metric that is decided overall, and its change in words."""
    for metric, row in snapshot["overall"].items():
        if is_decided(row):
            change = f"{name(metric)} {change_of(row)}"
            yield row["verdict"], change + _most_changed_templates(snapshot, metric, name=name)
    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield sides["verdict"], f"{name(metric)} {_lost_values(sides)}"


def _most_changed_templates(
    snapshot: Mapping[str, Any], metric: str, *, name: Callable[[str], str]
) -> str:
    """Return the templates that account for the change of a metric, as " (most in ...)".

    They have the same verdict as the metric overall, and changed more. It is empty if there are
    none.
    """
    overall = snapshot["overall"][metric]
    changed = [
        (template, rows[metric])
        for template, rows in snapshot["per_template"].items()
        if metric in rows
        and rows[metric].get("verdict") == overall["verdict"]
        and abs(rows[metric]["difference"]) > abs(overall["difference"])
    ]
    if not changed:
        return ""
    changed.sort(key=lambda template_and_row: -abs(template_and_row[1]["difference"]))
    listed = "; ".join(
        f"{name(template)} {change_of(row)}" for template, row in changed[:LISTED_TEMPLATES]
    )
    if len(changed) > LISTED_TEMPLATES:
        listed += f"; and {len(changed) - LISTED_TEMPLATES} more"
    return f" (most in {listed})"


def _decided_in_templates(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the verdict and the change of each template whose verdict differs from the overall one.

    These are templates that changed by themselves.
    """
    overall = snapshot["overall"]
    for template, rows in snapshot["per_template"].items():
        for metric, row in rows.items():
            if is_decided(row) and row["verdict"] != overall[metric].get("verdict"):
                yield row["verdict"], f"{name(metric)} of {name(template)} {change_of(row)}"


def regressions(snapshot: Mapping[str, Any]) -> list[str]:
    """Return why a candidate is a regression: scores got worse, lost values, or do not exist."""
    primary = [metric for metric, row in snapshot["overall"].items() if "verdict" in row]
    reasons = []
    if all(metric == ERROR_RATE for metric in primary):
        reasons.append(NO_SCORE)
    for metric in primary:
        row = snapshot["overall"][metric]
        if row["verdict"] == WORSE:
            reasons.append(_regression(metric, row))
    for template, rows in regressed_templates(snapshot).items():
        reasons += [_regression(f"{template}:{metric}", row) for metric, row in rows.items()]
    for metric, sides in snapshot["without_pair"].items():
        if sides.get("verdict") == WORSE:
            reasons.append(f"{metric} {_lost_values(sides)}")
    return reasons


def regressed_templates(snapshot: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the rows with the verdict "worse" by template and metric."""
    regressed: dict[str, dict[str, Mapping[str, Any]]] = {}
    for template, rows in changed_templates(snapshot).items():
        worse = {metric: row for metric, row in rows.items() if row["verdict"] == WORSE}
        if worse:
            regressed[template] = worse
    return regressed


def changed_templates(snapshot: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the rows that are decided by template and metric.

    It is empty if all questions have the same template, whose rows repeat those of all questions.
    """
    groups = snapshot["per_template"]
    if len(groups) < 2:
        return {}
    return {
        template: {metric: row for metric, row in rows.items() if is_decided(row)}
        for template, rows in groups.items()
    }


def _regression(name: str, row: Mapping[str, Any]) -> str:
    """Return in words how a metric got worse; `name` is that of the metric and its template."""
    questions = (
        f"{plural(row['wins'], 'question')} better, {row['losses']} worse, {row['ties']} equal"
    )
    return f"{name} is worse: {change_of(row)}; {questions}, p {_p_value(row['p_adjusted'])}"


def one_sided(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about questions and values of metrics that only one side has.

    They leave out the questions of `missing`.
    """
    only_in_candidate = snapshot["only_in_candidate"]
    if only_in_candidate:
        yield _count_and_list("only in the candidate", only_in_candidate)
    for side, ids in snapshot["pending"].items():
        if ids:
            yield _count_and_list(f"pending in the {side}, and not compared", ids)

    # Metrics of one judge mostly lack a value in the same questions, which are listed once.
    metrics_by_questions: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for metric, sides in snapshot["without_pair"].items():
        for side in SIDES:
            if sides[side]:
                metrics_by_questions[side, tuple(sides[side])].append(metric)
    for (side, questions), metrics in metrics_by_questions.items():
        yield _count_and_list(f"{', '.join(metrics)} only in the {side}", questions)

    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield f"{metric} {_lost_values(sides)}: {sides['verdict']}"


def _count_and_list(subject: str, ids: Sequence[str]) -> str:
    """Return a subject, how many questions it is about, and the first of these."""
    return f"{subject}: {plural(len(ids), 'question')}: {_list_ids(ids)}"


def greatest_losses(
    comparison: Mapping[str, Any], count: int
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the `count` questions that got worse most, each once: a metric and the question's row.

    If a question got worse in several metrics, a primary metric comes first, and of several the one
    that changed most. The other metrics are `further_metrics` of the row, which otherwise has the
    keys of a row of `worse`.
    """
    overall = comparison["overall"]
    changes = [(metric, row) for metric, rows in comparison["worse"].items() for row in rows]

    def rank(change: tuple[str, Mapping[str, Any]]) -> tuple[bool, float]:
        metric, row = change
        is_secondary = "verdict" not in overall[metric]
        return is_secondary, -abs(row["difference"])

    changes_by_question: defaultdict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for metric, row in sorted(changes, key=rank):
        changes_by_question[row["question_id"]].append((metric, row))
    losses: list[tuple[str, Mapping[str, Any]]] = []
    for (metric, row), *further_changes in changes_by_question.values():
        further_metrics = [further_metric for further_metric, _ in further_changes]
        losses.append((metric, {**row, "further_metrics": further_metrics}))
    return losses[:count]


def ends(interval: Mapping[str, float] | None) -> str:
    """Return the ends of an interval of a difference in words; "" without an interval."""
    if interval is None:
        return ""
    return f"{signed(interval['low'])} to {signed(interval['high'])}"


def detectable(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sentences about the changes that a comparison could have seen, each after a space."""
    detectable_changes = []
    undetectable_metrics = []
    for metric, row in rows.items():
        if "detectable" not in row:
            continue
        if row["detectable"] is None:
            undetectable_metrics.append(metric)
        else:
            detectable_changes.append(f"{signed(row['detectable'])[1:]} in {metric}")
    sentences = ""
    if detectable_changes:
        changes = _list_metrics(detectable_changes)
        sentences += f" {percent(POWER)} power for a change of {changes}."
    if undetectable_metrics:
        metrics = _list_metrics(undetectable_metrics)
        sentences += f" Too few questions to see any change of {metrics}."
    return sentences


def validity(rows: Mapping[str, Mapping[str, Any]], level: float) -> str:
    """Return sentences about the intervals and p of rows, and the changes they could have seen."""
    decidable = [metric for metric, row in rows.items() if row.get("decidable")]
    if not decidable:
        return f"Each interval is at {percent(level)}, for its row alone.{detectable(rows)}"
    if len(decidable) == 1:
        text = f"The interval and p of {decidable[0]} hold at {percent(level)}."
    else:
        text = f"Intervals and p of {_list_metrics(decidable)} hold together, at {percent(level)}."
    if len(decidable) < len(rows):
        text += " Intervals of other rows are each for one row alone."
    return text + detectable(rows)


def _list_ids(ids: Sequence[str], name: Callable[[str], str] = name_cell) -> str:
    """Return the first ids, and how many follow."""
    listed = ", ".join(map(name, ids[:LISTED_IDS]))
    if len(ids) > LISTED_IDS:
        listed += f" and {len(ids) - LISTED_IDS} more"
    return listed


def _list_changes(changes: Sequence[str]) -> str:
    """Return the first changes of metrics, and how many follow."""
    listed = ", ".join(changes[:LISTED_CHANGES])
    if len(changes) > LISTED_CHANGES:
        listed += f" and {len(changes) - LISTED_CHANGES} more"
    return listed


def _list_metrics(names: Iterable[str]) -> str:
    """Return at least one name as a list in words, such as "a, b and c"."""
    *names_before, last = names
    if not names_before:
        return last
    return f"{', '.join(names_before)} and {last}"


def _lost_values(sides: Mapping[str, Any]) -> str:
    """Return in words how many questions lost and gained a value of a metric.

    `sides` has the ids of the questions that have a value on one side only, and the p of a test.
    """
    lost = plural(len(sides["baseline"]), "question")
    gained = len(sides["candidate"])
    p = _p_value(sides["p"])
    return f"has lost its value in {lost}, gained it in {gained}; sign test p {p}"


def change_of(row: Mapping[str, Any]) -> str:
    """Return both means of a row and their difference in words."""
    return f"{number(row['baseline'])} -> {number(row['candidate'])}, {signed(row['difference'])}"


def signed(value: float) -> str:
    """Return a difference with its sign, in two or three digits."""
    if abs(value) >= 1000:
        text = number(value)
    elif abs(value) < 0.1:
        text = f"{value:.2g}"
    else:
        text = f"{value:.3g}"
    return f"+{text}" if value > 0 else text


def _p_value(p: float) -> str:
    """Return a p-value after its relation, such as "= 0.04"."""
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def short_p(p: float | None) -> str:
    """Return a p-value for a table, such as "0.04" or "<0.001"; "" without one."""
    if p is None:
        return ""
    return _p_value(p).removeprefix("= ").replace(" ", "")
