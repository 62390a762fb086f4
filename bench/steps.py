"""Every figure for streams without a judge, each a ratio to a floor taken in the same run.

    python -m bench.steps

Takes about two minutes on two cores.
"""

from __future__ import annotations

from bench import aggregates, imports, memory, rdf, sparql, whole_path
from bench.report import Row, show


def main() -> None:
    rows = [
        Row(*row)
        for module in (whole_path, sparql, rdf, aggregates, memory, imports)
        for row in module.rows()
    ]
    show(rows)


if __name__ == "__main__":
    main()
