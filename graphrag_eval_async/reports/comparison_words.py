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

MAX_IDS = 10
"""How many question ids a sentence lists."""

MAX_CHANGES = 4
"""How many changes of metrics a headline lists with the same verdict."""

MAX_TEMPLATES = 2
"""How many templates a headline names beside the change of one metric."""

NO_SCORE_TO_COMPARE = "no question has a primary score on both sides"


def missing(snapshot: Mapping[str, Any], *, name: Callable[[str], str] = name_cell) -> str:
    """Return how many questions of the baseline the candidate lacks, and the ids of the first ones.

    Args:
        snapshot: the comparison.
        name: renders the ids of questions.

    Returns:
        "" if no question is missing.
    """
    ids = snapshot["missing"]
    if not ids:
        return ""
    # `questions` counts only those that both runs have.
    questions_of_baseline = plural(snapshot["questions"] + len(ids), "question")
    verb = "is" if len(ids) == 1 else "are"
    count = (
        f"{len(ids)} of {questions_of_baseline} of the baseline {verb} missing from the candidate"
    )
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
    missing_questions = missing(snapshot, name=name)
    if missing_questions:
        sentences.append(f"{missing_questions}.")

    # Only primary metrics have a verdict: the comparison decides about them.
    primary_rows = {metric: row for metric, row in snapshot["overall"].items() if "verdict" in row}
    has_score = any(metric != ERROR_RATE for metric in primary_rows)
    is_equal = all(map(_is_equal, primary_rows.values()))
    if is_equal and not has_score:
        sentences.append(f"Nothing to compare: {NO_SCORE_TO_COMPARE}.")
        return " ".join(sentences)
    if is_equal and not _has_one_sided_score(snapshot):
        sentences.append(_no_difference(snapshot, map(name, primary_rows)))
        return " ".join(sentences)

    verdicts = _verdicts_in_words(snapshot, name=name)
    if verdicts:
        sentences += verdicts
    else:
        sentences.append(_undecided(primary_rows, name=name))
    if not has_score:
        sentences.append(f"{NO_SCORE_TO_COMPARE.capitalize()}.")
    regressed = plural(len(snapshot["regressions"]), "regression")
    improved = plural(len(snapshot["improvements"]), "improvement")
    sentences.append(f"{regressed}, {improved}.")
    return " ".join(sentences)


def _is_equal(row: Mapping[str, Any]) -> bool:
    """Return whether each question has the same value of a metric in both runs.

    Args:
        row: the change of the metric: of `pairs` questions, `ties` have equal values.
    """
    return bool(row["ties"] == row["pairs"])


def _has_one_sided_score(snapshot: Mapping[str, Any]) -> bool:
    """Return whether a question has a value of a score in one of the runs only."""
    for metric, questions_by_side in snapshot["without_pair"].items():
        has_lone_value = any(questions_by_side[side] for side in SIDES)
        if is_score(metric) and has_lone_value:
            return True
    return False


def _no_difference(snapshot: Mapping[str, Any], primary_metrics: Iterable[str]) -> str:
    """Return the headline of two runs whose primary metrics are equal in each question.

    Args:
        snapshot: the comparison.
        primary_metrics: the rendered names of the primary metrics. They are listed if another
            metric differs.
    """
    questions = plural(snapshot["questions"], "question")
    where = ""
    is_equal_in_all_metrics = all(map(_is_equal, snapshot["overall"].values()))
    if not is_equal_in_all_metrics:
        where = f" in {_list_metrics(primary_metrics)}"
    return f"No difference{where}: {questions} with the same values in both runs."


def _undecided(rows: Mapping[str, Mapping[str, Any]], *, name: Callable[[str], str]) -> str:
    """Return a sentence about the changes of primary metrics, none of which is decided.

    Metrics whose mean is the same are named only if no mean changed.

    Args:
        rows: the change of each primary metric.
        name: renders names of metrics.
    """
    named_rows = {metric: row for metric, row in rows.items() if row["difference"] != 0}
    if not named_rows:
        named_rows = {metric: row for metric, row in rows.items() if not _is_equal(row)}
    changes = [f"{name(metric)} {change_of(row)}" for metric, row in named_rows.items()]
    if not changes:
        return "Undecided: changes may be due to chance."
    return f"Undecided, may be due to chance: {_list_changes(changes)}."


def _verdicts_in_words(snapshot: Mapping[str, Any], *, name: Callable[[str], str]) -> list[str]:
    """Return at most two sentences: what became worse, and what became better."""
    changes_by_verdict: dict[str, list[str]] = {WORSE: [], BETTER: []}
    for verdict, change in _decided_overall(snapshot, name=name):
        changes_by_verdict[verdict].append(change)
    for verdict, change in _decided_in_templates(snapshot, name=name):
        changes_by_verdict[verdict].append(change)
    return [
        f"{verdict.capitalize()}: {_list_changes(changes)}."
        for verdict, changes in changes_by_verdict.items()
        if changes
    ]


def _decided_overall(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the verdict on each metric that is decided over all questions, and its change in words.

    Metrics that lost or gained values come last.
    """
    for metric, row in snapshot["overall"].items():
        if is_decided(row):
            change = f"{name(metric)} {change_of(row)}"
            templates = _most_changed_templates(snapshot, metric, name=name)
            yield row["verdict"], f"{change}{templates}"
    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield sides["verdict"], f"{name(metric)} {_lost_values(sides)}"


def _most_changed_templates(
    snapshot: Mapping[str, Any], metric: str, *, name: Callable[[str], str]
) -> str:
    """Return the templates that account for the change of a metric, as " (most in ...)".

    They have the same verdict as the metric has over all questions, and changed more.

    Returns:
        the templates, the most changed first; "" if there are none.
    """
    overall = snapshot["overall"][metric]
    size_of_change = {}
    for template, rows in snapshot["per_template"].items():
        row = rows.get(metric)
        if row is None or row.get("verdict") != overall["verdict"]:
            continue
        if abs(row["difference"]) > abs(overall["difference"]):
            size_of_change[template] = abs(row["difference"])
    if not size_of_change:
        return ""

    templates = sorted(size_of_change, key=lambda template: -size_of_change[template])
    changes = []
    for template in templates[:MAX_TEMPLATES]:
        row = snapshot["per_template"][template][metric]
        changes.append(f"{name(template)} {change_of(row)}")
    hidden = len(templates) - len(changes)
    if hidden:
        changes.append(f"and {hidden} more")
    return f" (most in {'; '.join(changes)})"


def _decided_in_templates(
    snapshot: Mapping[str, Any], *, name: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Yield the verdict and the change in words of each template that changed by itself.

    Its verdict is decided, and is not that of the metric over all questions.
    """
    for template, rows in snapshot["per_template"].items():
        for metric, row in rows.items():
            overall_verdict = snapshot["overall"][metric].get("verdict")
            if is_decided(row) and row["verdict"] != overall_verdict:
                yield row["verdict"], f"{name(metric)} of {name(template)} {change_of(row)}"


def regressions(snapshot: Mapping[str, Any]) -> list[str]:
    """Return why the candidate of a comparison is a regression; [] if it is none.

    It is one if a primary metric got worse, overall or in a template, if a metric lost values, or
    if there is no primary score to compare.
    """
    # Only primary metrics have a verdict.
    primary_rows = {metric: row for metric, row in snapshot["overall"].items() if "verdict" in row}
    reasons = []
    if all(metric == ERROR_RATE for metric in primary_rows):
        reasons.append(NO_SCORE_TO_COMPARE)
    for metric, row in primary_rows.items():
        if row["verdict"] == WORSE:
            reasons.append(_regression(metric, row) + _only_template(snapshot, metric))
    for template, rows in regressed_templates(snapshot).items():
        reasons += [
            _regression(f"{template}:{metric}", row)
            for metric, row in rows.items()
            if not _has_all_changes(row, snapshot["overall"][metric])
        ]
    for metric, sides in snapshot["without_pair"].items():
        if sides.get("verdict") == WORSE:
            reasons.append(f"{metric} {_lost_values(sides)}")
    return reasons


def _only_template(snapshot: Mapping[str, Any], metric: str) -> str:
    """Return the template whose questions alone changed in a metric, as ", all in ...".

    Empty if several templates changed, or if there is only one template.
    """
    overall = snapshot["overall"][metric]
    for template, rows in regressed_templates(snapshot).items():
        if metric in rows and _has_all_changes(rows[metric], overall):
            return f", all in {template}"
    return ""


def _has_all_changes(row: Mapping[str, Any], overall: Mapping[str, Any]) -> bool:
    """Return whether all questions that changed in a metric are of one template.

    If so, a worse template says the same as all questions, which are worse, too.

    Args:
        row: the change of the metric in the template.
        overall: its change in all questions.
    """
    is_same_verdict: bool = row["verdict"] == overall.get("verdict")
    is_same_loss: bool = row["losses"] == overall["losses"]
    is_same_gain: bool = row["wins"] == overall["wins"]
    return bool(is_same_verdict and is_same_loss and is_same_gain)


def regressed_templates(snapshot: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the changes with the verdict "worse", by template and then by metric.

    A template without any is left out.
    """
    regressed: dict[str, dict[str, Mapping[str, Any]]] = {}
    for template, rows in changed_templates(snapshot).items():
        worse = {metric: row for metric, row in rows.items() if row["verdict"] == WORSE}
        if worse:
            regressed[template] = worse
    return regressed


def changed_templates(snapshot: Mapping[str, Any]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the changes that are decided, by template and then by metric.

    It is empty if all questions have the same template, since the changes of the template repeat
    those of all questions.
    """
    groups = snapshot["per_template"]
    if len(groups) < 2:
        return {}
    changed = {}
    for template, rows in groups.items():
        changed[template] = {metric: row for metric, row in rows.items() if is_decided(row)}
    return changed


def _regression(name: str, row: Mapping[str, Any]) -> str:
    """Return in words how a metric got worse.

    Args:
        name: the name of the metric, or of its template and the metric.
        row: the change of the metric.
    """
    better = plural(row["wins"], "question")
    questions = f"{better} better, {row['losses']} worse, {row['ties']} equal"
    return f"{name} is worse: {change_of(row)}; {questions}, p {_p_value(row['p_adjusted'])}"


def one_sided(snapshot: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about questions and values of metrics that one of the runs lacks.

    The questions that the candidate lacks are not among them: `missing` returns a sentence for
    them.
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
            questions = tuple(sides[side])
            if questions:
                metrics_by_questions[side, questions].append(metric)
    for (side, questions), metrics in metrics_by_questions.items():
        yield _count_and_list(f"{', '.join(metrics)} only in the {side}", questions)

    for metric, sides in snapshot["without_pair"].items():
        if is_decided(sides):
            yield f"{metric} {_lost_values(sides)}: {sides['verdict']}"


def _count_and_list(subject: str, ids: Sequence[str]) -> str:
    """Return a subject, the number of questions that it is about, and their first ids.

    Such as "only in the candidate: 2 questions: q7, q9".
    """
    return f"{subject}: {plural(len(ids), 'question')}: {_list_ids(ids)}"


def greatest_losses(
    comparison: Mapping[str, Any], count: int
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the questions that got worse most, the greatest loss first, at most `count`.

    Losses in a primary metric come before losses in other metrics. If a question got worse in
    several metrics, it is listed once, with the loss that comes first.

    Returns:
        pairs of a metric and the row of the question in ``worse``. The row also has
        `further_metrics`, the other metrics in which the question got worse.
    """
    overall = comparison["overall"]
    changes = [(metric, row) for metric, rows in comparison["worse"].items() for row in rows]

    def rank(change: tuple[str, Mapping[str, Any]]) -> tuple[bool, float]:
        metric, row = change
        is_secondary = "verdict" not in overall[metric]
        return is_secondary, -abs(row["difference"])

    changes.sort(key=rank)
    changes_by_question: defaultdict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for metric, row in changes:
        changes_by_question[row["question_id"]].append((metric, row))

    losses: list[tuple[str, Mapping[str, Any]]] = []
    for changes_of_question in changes_by_question.values():
        first_metric, first_row = changes_of_question[0]
        further_metrics = [metric for metric, _ in changes_of_question[1:]]
        losses.append((first_metric, {**first_row, "further_metrics": further_metrics}))
    return losses[:count]


def ends(interval: Mapping[str, float] | None) -> str:
    """Return the ends of an interval of a difference in words; "" without an interval."""
    if interval is None:
        return ""
    return f"{signed(interval['low'])} to {signed(interval['high'])}"


def detectable(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sentences about the changes that a comparison could have seen.

    Each sentence begins with a space, so that it can follow another one.

    Args:
        rows: the change of each metric. Those of primary metrics have `detectable`: the least
            change that the comparison could see, or None if it could see none.
    """
    detectable_changes = []
    undetectable_metrics = []
    for metric, row in rows.items():
        if "detectable" not in row:
            continue
        if row["detectable"] is None:
            undetectable_metrics.append(metric)
        else:
            least_change = signed(row["detectable"]).removeprefix("+")
            detectable_changes.append(f"{least_change} in {metric}")
    sentences = ""
    if detectable_changes:
        changes = _list_metrics(detectable_changes)
        sentences += f" {percent(POWER)} power for a change of {changes}."
    if undetectable_metrics:
        metrics = _list_metrics(undetectable_metrics)
        sentences += f" Too few questions to see any change of {metrics}."
    return sentences


def validity(rows: Mapping[str, Mapping[str, Any]], level: float) -> str:
    """Return sentences on what the intervals and p of a comparison mean.

    Sentences about the changes that the comparison could have seen follow.

    Args:
        rows: the change of each metric.
        level: the confidence level.
    """
    # Intervals of metrics that cannot be decided do not hold together with those of others.
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
    """Return the first `MAX_IDS` ids as a list in words, and how many follow."""
    listed = ", ".join(map(name, ids[:MAX_IDS]))
    if len(ids) > MAX_IDS:
        listed += f" and {len(ids) - MAX_IDS} more"
    return listed


def _list_changes(changes: Sequence[str]) -> str:
    """Return the first `MAX_CHANGES` changes as a list in words, and how many follow."""
    listed = ", ".join(changes[:MAX_CHANGES])
    if len(changes) > MAX_CHANGES:
        listed += f" and {len(changes) - MAX_CHANGES} more"
    return listed


def _list_metrics(names: Iterable[str]) -> str:
    """Return names as a list in words, such as "a, b and c"; there is at least one name."""
    *names_before_last, last = names
    if not names_before_last:
        return last
    return f"{', '.join(names_before_last)} and {last}"


def _lost_values(sides: Mapping[str, Any]) -> str:
    """Return in words how many questions lost and gained a value of a metric.

    `sides` has the ids of the questions that have a value on one side only, and the p of a test.
    """
    lost = plural(len(sides["baseline"]), "question")
    gained = len(sides["candidate"])
    p = _p_value(sides["p"])
    return f"has lost its value in {lost}, gained it in {gained}; sign test p {p}"


def change_of(row: Mapping[str, Any]) -> str:
    """Return the change of a metric in words, such as "0.7 -> 0.59, -0.11".

    Args:
        row: the change: the means of the baseline and of the candidate, and their difference.
    """
    return f"{number(row['baseline'])} -> {number(row['candidate'])}, {signed(row['difference'])}"


def signed(value: float) -> str:
    """Return a difference with its sign: in two digits if it is below 0.1, in three up to 1,000."""
    if abs(value) >= 1000:
        text = number(value)
    elif abs(value) < 0.1:
        text = f"{value:.2g}"
    else:
        text = f"{value:.3g}"
    return f"+{text}" if value > 0 else text


def _p_value(p: float) -> str:
    """Return a p-value after a relation sign, such as "= 0.04" or "< 0.001"."""
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def short_p(p: float | None) -> str:
    """Return a p-value for a table, such as "0.04" or "<0.001"; "" for None."""
    if p is None:
        return ""
    return _p_value(p).removeprefix("= ").replace(" ", "")
