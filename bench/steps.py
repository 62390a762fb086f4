"""What comparing steps costs, each figure a ratio to a floor taken in the same run.

    python -m bench.steps

Prints the figures as they are measured, in one to two minutes on an idle core: usual responses from
a file, tables of 10,000 rows, and graphs of up to 10,000 statements.
"""

from __future__ import annotations

from bench import rdf, sparql, whole_path
from bench.report import show


def main() -> None:
    for measure in (lambda: whole_path.rows(("few", "many")), sparql.rows, rdf.rows):
        show(measure())
        print(flush=True)


if __name__ == "__main__":
    main()
