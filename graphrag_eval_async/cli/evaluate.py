"""``evaluate``: results and aggregates of responses."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, TextIO

from msgspec import structs

from graphrag_eval_async.cli import options
from graphrag_eval_async.cli.exits import Exit, Interrupts, Sending, run_to_end
from graphrag_eval_async.cli.files import html_path, open_lines, output_path, write_page
from graphrag_eval_async.cli.gates import check_gates
from graphrag_eval_async.cli.judges import estimates, forget_keys, judge_config
from graphrag_eval_async.cli.progress import progress
from graphrag_eval_async.cli.reading import processes_for
from graphrag_eval_async.cli.report import end, list_rejects
from graphrag_eval_async.cli.run import RunOptions
from graphrag_eval_async.config import Config, LimitsConfig
from graphrag_eval_async.errors import UsageError
from graphrag_eval_async.evaluator import Evaluator
from graphrag_eval_async.inference.running import Interval
from graphrag_eval_async.inference.until import Until
from graphrag_eval_async.judge.dry import DryJudge
from graphrag_eval_async.metrics import judge_of
from graphrag_eval_async.monitor.facts import judge_state
from graphrag_eval_async.monitor.report import ReportResults, html_report
from graphrag_eval_async.monitor.worst import worst_questions
from graphrag_eval_async.records.metrics import MISSING_RATE
from graphrag_eval_async.redis_client import is_redis
from graphrag_eval_async.reference import Reference, misnamed_steps
from graphrag_eval_async.scale.file_evaluation import EvaluatedFile, FileEvaluation
from graphrag_eval_async.scale.redis.source import RedisStream, stream_at
from graphrag_eval_async.sinks import RejectWriter
from graphrag_eval_async.sinks.files import draft_beside
from graphrag_eval_async.sinks.tables import check_table, is_table, write_table
from graphrag_eval_async.sources import JsonlFiles, read_jsonl
from graphrag_eval_async.sources.reading import expand
from graphrag_eval_async.sources.shards import as_shard
from graphrag_eval_async.stream import EvaluationStream, evaluate_stream
from graphrag_eval_async.text import counts, kind_of_problem, one_line, tell

DEFAULT_SEED = 0


@dataclass(frozen=True, kw_only=True)
class Evaluate(RunOptions):
    """Evaluate responses as they arrive.

    Writes one result per response, and prints a page of scores at the end. Without --config or --llm, no
    model is called: only steps are scored.
    """

    example: ClassVar = (
        "evaluate reference.yaml responses.jsonl -o results.jsonl --fail-under steps_score=0.8"
    )

    responses: Annotated[str | None, options.LIVE_RESPONSES] = None
    output: Annotated[
        str | None,
        options.output_option(
            "--output",
            "--results",
            "-o",
            parser=output_path,
            metavar="FILE",
            help="Write results here: .jsonl, or .csv or .parquet at the end of the run; - is standard "
            "output; redis://HOST/RESULTS for responses of that server.  [default: -, but nowhere if that "
            "is a terminal, or for responses of a server]",
        ),
    ] = None
    html: Annotated[
        str | None,
        options.output_option(
            "--report",
            parser=options.parser(html_path),
            metavar="FILE",
            help="Write a report here at the end: one HTML file with scores, all results and details of the "
            "worst.",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        options.judge_option(
            "--dry-run",
            help="Estimate the calls, tokens and dollars of a run. Writes no file and makes no call.",
        ),
    ] = False
    until: Annotated[
        list[str] | None,  # To tell those who give several that only one can be.
        options.statistics_option(
            metavar="CONDITION",
            help="Stop as soon as it is decided whether CONDITION holds, such as 'steps_score >= 0.8'; "
            "[TEMPLATE:]METRIC with >=, >, <= or <. Also a gate: an undecided run fails it.",
        ),
    ] = None
    shuffle: Annotated[
        int | None,
        options.input_option(
            min=0,
            metavar="SEED",
            help="Read lines in random order, reproducible with SEED.  [default: 0 with --until]",
        ),
    ] = None
    shard: Annotated[
        str | None,
        options.input_option(
            metavar="INDEX/COUNT",
            help="Evaluate one of COUNT equal parts, the first of which is 0/COUNT. Results have no "
            "`sample`; aggregate merges them.",
        ),
    ] = None
    interval: options.IntervalOfRun = None
    jobs: options.Jobs = 1

    @property
    def source(self) -> str:
        return self.no_reference or self.responses or ""

    @property
    def more_outputs(self) -> list[str | None]:
        return [self.html]

    @property
    def interval_kind(self) -> Interval | None:
        return self.interval

    def run(self, interrupts: Interrupts) -> Exit:
        self._check_inputs()
        if is_redis(self.source):
            return self._run_as_worker(interrupts)
        if self.dry_run:
            return self._estimate(interrupts)
        if is_redis(self.output):
            raise UsageError(
                f"-o {self.output} is for responses of a Redis server, redis://HOST/STREAM?group=GROUP"
            )
        if self.output is None and not (sys.stdout and sys.stdout.isatty()):
            return replace(self, output="-").run(interrupts)
        if self.output is not None and is_table(self.output):
            return self._run_to_table(self.output, interrupts)
        until = self._condition()
        config = self.read_config()
        self.check_files(config, self.source)
        if self.jobs != 1:
            self._check_jobs()
            evaluator = Evaluator(
                self.load_reference(), steps_groups=self.steps_groups, config=config, format=self.traces
            )
            check_gates(self.gates, evaluator.reference.templates, config)
            jobs = processes_for(
                self.jobs,
                [self.source],
                judged=bool(evaluator.judged) or evaluator.executes,
                traces=evaluator.trace_format,
            )
            if jobs > 1:
                return self._run_in_processes(evaluator, jobs, interrupts)
            return replace(self, ordered=True, jobs=1).run(interrupts)
        reference = self.load_reference()
        check_gates(self.gates, reference.templates, config)
        seed = self._seed(until)
        source = read_jsonl(self.source, shuffle=seed, shard=self.shard)
        shown = None if until is None or self.shuffle is not None else f"--until: {_order(seed)}"
        return self._run_here(reference, source, config, interrupts, until=until, order=shown)

    def _run_here(
        self,
        reference: Reference,
        source: JsonlFiles | RedisStream,
        config: Config | None,
        interrupts: Interrupts,
        *,
        until: Until | None = None,
        order: str | None = None,
    ) -> Exit:
        """Evaluate in this process; `order` says on stderr in which order the responses are read."""
        problems = Counter[str]()
        collected = None if self.html is None else ReportResults()
        add = None if collected is None else collected.add
        with (
            self.open(reference, source, config, interrupts, until=until, on_restored=add) as (
                stream,
                results,
            ),
            self.exporting(stream) as takers,
        ):
            if order is not None:
                tell(sys.stderr, order)
            usage = stream.usage if judge_of(config) else None
            shown = self._shows_progress
            with progress(source, shown=shown, usage=usage, aggregates=stream.aggregates) as advance:
                takers += [] if add is None else [add]
                sending = Sending(results, self.stopping(stream, stream.stop), takers)
                work = _write_results(stream, sending, advance, problems)
                ending = run_to_end(work, interrupts, drain=sending.drain)

        is_part = self.shard or isinstance(source, RedisStream)
        return self.report_stream(
            stream,
            ending,
            reference=None if is_part else reference,
            config=config,
            table=self._table,
            notes=self._notes(source, problems),
            page=None if collected is None else partial(self._write_page, stream, config, collected),
        )

    def _write_page(
        self,
        stream: EvaluationStream,
        config: Config | None,
        collected: ReportResults,
        snapshot: Mapping[str, Any],
    ) -> None:
        page = html_report(
            snapshot,
            collected,
            worst=worst_questions(stream.aggregates),
            title=f"Evaluation of {self.source}",
            level=self.level,
            rejects=stream.rejects.counts,
            questions=len(stream.reference.questions),
            missing=len(stream.missing),
            misnamed=misnamed_steps(stream.reference, stream.aggregates._step_names()),
            judge=judge_state(stream.usage, config),
            late=stream.late.facts(),
        )
        write_page(str(self.html), page)

    def _notes(self, source: JsonlFiles | RedisStream, problems: Mapping[str, int]) -> list[str]:
        if isinstance(source, RedisStream):
            place = f"{source.settings.address}/{source.settings.keys.results}"
            return [f"results of this worker; all are in {place}"]
        return [one_line(f"trace problems: {counts(problems)}")] if problems else []

    def _run_as_worker(self, interrupts: Interrupts) -> Exit:
        """Evaluate what comes from a Redis server until stopped, or until nothing is left to do."""
        refused = {
            "--dry-run": self.dry_run,
            "--jobs": self.jobs != 1,
            "--report": self.html,
            "--resume": self.is_resumable,
            "--shard": self.shard,
            "--shuffle": self.shuffle is not None,
            "--stages": self.stages,
            "--until": self.until,
            "-o TABLE": self.output is not None and is_table(self.output),
        }
        options.refuse(refused, "{} cannot be combined with responses of a Redis server")
        if self.gates_missing:
            raise UsageError(f"{MISSING_RATE} cannot be a gate of one worker, which sees a part only")
        results = self.output if is_redis(self.output) else None
        source = stream_at(self.source, results)
        config, reference = self.read_config(), self.load_reference()
        run = replace(self, output=None) if results else self
        run.check_files(config)
        check_gates(self.gates, reference.templates, config)
        return run._run_here(reference, source, config, interrupts)

    def _run_to_table(self, path: str, interrupts: Interrupts) -> Exit:
        """Write results as lines first: the columns of a table are known only at the end."""
        if self.is_resumable:
            raise UsageError(f"--resume needs a JSONL output, not {path}; use another name")
        check_table(path)
        self.check_files(self.read_config(), self.source)
        lines = draft_beside(path, ".jsonl")
        try:
            ending = replace(self, output=lines).run(interrupts)
            write_table(lines, path)
        except Exception:
            if os.path.exists(lines):
                tell(sys.stderr, f"{path} was not written; results so far are in {lines}")
            raise
        os.unlink(lines)
        return ending

    def _estimate(self, interrupts: Interrupts) -> Exit:
        config = judge_config(self.config, self.llm, self.embedding, prepare=forget_keys)
        unlimited = config
        if config is not None and config.llm is not None:  # Neither limits nor a cache hold up calls.
            unlimited = structs.replace(
                config, llm=structs.replace(config.llm, limits=LimitsConfig(), cache=None)
            )
        reference = self.load_reference()
        check_gates(self.gates, reference.templates, config)
        source = read_jsonl(self.source, shard=self.shard)
        stream = evaluate_stream(
            reference,
            source,
            config=unlimited,
            judge=DryJudge() if judge_of(config) is not None else None,
            steps_groups=self.steps_groups,
            format=self.traces,
            max_in_flight=self.max_in_flight,
            max_line_bytes=self.max_line_bytes,
        )
        rejects = stream.rejects
        with progress(source) as advance:
            work = _write_results(stream, Sending(None, stream.stop), advance, Counter())
            ending = run_to_end(work, interrupts)
        list_rejects(rejects)
        tell(sys.stdout, "\n".join(estimates(stream, config)))
        return end(ending, rejects)

    def _run_in_processes(self, evaluator: Evaluator, jobs: int, interrupts: Interrupts) -> Exit:
        with ExitStack() as files:
            results = self.output and files.enter_context(open_lines(self.output))
            rejects = self.rejects and files.enter_context(open_lines(self.rejects, interrupts))
            evaluation = FileEvaluation(
                evaluator,
                expand([self.source]),
                jobs,
                on_reject=RejectWriter(rejects, max_bytes=self.max_reject_bytes) if rejects else "collect",
                max_line_bytes=self.max_line_bytes,
                include_errors=self.include_errors,
                shard=None if self.shard is None else as_shard(self.shard),
            )
            with progress(evaluation.merging, shown=self._shows_progress) as advance:
                sending = Sending(results or None, evaluation.merging.stop)
                work = evaluation.run(sending.send_lines, advance)
                ending = run_to_end(work, interrupts, drain=sending.drain)
        found = EvaluatedFile(evaluation.aggregates, evaluation.rejects, evaluation.missing)
        reference = None if self.shard else evaluator.reference
        return self.report(found, ending, reference=reference, table=self._table)

    @property
    def _shows_progress(self) -> bool:
        # Results on the same terminal would go through the bar.
        return self.output != "-" or not sys.stdout.isatty()

    @property
    def _table(self) -> TextIO | None:
        return sys.stderr if "-" in {self.output, self.rejects} else sys.stdout

    def _check_inputs(self) -> None:
        if self.no_reference is not None:
            if self.reference is not None:
                raise UsageError("--no-reference RESPONSES cannot be combined with REFERENCE")
        elif self.reference is None or self.responses is None:
            raise UsageError("expected REFERENCE and RESPONSES, or --no-reference RESPONSES")
        if self.shard is not None:
            as_shard(self.shard)
            if self.source == "-":
                raise UsageError("--shard needs files; standard input has no shards")
            whole = {"--until": self.until, "--shuffle": self.shuffle is not None, "--stages": self.stages}
            options.refuse(whole, "--shard cannot be combined with {}, which needs all responses")
            if self.gates_missing:
                raise UsageError(f"{MISSING_RATE} cannot be a gate with --shard, which sees a part only")

    def _check_jobs(self) -> None:
        needing_one = {
            "--resume": self.is_resumable,
            "--until": self.until,
            "--stages": self.stages,
            "--shuffle": self.shuffle is not None,
            "--report": self.html is not None,
            "--otel, --otlp-metrics and --otlp-json": self.otel or self.otlp_metrics or self.otlp_json,
            "--dedupe content": self.dedupe != "position",
        }
        options.refuse(needing_one, "--jobs cannot be combined with {}, which needs a single process")

    def _condition(self) -> Until | None:
        if not self.until:
            return None
        if len(self.until) > 1:
            raise UsageError(f"--until: one condition only, got {len(self.until)}")
        return Until(self.until[0], self.level)

    def _seed(self, until: Until | None) -> int | None:
        """The seed that shuffles the responses; None leaves them in their order."""
        if until is not None and self.gates_missing:
            raise UsageError("missing_rate cannot be a gate with --until, which skips questions")
        if until is not None and self.shuffle is None and read_jsonl(self.source).can_be_shuffled:
            return DEFAULT_SEED
        return self.shuffle


def _order(seed: int | None) -> str:
    if seed is not None:
        return f"read in a shuffled order (--shuffle {seed}), since files are often sorted"
    return (
        "standard input, pipes and compressed files are read in their order: if they are sorted, only "
        "their beginning decides"
    )


async def _write_results(
    stream: EvaluationStream,
    sending: Sending,
    advance: Callable[[], None],
    problems: Counter[str],
) -> None:
    async with stream:
        async for result in stream:
            if "pending" not in result:
                advance()
                problems.update({kind_of_problem(text) for text in result.get("trace_problems", ())})
            await sending.send(result)
