"""``plot``: a page of pictures of one run, or of two."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from graphrag_eval_async.batch import MAX_RESULT_BYTES
from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts
from graphrag_eval_async.cli.files import check_distinct
from graphrag_eval_async.cli.plotting import Run, draw_page
from graphrag_eval_async.cli.reading import read_to_end
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.records.metrics import is_score
from graphrag_eval_async.text import one_line, tell

FORMATS = (".svg", ".png", ".pdf")


def picture_path(path: str) -> str:
    """Check the name of a picture.

    Raises:
        ValueError: its suffix is none of `FORMATS`.
    """
    if not path.lower().endswith(FORMATS):
        raise ValueError(f"{path!r}: expected a name that ends with {', '.join(FORMATS)}")
    return path


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draw the scores of one run, or of two.

    Shows the mean with its interval as it narrowed, templates side by side, and for two runs each question in
    both. Needs the extra `plot`.
    """

    example: ClassVar = "plot baseline.jsonl candidate.jsonl -o page.svg"

    results: Annotated[
        list[str],
        options.input_argument(metavar="RESULTS...", help="Results of one run, or of two, JSONL."),
    ]
    output: Annotated[
        str,
        options.output_option(
            "--output",
            "-o",
            parser=options.parser(picture_path),
            metavar="FILE",
            help="Write the page here: .svg, .png or .pdf.",
        ),
    ]
    metric: Annotated[
        str,
        options.input_option("--metric", metavar="METRIC", help="The score to show."),
    ] = "steps_score"
    level: options.Level = "0.95"
    max_line_bytes: options.MaxResultBytes = MAX_RESULT_BYTES

    def run(self, interrupts: Interrupts) -> Exit:
        try:
            import matplotlib as _  # noqa: F401
        except ModuleNotFoundError:
            raise UsageError("plot needs matplotlib: pip install 'graphrag-eval-async[plot]'") from None
        if len(self.results) > 2:
            raise UsageError(f"plot: one or two RESULTS, got {len(self.results)}")
        if not is_score(self.metric):
            raise UsageError(f"--metric: {self.metric!r} is no score, so it has no interval")
        check_distinct([*self.results], [self.output])
        runs = [Run(path, self.metric) for path in self.results]
        sources = [(run.name, run.add) for run in runs]
        rejects, ending = read_to_end(sources, interrupts, max_line_bytes=self.max_line_bytes)
        list_rejects(rejects)
        if ending.error is None and not interrupts.came:
            for run in runs:
                run.spread.variances()  # Raises if there is nothing to show.
                run.aggregates.finish()
            ending = ending.attempt(partial(draw_page, runs, self.level, self.output))
            if ending.error is None:
                tell(sys.stdout, one_line(f"wrote {self.output}"))
        return end(ending, rejects)
