"""Questions of a reference set, found by what a user asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphrag_eval_async.records import Question


class QuestionTexts:
    """Finds questions by their texts; built once for many traces."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._exact: dict[str, list[str]] = {}
        self._normalised: dict[str, list[str]] = {}
        for question in questions:
            self._exact.setdefault(question.text.strip(), []).append(question.id)
            self._normalised.setdefault(_normalised(question.text), []).append(question.id)

    def find(self, question: str | None, problem: Callable[[str], None]) -> str | None:
        """The id of the question that the user asked; None, with a problem, if that is not clear."""
        if question is None:
            problem("no question id, and no text of a question")
            return None
        asked = question.strip()
        found = self._exact.get(asked)
        if found is None:
            found = self._normalised.get(_normalised(asked), [])
            if len(found) == 1:
                problem("the question was found by its text, but for case, blanks and punctuation")
        if len(found) == 1:
            return found[0]
        how = f"{len(found)} questions of the reference set have" if found else "no question has"
        problem(f"{how} the text {asked[:100]!r}")
        return None


def _normalised(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))
