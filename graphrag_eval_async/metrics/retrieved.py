"""The texts behind an answer: those of retrieval steps, and the rows of queries."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.metrics.metric import dumps
from graphrag_eval_async.steps.actual import ActualStep
from graphrag_eval_async.steps.retrieval import read_documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphrag_eval_async.metrics.metric import Case
    from graphrag_eval_async.steps.formats.results import SparqlResults

NO_TEXT = "no text was retrieved"
"""The reason of a score of 0 if there is nothing to judge."""

MAX_CHARACTERS = 20_000
"""Characters of rows that the judge sees, of all queries together."""


def is_retrieval(step: Mapping[str, Any]) -> bool:
    """Return whether a step is a successful retrieval."""
    return step.get("name") == "retrieval" and step.get("status") == "success"


def is_query(step: Mapping[str, Any]) -> bool:
    """Return whether a step is a successful SPARQL query."""
    return step.get("name") == "sparql_query" and step.get("status") == "success"


def texts_of(step: Mapping[str, Any]) -> list[str] | None:
    """Return the texts that a step returned by rank, "" for a document without text.

    None if they are not known: the output cannot be read, or it has documents, but none with the
    key `text`.
    """
    try:
        documents = read_documents(step.get("output"))
    except MalformedStep:
        return None
    if documents and not any("text" in document for document in documents):
        return None

    texts = []
    for document in documents:
        text = document.get("text")
        if not isinstance(text, str | None):
            return None
        if text is None or not text.strip():
            text = ""
        texts.append(text)
    return texts


def retrieved_texts(case: Case) -> list[str] | None:
    """Return the texts of all retrieval steps, each once; None if no step's texts are known."""
    texts = ranked_texts(case)
    if texts is None:
        return None
    return [text for text in texts if text]


def ranked_texts(case: Case) -> list[str] | None:
    """Return the texts of all retrieval steps, each once, and "" for each document without one.

    None if no step's texts are known.
    """
    texts_of_steps = [texts_of(step) for step in case.actual_steps or () if is_retrieval(step)]
    known_texts = [texts for texts in texts_of_steps if texts is not None]
    if not known_texts:
        return None

    distinct: list[str] = []
    seen: set[str] = set()
    for text in chain.from_iterable(known_texts):
        if text and text in seen:
            continue
        seen.add(text)
        distinct.append(text)
    return distinct


class ShownResults(NamedTuple):
    """The results of a query as text.

    Attributes:
        text: the results: a table begins with a line of names.
        rows: the number of rows, which may be more than are in the text.
    """

    text: str
    rows: int


def table_of(step: Mapping[str, Any]) -> SparqlResults | None:
    """Return the results of a query; None if they cannot be read as a table."""
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        return ActualStep(step).results()
    return None


def show_results(table: SparqlResults | None, step: Mapping[str, Any]) -> ShownResults:
    """Return the results of a query as text; what is no table is shown as it is."""
    if table is None:
        output = step.get("output")
        text = output.strip() if isinstance(output, str) else dumps(output)
        return ShownResults(text, rows=text.count("\n"))
    if table.boolean is not None:
        return ShownResults(str(table.boolean).lower(), rows=0)

    lines = ["\t".join(column.name for column in table.columns)]
    # Each row has a line, so that many lines have as many characters.
    lines += islice(_lines_of(table), MAX_CHARACTERS)
    row_count = table.row_count if table.columns else 0
    return ShownResults("\n".join(lines), row_count)


def _lines_of(table: SparqlResults) -> Iterator[str]:
    """Yield the rows of a table as text."""
    for row in zip(*(column.texts for column in table.columns), strict=True):
        yield "\t".join(text or "" for text in row)


def cut_off(results: list[ShownResults]) -> tuple[str, int]:
    """Return all results as one text of `MAX_CHARACTERS`, and how many rows are cut off.

    The shortest results are shown whole, if possible; all others get equally much space.
    """
    parts = [result.text for result in results]
    space = MAX_CHARACTERS
    hidden_rows = 0
    shortest_first = sorted(range(len(parts)), key=lambda index: len(parts[index]))
    for position, index in enumerate(shortest_first):
        remaining_parts = len(parts) - position
        limit = space // remaining_parts
        if len(parts[index]) > limit:
            beginning = parts[index][:limit]
            # The last line may be cut, and the first one has the names.
            whole_rows = max(beginning.count("\n") - 1, 0)
            cut_rows = results[index].rows - whole_rows
            parts[index] = f"{beginning}...\n({cut_rows} more rows)"
            hidden_rows += cut_rows
        space -= min(space, len(parts[index]))
    return "\n\n".join(parts), hidden_rows
