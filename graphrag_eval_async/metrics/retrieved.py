"""The texts behind an answer: those of retrieval steps, and the rows of queries."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from graphrag_eval_async.errors import ComparisonBudgetExceeded, MalformedStep
from graphrag_eval_async.metrics.metric import to_json
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
    """Return the text of each document that a step returned, by rank; "" for a missing text.

    The result is None if the texts are not known:

    - the output of the step cannot be read
    - no document has the key `text`
    - the `text` of a document is not a string
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
    """Return the texts that the retrieval steps of a response returned, without repetitions.

    The result is None if the texts of no step are known.
    """
    # There are no repeated texts here, but a "" for each document without text.
    texts = ranked_texts(case)
    if texts is None:
        return None
    return [text for text in texts if text]


def ranked_texts(case: Case) -> list[str] | None:
    """Return the texts that the retrieval steps of a response returned, in their order.

    Repeated texts are left out, but every document without text has a "". The result is None if the
    texts of no step are known.
    """
    texts_of_steps = [texts_of(step) for step in case.actual_steps or () if is_retrieval(step)]
    known_texts = [texts for texts in texts_of_steps if texts is not None]
    if not known_texts:
        return None

    ranked: list[str] = []
    seen: set[str] = set()
    for text in chain.from_iterable(known_texts):
        is_repeated = text != "" and text in seen
        if not is_repeated:
            seen.add(text)
            ranked.append(text)
    return ranked


class ShownResults(NamedTuple):
    """The results of a query as text for a judge.

    Attributes:
        text: the results; a table begins with a line of column names.
        rows: the number of rows, which may be more than the text has.
    """

    text: str
    rows: int


def table_of(step: Mapping[str, Any]) -> SparqlResults | None:
    """Return the results of a query step as a table; None if they cannot be read as a table."""
    with suppress(MalformedStep, ComparisonBudgetExceeded):
        return ActualStep(step).results()
    return None


def show_results(table: SparqlResults | None, step: Mapping[str, Any]) -> ShownResults:
    """Return the results of a query step as text for a judge, with the number of rows.

    Args:
        table: the results as a table; None if they are not a table. Then the output of the step is
            shown as it is.
        step: the step.
    """
    if table is None:
        output = step.get("output")
        text = output.strip() if isinstance(output, str) else to_json(output)
        # The first line may have names, so that it is not counted as a row.
        return ShownResults(text, rows=text.count("\n"))
    if table.boolean is not None:
        # The answer to ASK.
        return ShownResults(str(table.boolean).lower(), rows=0)

    lines = ["\t".join(column.name for column in table.columns)]
    # More rows than this would be cut off later: each takes at least one character, its line break.
    lines += islice(_rows_as_text(table), MAX_CHARACTERS)
    # Without columns, rows have no text to show, so they do not count.
    row_count = table.row_count if table.columns else 0
    return ShownResults("\n".join(lines), row_count)


def _rows_as_text(table: SparqlResults) -> Iterator[str]:
    """Yield each row of a table as a line of text, with a tab between cells."""
    for row in zip(*(column.texts for column in table.columns), strict=True):
        yield "\t".join(text or "" for text in row)


def join_results(results: list[ShownResults]) -> tuple[str, int]:
    """Return all results as one text of about `MAX_CHARACTERS`, and the number of rows cut off.

    Every result gets an equal share of the space. A result that needs less is shown whole, and the
    space that it leaves is shared equally by the longer results.
    """
    texts = [result.text for result in results]
    free_space = MAX_CHARACTERS
    hidden_rows = 0
    # Shorter results come first, so that it is known how much space they leave to longer ones.
    indexes_by_length = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    for position, index in enumerate(indexes_by_length):
        texts_to_place = len(texts) - position
        equal_share = free_space // texts_to_place
        if len(texts[index]) > equal_share:
            beginning = texts[index][:equal_share]
            # The last line may be incomplete, so count only lines that end. The first line has the
            # names of columns and is no row.
            complete_lines = beginning.count("\n")
            whole_rows = max(complete_lines - 1, 0)
            cut_rows = results[index].rows - whole_rows
            texts[index] = f"{beginning}...\n({cut_rows} more rows)"
            hidden_rows += cut_rows
        free_space -= min(free_space, len(texts[index]))
    return "\n\n".join(texts), hidden_rows
