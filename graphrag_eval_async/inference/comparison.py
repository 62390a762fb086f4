"""Two runs compared: question by question, and what that comes to."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.errors import AggregationError, UsageError, describe
from graphrag_eval_async.inference.live import LiveSums, in_order, merged
from graphrag_eval_async.inference.pairs import PairSums
from graphrag_eval_async.inference.provenance import judge_warnings, judges, note_judge, reference_hash
from graphrag_eval_async.inference.questions import SIDES, Question, position, without_pair, worse
from graphrag_eval_async.inference.verdicts import NOTES, decide, decide_values, is_score
from graphrag_eval_async.records.metrics import ERROR_RATE
from graphrag_eval_async.records.outcomes import RESPONSE_ERROR
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphrag_eval_async.inference.live import LiveRows
    from graphrag_eval_async.inference.questions import Side
    from graphrag_eval_async.records.evaluation import Evaluation


class RunningComparison:
    """A candidate compared with a baseline, up to date after each result of either.

    Results are paired by question: the values that a side has of a question are averaged, over its samples
    and over retrieval steps. Beside the metrics, ``error_rate`` is compared, the share of samples that are
    errors; without it, a candidate that fails where it is hard would look better.

    The order in which results come does not matter to the last bit. Each question takes about two kilobytes.

    The confidence sequences hold as long as questions come with the same mean difference all the time, as
    those that are shuffled do. They do not account for questions that are answered again, whose pairs change.
    """

    def __init__(self, *, include_errors: bool = False) -> None:
        """With `include_errors`, the metrics of results with ``status: error`` count as well."""
        self._include_errors = include_errors
        self._questions: dict[str, Question] = {}
        self._per_template: dict[str, dict[str, PairSums]] = {}
        self._templates: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._judges = {side: judges() for side in SIDES}
        self._asked: dict[Side, set[str]] = {side: set() for side in SIDES}
        self._fractions: set[str] = set()
        self._results: Counter[Side] = Counter()
        self._lone: Counter[Side] = Counter()
        self._differing = 0

    def add_baseline(self, result: Mapping[str, Any]) -> None:
        """Count one result of the baseline, as `add` does one of the candidate."""
        self._add(result, "baseline")

    def add(self, result: Mapping[str, Any] | Evaluation) -> None:
        """Count one result of the candidate: a dict with the keys that an evaluation gives it.

        One with metrics in `pending` is not counted: it comes again, whole. As long as nothing of a question
        has come whole, a snapshot lists that as `pending`.

        Raises:
            AggregationError: it is not a result of a question, or a metric of it is not a finite number of at
                most 64 bits; nothing of it has been counted then.
        """
        self._add(result, "candidate")

    def _add(self, result: Mapping[str, Any] | Evaluation, side: Side) -> None:
        seen = observe(result, include_errors=self._include_errors)
        question_id = seen.question_id
        if not isinstance(question_id, str):
            raise AggregationError(f"question_id: must be a string, not {describe(question_id)}")
        question = self._questions.get(question_id)
        if question is None:
            question = self._questions[question_id] = Question()
        if seen.pending is not None:
            self._expect(question, side)
            return
        laid_out = seen.as_dict()
        values = _compared(seen)
        reference = reference_hash(laid_out)
        # Its pairs are taken out, and put in again as they are now.
        self._count(question, -1, side)
        question.put(side, seen.template_id, values, reference)
        self._count(question, 1, side)
        note_judge(self._judges[side], laid_out)
        self._asked[side].update([metric for metric, _ in values], _asked(seen))
        if seen.fractions:
            self._note_fractions(seen.fractions)
        self._results[side] += 1

    def _expect(self, question: Question, side: Side) -> None:
        if side not in question.values and side not in question.pending:
            self._count(question, -1, side)
            question.expect(side)
            self._count(question, 1, side)

    def _count(self, question: Question, sign: int, side: Side) -> None:
        if side == "baseline" and side in question.values:
            template = question.template
            for metric in question.values[side]:
                self._templates[metric][template] += sign
        self._differing += sign * question.differs
        if not question.is_shared:
            if lone := question.only_in:
                self._lone[lone] += sign
            return
        group = self._per_template.setdefault(question.template, {})
        for metric, pair in question.pairs():
            sums = group.get(metric)
            if sums is None:
                sums = group[metric] = PairSums(are_fractions=metric in self._fractions)
            sums.count(pair, sign)

    def _note_fractions(self, names: Iterable[str]) -> None:
        for name in {*names} - self._fractions:
            self._fractions.add(name)
            for rows in self._per_template.values():
                if name in rows:
                    rows[name].are_fractions = True

    def sums(self) -> LiveSums:
        """What `look` makes rows of. It does not change with the comparison, so that a thread may take it."""
        return LiveSums(
            {
                template: {metric: sums.copy() for metric, sums in group.items()}
                for template, group in self._per_template.items()
            },
            {metric: sum(map(bool, questions.values())) for metric, questions in self._templates.items()},
        )

    def prepare(self) -> Iterator[None]:
        """Make in steps what takes `sums` long; results may come between them."""
        for group in [*self._per_template.values()]:
            for sums in [*group.values()]:
                sums.copy()
            yield

    def look(self, *, level: float = 0.95) -> LiveRows:
        """`overall` and `per_template` of a snapshot without the sign test, which must not be looked at while
        results come: the verdicts of templates are by their confidence sequences, at a level that is higher
        for there being several templates.

        Raises:
            UsageError: `level` is not between 0 and 1.
        """
        _check(level)
        return self.sums().look(level)

    def standing(self) -> dict[str, Any]:
        """What may be looked at all the time besides, whatever the number of questions: `warnings` which no
        further result takes back, and how many questions are `only_in_baseline` and `only_in_candidate`.
        """
        warnings = [*judge_warnings(*(self._judges[side] for side in SIDES))]
        if differing := self._differing:
            warnings.append(f"the reference data differ in {_questions(differing)}")
        return {"warnings": warnings, **{f"only_in_{side}": self._lone[side] for side in SIDES}}

    def particulars(self) -> dict[str, Any]:
        """What a snapshot says of single questions, and its `warnings`, without anything of tests."""
        shared = {name: question for name, question in sorted(self._questions.items()) if question.is_shared}
        return {
            "questions": len(shared),
            "worse": worse(shared, [name for name in self._paired() if is_score(name)]),
            **{f"only_in_{side}": self._only_in(side) for side in SIDES},
            "pending": {side: self._pending(side) for side in SIDES},
            "without_pair": without_pair(shared),
            "warnings": self.standing()["warnings"] + self._without_any_pair(),
        }

    def snapshot(self, *, level: float = 0.95) -> dict[str, Any]:
        """All of it, as `compare` lays it out; the dict is the caller's own.

        Args:
            level: of the confidence sequences and the tests, more than 0 and less than 1.

        Raises:
            UsageError: `level` is not that.
        """
        _check(level)
        groups = {name: in_order(group) for name, group in sorted(self._per_template.items())}
        overall, per_template = decide(
            merged(groups), {name: group for name, group in groups.items() if group}, level
        )
        found = self.particulars()
        self._test_values(found["without_pair"], level)
        return {
            "level": level,
            "results": {side: self._results[side] for side in SIDES},
            "questions": found.pop("questions"),
            "overall": overall,
            "per_template": per_template,
            **found,
            "warnings": found["warnings"] + _uneven(overall),
            "notes": {**NOTES},
        }

    def _test_values(self, without_pair: Mapping[str, dict[str, Any]], level: float) -> None:
        """Add tests to the scores that both sides were asked for, whether they have them or not."""
        for metric, sides in without_pair.items():
            if is_score(metric) and all(metric in asked for asked in self._asked.values()):
                lost, gained = (sum(self._questions[name].is_even for name in sides[side]) for side in SIDES)
                sides |= decide_values(gained, lost, level)

    def _only_in(self, side: Side) -> list[str]:
        return sorted(name for name, question in self._questions.items() if question.only_in == side)

    def _pending(self, side: Side) -> list[str]:
        return sorted(name for name, question in self._questions.items() if side in question.pending)

    def _paired(self) -> list[str]:
        """The metrics of which there are pairs, in their order."""
        names = {name for group in self._per_template.values() for name in in_order(group)}
        return sorted(names, key=position)

    def _without_any_pair(self) -> list[str]:
        if not all(self._results[side] for side in SIDES):
            return []
        paired = self._paired()
        lone = {metric for side in SIDES for metric in self._metrics(side) if metric not in paired}
        return [f"{metric}: no question has it on both sides" for metric in sorted(lone, key=position)]

    def _metrics(self, side: Side) -> set[str]:
        return {metric for question in self._questions.values() for metric in question.values.get(side, ())}


def _check(level: float) -> None:
    if not isinstance(level, float) or not 0 < level < 1:
        raise UsageError(f"level: expected a number between 0 and 1, got {describe(level)}")


def _compared(seen: Evaluation) -> list[tuple[str, float]]:
    """The values that are compared of a result."""
    kept = [(metric, value) for metric, value in seen.values if metric != ERROR_RATE]
    return [(ERROR_RATE, float(seen.failed)), *kept]


def _asked(seen: Evaluation) -> list[str]:
    """The metrics that failed and that a result was asked for: where the agent failed, any may be named.

    An answer that is not there is lost, whoever would have judged it.
    """
    return [metric for metric, kind in seen.tallies if kind != RESPONSE_ERROR]


def _uneven(overall: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Warnings of questions of which one side has more values, one for all metrics that have as many."""
    alike: defaultdict[int, list[str]] = defaultdict(list)
    for metric, row in overall.items():
        if row["uneven"]:
            alike[row["uneven"]].append(metric)
    return [
        f"{', '.join(metrics)}: the sign test leaves out {_questions(count)} with more values on one side"
        for count, metrics in alike.items()
    ]


def _questions(count: int) -> str:
    return f"{count} question{'s' * (count != 1)}"
