"""Tells whether files of results are of one system, or of several that should be compared."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import orjson

from graphrag_eval_async.catalogue.metrics import is_score
from graphrag_eval_async.helpers.text import name_cell, plural
from graphrag_eval_async.records.results import observe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_SAMPLES = 200_000
"""How many samples of questions are remembered, about 30 MB; later ones are not looked at.

The questions of a set come again in each system's file, so the first ones are enough.
"""

LISTED_PATHS = 5
"""How many files a warning names."""

STEP_KEYS = ("name", "args", "output", "error")
"""The keys of a step that say what the agent did."""


class RepeatedQuestions:
    """Counts the questions that files answer in another way than files before them.

    Such files are of different systems, or repeats of one. Samples with different numbers are
    repeats, and files of different questions are parts of one run: neither counts.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Start without results; `paths` are all files whose results will be added."""
        self._paths = paths
        # For each question and number of a sample, the first file that has a result of them, and a
        # hash of the answer there.
        self._first_answers: dict[tuple[str, int], tuple[str, int]] = {}
        # For each file, how many of its samples have another answer in a file before it.
        self._other_answers: Counter[str] = Counter()

    def add(self, path: str, result: Mapping[str, Any]) -> None:
        """Compare a result of the file `path` with the same sample in the files before it."""
        if len(self._paths) < 2:
            return
        question_id = result.get("question_id")
        # A pending result is incomplete, and its complete version follows.
        if not isinstance(question_id, str) or "pending" in result:
            return
        sample = result.get("sample")
        # A result without a number counts as the first sample.
        key = (question_id, sample if type(sample) is int else 1)
        first_answer = self._first_answers.get(key)
        if first_answer is None:
            # `MAX_SAMPLES` limits the memory.
            if len(self._first_answers) < MAX_SAMPLES:
                self._first_answers[key] = (path, hash_answer(result))
            return
        first_path, hash_of_first = first_answer
        if path != first_path and hash_answer(result) != hash_of_first:
            self._other_answers[path] += 1

    def warning(self) -> str | None:
        """Return a warning if the files seem to be of different systems; None if they do not."""
        if not self._other_answers:
            return None
        [(path, count)] = self._other_answers.most_common(1)
        names = " ".join(map(name_cell, self._paths[:LISTED_PATHS]))
        if len(self._paths) > LISTED_PATHS:
            names += " ..."
        return (
            f"{plural(count, 'result')} of {name_cell(path)} and of a file before it answer the "
            "same question differently. Systems are merged here as if they were one; to compare "
            f"them, run: compare {names}. If these are repeats of one system, add --repeats"
        )


def hash_answer(result: Mapping[str, Any]) -> int:
    """Return a hash of the answer, the steps and the error of a result.

    Ids, times and scores do not count: they differ between two evaluations of the same response.
    Only if a result has no answer, steps or error, as from another program, the hash is of its
    scores.
    """
    answer = result.get("actual_answer")
    steps = result.get("actual_steps")
    error = result.get("error")
    if answer is None and not steps and error is None:
        scores = [value for value in observe(result).values if is_score(value[0])]
        return _hash(scores)
    if isinstance(steps, list):
        steps = [_without_times(step) for step in steps]
    return _hash([answer, steps, error])


def _without_times(step: Any) -> Any:
    """Return a step with only those keys that do not differ between two evaluations."""
    if not isinstance(step, dict):
        return step  # A result from another program may hold anything.
    return {key: step.get(key) for key in STEP_KEYS}


def _hash(value: Any) -> int:
    """Return a hash of a value from JSON, which does not depend on the order of keys."""
    try:
        return hash(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except TypeError:
        # orjson cannot encode some values, such as an int of 65 bits.
        return hash(repr(value))
