"""A summary as GitHub-flavoured Markdown, for a pull request or a run of GitHub Actions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.inference.verdicts import UNDECIDED
from graphrag_eval_async.monitor.gfm import Section, cell, code, page_of, table
from graphrag_eval_async.monitor.wording import (
    VALIDITY,
    change_of,
    ends,
    headline,
    mean_cell,
    not_run_in_words,
    one_sided,
    short_p,
    unscored,
    validity,
)
from graphrag_eval_async.records.metrics import ERROR_RATE, counts_of, is_score, mean_of_questions
from graphrag_eval_async.steps.failure import failure_counts
from graphrag_eval_async.text import counts, number, percent, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from graphrag_eval_async.monitor.summary import Summary

SHOWN_SCORES = 6  # columns in the table of templates
SENTENCE_CHARACTERS = 500  # of a sentence about a gate, a warning or a rejected line

TEXT_CHARACTERS = 100  # of a question

FAILED, HELD = "\N{CROSS MARK}", "\N{WHITE HEAVY CHECK MARK}"


def render_markdown(summary: Summary) -> str:
    """Return a page of at most `MAX_CHARACTERS`; long tables are cut, and say so."""
    makers: tuple[Callable[[Summary], Iterator[Section]], ...] = (
        _summary,
        _overall,
        _changed_templates,
        _templates,
        _got_worse,
        _worst,
        _failures,
        _rejected,
    )
    return page_of([section for make in makers for section in make(summary)])


def _summary(summary: Summary) -> Iterator[Section]:
    """The verdict: gates, outcomes of questions, and the comparison in a sentence."""
    failed, gates, comparison = summary.failed_gates, summary.gates, summary.comparison
    title = "## Evaluation"
    if gates:
        title = f"## {HELD} Evaluation: gates held: {len(gates)} of {len(gates)}"
    if failed:
        title = f"## {FAILED} Evaluation: {len(failed)} of {len(gates)} gates failed"
    head = [title, "", _counts(summary)]
    if nothing := unscored(summary.snapshot["micro"]):
        head += ["", f"**{nothing}**"]
    rows = [
        f"- {f'{HELD} held' if gate.holds else f'{FAILED} failed'}: {_sentence(gate.told)}"
        for gate in sorted(gates, key=lambda gate: gate.holds)
    ]
    if summary.misnamed is not None:
        rows.append(f"- warning: {_sentence(summary.misnamed)}")
    if told := not_run_in_words(summary.snapshot["micro"].get("steps_score", {}).get("coverage", {})):
        rows.append(f"- warning: {told}; the first: {_sentence(str(summary.not_run))}")
    if not gates and comparison is None:
        head += _state(summary)
    if comparison is not None:
        head += ["", f"**Compared with the baseline:** {headline(comparison, name=code)}"]
        rows += [f"- warning: {_sentence(warning)}" for warning in comparison["warnings"]]
        rows += [f"- {_sentence(told)}" for told in one_sided(comparison)]
    yield Section([*head, ""] if rows else head, rows)


def _state(summary: Summary) -> list[str]:
    """The mean of the first score, and the template in which it is lowest."""
    micro, per_template = summary.snapshot["micro"], summary.snapshot["per_template"]
    scores = [name for name in summary.snapshot["macro"] if is_score(name) and "mean" in micro.get(name, {})]
    if not scores:
        return []
    score = scores[0]
    means = {
        name: mean_of_questions(group[score])
        for name, group in per_template.items()
        if "mean" in group.get(score, {})
    }
    lowest = min(means, key=means.__getitem__)
    told = f"; lowest in template {code(lowest)}: {number(means[lowest])}" if len(means) > 1 else ""
    return ["", f"**Mean of {code(score)}:** {mean_cell(micro[score])}{told}."]


def _question(summary: Summary, question_id: str) -> str:
    text = summary.texts.get(question_id)
    return cell(question_id) if text is None else f"{cell(question_id)} {cell(text, limit=TEXT_CHARACTERS)}"


def _sentence(text: str) -> str:
    return code(text, limit=SENTENCE_CHARACTERS)


def _counts(summary: Summary) -> str:
    """How many results and questions there are."""
    micro = summary.snapshot["micro"]
    results, errors = counts_of(micro)
    outcomes: Counter[str] = Counter(question.outcome for question in summary.questions)
    told = ", ".join(
        f"{outcomes[outcome]} {words}" for outcome, words in OUTCOMES.items() if outcomes[outcome]
    )
    rejected = sum(summary.rejected.values())
    return (
        f"{plural(results, 'result')}, {plural(errors, 'error')}, {plural(rejected, 'rejected line')}; "
        f"{plural(len(summary.questions), 'question')}{': ' * bool(told)}{told}."
    )


OUTCOMES = {"passed": "passed", "failed": "failed", "error": "with an error", "skipped": "skipped"}


def _overall(summary: Summary) -> Iterator[Section]:
    """Means over all results, and how they changed."""
    micro, comparison = summary.snapshot["micro"], summary.comparison
    changes = {} if comparison is None else comparison["overall"]
    results, _ = counts_of(micro)
    means = {ERROR_RATE: number(micro[ERROR_RATE])} if results else {}
    means |= {
        metric: mean_cell(micro[metric])
        for metric in summary.snapshot["macro"]
        if "mean" in micro[metric] and metric not in {"input_tokens", "output_tokens"}
    }
    rows = []
    for metric, mean in means.items():
        row = [cell(metric), mean, str(results) if metric == ERROR_RATE else _values(micro[metric])]
        if comparison is not None:
            row += _change_cells(changes[metric]) if metric in changes else [""] * 4
        rows.append(row)
    headings = ["metric", ">mean", ">values"]
    captions = [f"[low, high]: {interval}." for interval in _intervals(micro)]
    if comparison is not None:
        shared = plural(comparison["questions"], "question")
        headings += [">change", ">interval of the change", ">p", "verdict"]
        captions.append(
            f"Changes are of the means over {shared} that both runs have. "
            f"{validity(changes, comparison['level'])}"
        )
    yield from table("Scores", headings, rows, " ".join(captions))


def _values(stats: Mapping[str, Any]) -> str:
    """How many results have a value, of those that should."""
    coverage = stats.get("coverage")
    if coverage is None:
        return ""
    values, applied = coverage["values"], coverage["applied"]
    return str(values) if values == applied else f"{values} of {applied}"


def _intervals(micro: Mapping[str, Any]) -> list[str]:
    """What the intervals are: their level and kind."""
    intervals = [
        stats["interval"] for stats in micro.values() if isinstance(stats, dict) and "interval" in stats
    ]
    return [
        *dict.fromkeys(f"{percent(each['level'])} interval, {VALIDITY[each['kind']]}" for each in intervals)
    ]


def _change_cells(row: Mapping[str, Any]) -> list[str]:
    interval, p = ends(row.get("interval")), short_p(row.get("p_adjusted"))
    return [change_of(row), interval, p, row.get("verdict", "")]


def _changed_templates(summary: Summary) -> Iterator[Section]:
    """Templates in which a score changed by more than chance."""
    groups = {} if summary.comparison is None else summary.comparison["per_template"]
    rows = [
        [cell(template), cell(metric), *_change_cells(row)]
        for template, group in groups.items()
        for metric, row in group.items()
        if row.get("verdict", UNDECIDED) != UNDECIDED
    ]
    headings = ["template", "metric", ">change", ">interval of the change", ">p", "verdict"]
    yield from table("Templates that changed by more than chance", headings, rows)


def _templates(summary: Summary) -> Iterator[Section]:
    snapshot = summary.snapshot
    scores = [
        metric for metric in snapshot["macro"] if is_score(metric) and "mean" in snapshot["macro"][metric]
    ]
    shown, rest = scores[:SHOWN_SCORES], scores[SHOWN_SCORES:]
    rows = []
    for template, group in snapshot["per_template"].items():
        results, errors = counts_of(group)
        means = [mean_cell(group.get(metric, {})) for metric in shown]
        rows.append([cell(template), str(results), str(errors), *means])
    headings = ["template", ">results", ">errors", *(f">{cell(metric)}" for metric in shown)]
    told = [
        f"Not shown: {', '.join(map(code, rest[:SHOWN_SCORES]))}{', ...' * (len(rest) > SHOWN_SCORES)}"
    ] * bool(rest)
    yield from table("Templates", headings, rows, *told)


def _got_worse(summary: Summary) -> Iterator[Section]:
    rows = [
        [
            *(_question(summary, row["question_id"]), cell(row["template_id"]), cell(metric), change_of(row)),
            _place(summary, row["question_id"]),
        ]
        for metric, row in summary.got_worse
    ]
    headings = ["question", "template", "metric", ">change", "result"]
    yield from table("Questions that got worse", headings, rows)


def _worst(summary: Summary) -> Iterator[Section]:
    rows = []
    for question in summary.worst:
        mean = summary.means.get((question.template_id, question.question_id)) if summary.by_means else None
        own = question.score if mean is None else (mean.metric, mean.mean)
        score = "" if own is None else f"{cell(own[0])} {number(own[1])}"
        why = question.kind if question.is_explained else f"{question.kind}: {question.told}"
        names = _question(summary, question.question_id), cell(question.template_id)
        rows.append(
            [*names, score, cell(why, limit=SENTENCE_CHARACTERS), _place(summary, question.question_id)]
        )
    headings = ["question", "template", ">score", "why", "result"]
    total = sum(question.outcome in {"failed", "error"} for question in summary.questions)
    title = f"Worst questions: {len(rows)} of {total} that did not pass"
    note = ["An error counts as 0."] * any(each.errors for each in summary.lowest)
    yield from table(title, headings, rows, *note)


def _place(summary: Summary, question_id: str) -> str:
    place = summary.places.get(question_id)
    return "" if place is None else cell(place)


def _failures(summary: Summary) -> Iterator[Section]:
    """Why responses failed, the most frequent reason first."""
    rows = [[cell(kind), str(count)] for kind, count in failure_counts(summary.snapshot["micro"]).items()]
    yield from table("Failures by reason", ["reason", ">results"], rows)


def _rejected(summary: Summary) -> Iterator[Section]:
    """Lines that are not results."""
    if summary.rejected:
        rows = [f"- {_sentence(told)}" for told in summary.rejects]
        yield Section([f"### Rejected lines: {counts(summary.rejected)}", ""], rows)
