"""The state of a run in one line: whether scores fell or rose, which, how far and since when."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.catalogue.metrics import ERROR_RATE
from graphrag_eval_async.helpers.text import one_line
from graphrag_eval_async.reports.changes import (
    MixChange,
    ScoreChange,
    mix_change,
    score_changes,
    tentative_losses,
)
from graphrag_eval_async.reports.history import EVERY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from graphrag_eval_async.reports.history import Courses

RESULTS_BEFORE_VERDICT = 2 * EVERY
"""Number of results before which nothing is said about changes."""

LISTED_CHANGES = 4
"""Maximum number of changes of one direction that the line names."""

TENTATIVE_ERROR = 0.01
"""About the share of looks at a run whose scores stay the same that find a tentative loss."""

MAX_NAME = 60
"""Maximum number of characters of the name of a template in the line."""


MAX_TEMPLATES_TO_BLAME = 2
"""With more templates that changed, the state begins with all results."""

SHARE_OF_CHANGE_EVERYWHERE = 0.6
"""A score changed everywhere if its mean over all results changed by this share of its greatest
change in a template, or by more. One of two equal templates that fell alone gives a half. (Chosen.)
"""


class StateKind(StrEnum):
    """What the results so far say about changes of the scores."""

    WORSE = "worse"
    PERHAPS_WORSE = "perhaps_worse"
    """No change is certain, but there are tentative losses."""
    BETTER = "better"
    STEADY = "steady"
    TOO_EARLY = "too_early"
    NO_SCORES = "no_scores"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunState:
    """The state of a run.

    Attributes:
        kind: whether the run got worse or better; worse, if it did both.
        text: the state in one line. It may quote names of templates from outside.
        since: when the change that `text` names first began; None without a change, or without its
            time.
        changes: what certainly changed, losses first.
        tentative_losses: what perhaps got worse; empty if anything certainly changed.
        mix: how the mix of templates changed; None if it did not.
    """

    kind: StateKind
    text: str
    since: datetime | None = None
    changes: tuple[ScoreChange, ...] = ()
    tentative_losses: tuple[ScoreChange, ...] = ()
    mix: MixChange | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON has it; times are in ISO 8601."""
        state = asdict(self)
        state["kind"] = self.kind.value
        state["since"] = _iso_time(self.since)
        state["changes"] = [_change_as_dict(change) for change in self.changes]
        state["tentative_losses"] = [_change_as_dict(change) for change in self.tentative_losses]
        if self.mix is not None:
            state["mix"] = _change_as_dict(self.mix)
        return state


def _change_as_dict(change: ScoreChange | MixChange) -> dict[str, Any]:
    """Return a change as JSON has it; its time is in ISO 8601."""
    return asdict(change) | {"since": _iso_time(change.since)}


def _iso_time(time: datetime | None) -> str | None:
    """Return a time in ISO 8601, to the second; None for None."""
    if time is None:
        return None
    return time.isoformat(timespec="seconds")


def run_state(
    courses: Courses,
    scores: Sequence[str],
    level: float,
    *,
    uneven_groups: Collection[str | None] = (),
) -> RunState:
    """Return the state of a run.

    With a probability of `level`, no change is ever certain in a run in which each template keeps
    its mean of each score, however often you look and however the mix of templates moves. Half of
    the error probability is for all results, and half for the templates. A tenth of each is for the
    error rate, the rest for the `scores`. Changes of the mix have the same error probability of
    their own.

    If no change is certain, losses are tentative that would be clear if this were the only look, at
    an error probability of `TENTATIVE_ERROR`.

    Args:
        courses: how the scores of all results and of templates moved.
        scores: the scores that are watched for changes, which are from 0 to 1.
        level: confidence level, between 0 and 1.
        uneven_groups: the templates, and None for all results, whose mean over results differs from
            that over questions, since some questions have more results than others. The means
            before and after are over results, so the line says so for these.
    """
    results = courses.overall.results
    if results < RESULTS_BEFORE_VERDICT:
        return RunState(
            kind=StateKind.TOO_EARLY,
            text=f"Too early to say: {results} of about {RESULTS_BEFORE_VERDICT} results",
        )

    error = 1 - level
    changes = score_changes(courses.checkpoints, scores, error)
    losses = _most_telling_first([change for change in changes if change.is_loss])
    gains = _most_telling_first([change for change in changes if not change.is_loss])
    tentative: list[ScoreChange] = []
    if not changes:
        tentative = tentative_losses(courses.checkpoints, scores, TENTATIVE_ERROR)
        tentative = _most_telling_first(tentative)
    mix = mix_change(courses.checkpoints, error)

    if losses:
        kind = StateKind.WORSE
    elif gains:
        kind = StateKind.BETTER
    elif tentative:
        kind = StateKind.PERHAPS_WORSE
    elif scores:
        kind = StateKind.STEADY
    else:
        kind = StateKind.NO_SCORES
    named = [*losses, *gains, *tentative]
    return RunState(
        kind=kind,
        text=_state_in_words(
            kind,
            named,
            mix,
            has_many_scores=len(scores) > 1,
            is_over_results=any(change.template in uneven_groups for change in named),
        ),
        since=named[0].since if named else None,
        changes=(*losses, *gains),
        tentative_losses=tuple(tentative),
        mix=mix,
    )


def _most_telling_first(changes: Sequence[ScoreChange]) -> list[ScoreChange]:
    """Sort changes of one direction so that the first ones say where to look.

    If a few templates changed, they come before all results. All results come first if they changed
    about as much as the template that changed most, or if more templates changed. Larger changes
    come before smaller ones.
    """
    of_templates = [change for change in changes if change.template is not None]
    of_all_results = [change for change in changes if change.template is None]
    of_templates.sort(key=_size, reverse=True)
    changed_templates = {change.template for change in of_templates}
    is_everywhere = any(
        _size(overall) >= SHARE_OF_CHANGE_EVERYWHERE * _size(change)
        for overall in of_all_results
        for change in of_templates
        if change.metric == overall.metric
    )
    if is_everywhere or len(changed_templates) > MAX_TEMPLATES_TO_BLAME:
        return [*of_all_results, *of_templates]
    return [*of_templates, *of_all_results]


def _size(change: ScoreChange) -> float:
    """Return how much a score changed, in either direction."""
    return abs(change.after - change.before)


def _state_in_words(
    kind: StateKind,
    changes: Sequence[ScoreChange],
    mix: MixChange | None,
    *,
    has_many_scores: bool,
    is_over_results: bool,
) -> str:
    """Return the state of a run in one line.

    Args:
        kind: whether it got worse or better.
        changes: what changed, certainly or perhaps, losses first.
        mix: how the mix of templates changed.
        has_many_scores: whether several scores are watched, so that changes name theirs.
        is_over_results: whether to say that means are over results, not over questions.
    """
    mix_in_words = "" if mix is None else _mix_in_words(mix)
    if kind is StateKind.NO_SCORES:
        return "No score from 0 to 1 so far"
    if kind is StateKind.STEADY:
        return f"Steady: {mix_in_words}; no template clearly changed" if mix_in_words else "Steady"

    first = changes[0]
    since = _since_in_words(first.since, first.since_result)
    losses = [change for change in changes if change.is_loss]
    gains = [change for change in changes if not change.is_loss]
    parts = []
    if losses:
        verb = "Perhaps getting worse" if kind is StateKind.PERHAPS_WORSE else "Getting worse"
        losses_in_words = _changes_in_words(losses, first, has_many_scores=has_many_scores)
        parts.append(f"{verb} {since}: {losses_in_words}")
    if gains:
        gains_in_words = _changes_in_words(gains, first, has_many_scores=has_many_scores)
        introduction = "better" if losses else f"Getting better {since}"
        parts.append(f"{introduction}: {gains_in_words}")

    remarks = []
    if is_over_results:
        remarks.append("means over results")
    if kind is StateKind.PERHAPS_WORSE:
        remarks.append("not certain yet")
    if remarks:
        parts[-1] += f" ({', '.join(remarks)})"
    if mix_in_words:
        parts.append(f"apart from that, {mix_in_words}")
    return "; ".join(parts)


def _changes_in_words(
    changes: Sequence[ScoreChange], first: ScoreChange, *, has_many_scores: bool
) -> str:
    """Return changes of one direction in words, at most `LISTED_CHANGES` of them.

    Args:
        changes: the changes.
        first: the first change of the run, whose time the line has named already.
        has_many_scores: whether several scores are watched, so that changes name theirs.
    """
    listed = []
    for change in changes[:LISTED_CHANGES]:
        in_words = _change_in_words(change, has_many_scores=has_many_scores)
        results_apart = abs(change.since_result - first.since_result)
        # Changes that are one checkpoint apart most likely began together.
        if results_apart > EVERY:
            in_words += f" {_since_in_words(change.since, change.since_result)}"
        listed.append(in_words)
    if len(changes) > LISTED_CHANGES:
        listed.append(f"and {len(changes) - LISTED_CHANGES} more")
    return ", ".join(listed)


def _change_in_words(change: ScoreChange, *, has_many_scores: bool) -> str:
    """Return what changed and how far, such as "lines_between 0.95 to 0.73"."""
    is_error_rate = change.metric == ERROR_RATE
    name = "errors" if is_error_rate else change.metric
    if change.template is not None:
        template = _template_in_words(change.template)
        # If only one score is watched, it need not be named.
        is_named = is_error_rate or has_many_scores
        name = f"{name} of {template}" if is_named else template
    if is_error_rate:
        return f"{name} {change.before:.0%} to {change.after:.0%}"
    # Two digits, unless these would look equal.
    digits = 2 if abs(change.after - change.before) >= 0.02 else 3
    return f"{name} {change.before:.{digits}f} to {change.after:.{digits}f}"


def _mix_in_words(mix: MixChange) -> str:
    """Return how the mix of templates changed, such as "the share of template hard rose from 20% to
    64%".
    """
    verb = "rose" if mix.after > mix.before else "fell"
    template = _template_in_words(mix.template)
    return f"the share of template {template} {verb} from {mix.before:.0%} to {mix.after:.0%}"


def _template_in_words(template: str) -> str:
    """Return the name of a template, which comes from outside, on one line."""
    return one_line(template, limit=MAX_NAME) or "(no name)"


def _since_in_words(since: datetime | None, since_result: int) -> str:
    """Return when a change began, such as "since 14:33 UTC" or, without its time, "since result
    400".
    """
    if since is None:
        return f"since result {since_result:,}"
    if since.date() == datetime.now(UTC).date():
        return f"since {since:%H:%M} UTC"
    return f"since {since:%d %b %H:%M} UTC"
