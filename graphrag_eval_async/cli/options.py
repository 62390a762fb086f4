"""The arguments and options of all commands, as help texts show them, and what parses each.

An entry is a line of what help shows, such as ``-o, --output FILE``, with what it does below.
Behind ``...`` it may be repeated, behind ``?`` left out. Then may come, in this order: ``/name``
where several commands have another option of this name, ``= DEFAULT``, and ``: MODULE:FUNCTION``,
which parses the text of a value and is imported only if the option is given. Groups are in the
order of help texts.
"""

from __future__ import annotations

import re
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE = """
Arguments
  reference REFERENCE /needed : cli.files:file_path
    Reference set, YAML or JSON.
  reference REFERENCE? /optional : cli.files:file_path
    Reference set, YAML or JSON.
  responses RESPONSES? : cli.files:input_path
    Responses, JSONL: a file (.gz too), a directory, a glob, an address such as s3://..., or - for
    standard input.
  responses RESPONSES... /files : cli.files:input_path
    Responses, JSONL: files (.gz too), directories or globs.
  paths PATH...?
    Logs of responses, JSONL: files, directories or globs, which may appear later; or - for standard
    input.
  url URL
    Address of the agent, such as http://localhost:8000.
  log LOG : cli.files:convertible_path
    Traces, JSONL; - for standard input. With --from, the file of a benchmark.
  results RESULTS : cli.files:input_path
    Results, JSONL; - for standard input.
  results RESULTS... /files : cli.files:input_path
    Results, JSONL; - for standard input.
  results RESULTS... /runs : cli.files:input_path
    Results of one run, or of two, JSONL.
  results RESULTS...? /plan : cli.files:input_path
    Results of one run, or of two runs of the same questions, JSONL.
  results RESULTS... /merged : cli.files:input_path
    Results, JSONL or Parquet, or .aggregates files; - for standard input.
  baseline BASELINE /argument : cli.files:input_path
    Results of the earlier run, JSONL; - for standard input.
  candidates CANDIDATE... : cli.files:input_path
    Results of the other run, or of several systems, JSONL.
  labels LABELS : cli.files:input_path
    Labels, JSONL, in the layout that sample-for-labels writes.
  folder DIR
    Folder for the files; created if missing.
  name <reference|responses|results|aggregates|configuration>
    reference, responses, results, aggregates or configuration.
Input
  --no-reference RESPONSES : cli.files:input_path
    Responses to use without a reference set. Each needs a `question`; steps are not scored.
  --reference FILE : cli.files:file_path
    Reference set. Sets the order of templates and allows a gate on missing_rate.
  --repeats /merged
    Merge files with different answers to a question as repeats of one system, without a warning.
  --reference FILE /questions : cli.files:file_path
    Reference set, to find each question's id by its text.
  --format FORMAT : cli.parsing:parse_format
    Format of traces: auto to detect it, openai, responses, agents, langchain, anthropic,
    pydantic-ai, vercel, gemini, haystack, bedrock, inspect, autogen, semantic-kernel, llamaindex,
    mcp, smolagents, langsmith, otlp, text2sparql or plain.
  --format FORMAT /convert = auto : cli.parsing:parse_format
    Format of traces: auto to detect it, openai, responses, agents, langchain, anthropic,
    pydantic-ai, vercel, gemini, haystack, bedrock, inspect, autogen, semantic-kernel, llamaindex,
    mcp, smolagents, langsmith, otlp, text2sparql or plain.
  --from <text2sparql|qald|qald-9-plus|webqsp|json>
    Write the questions of this benchmark as a reference set, in place of responses. json: of any
    JSON, JSON lines or CSV whose keys you name.
  --question KEY
    With --from json: key of a question's text, such as question or question.string.
  --query KEY /key
    With --from json: key of its query, SPARQL or Cypher.
  --answer KEY /key
    With --from json: key of its answer, such as answer or answers.name.
  --id KEY
    With --from json: key of its id.  [default: number them]
  --language LANGUAGE
    With --from: only questions in this language, such as en.  [default: all of text2sparql, else
    en]
  --score <f1|values_f1>
    With --from: `score` of steps with SELECT or ASK.
  --select PATH
    With --format: where the trace is in a line, such as payload.messages.
  --question-id PATH
    With --format: where the question's id is in a line; with otlp, an attribute.
    [default: find the question by its text]
  --failed TEXT...
    With --format: calls whose results begin with TEXT failed, if the trace does not say.
    Repeatable.
    [default: Error: and fixed sentences of LangGraph, MCP and OpenAI Agents]
  --step-name TOOL=STEP... : cli.parsing:parse_step_name
    With --format: step name to use for a tool, such as run_sparql=sparql_query. Repeatable.
  --grace SECONDS = 10 : helpers.durations:parse_duration
    With otlp, except in files: how long to wait for late spans after the root span of a trace.
  --otlp-listen HOST:PORT : cli.parsing:parse_address
    Receive OpenTelemetry spans over HTTP instead of following logs, such as 127.0.0.1:4318.
  --start <beginning|end> = beginning
    Where to begin in files that already exist.
  --until-idle TIME : helpers.durations:parse_duration
    Stop when nothing was written for this long, such as 30s; exit code 4 if no log ever existed.
  --exclude GLOB...
    Skip logs with this name, or this path if GLOB has a slash: '*.debug.jsonl'. Repeatable.
  --ignore-older TIME : helpers.durations:parse_duration
    Skip existing lines of logs not written for this long, such as 24h.
  --shuffle SEED : cli.parsing:parse_natural
    Read lines in random order, reproducible with SEED.  [default: 0 with --until]
  --shard INDEX/COUNT : sources.shards:as_shard
    Evaluate one of COUNT equal parts, the first of which is 0/COUNT. Results have no `sample`;
    merge them with aggregate.
  --strict
    Treat probable mistakes, such as unknown keys or step names, as problems.
  -c, --config FILE /aliases : cli.files:file_path
    Configuration; its key `aliases` lists other step names, and the metrics in
    `ragas` are checked.
  --baseline FILE : cli.files:input_path
    Results of an earlier run, to compare with.
  --metric METRIC = steps_score
    The metric.
  --metric METRIC /sampled = answer_correctness
    The metric.
  --metric METRIC /judged
    The judged metric.  [default: the metric that the labels name]
  --sd X : cli.parsing:parse_positive
    Standard deviation of the metric, instead of RESULTS.
  -n N = 100 : cli.parsing:parse_count
    How many to draw.
  --seed SEED = 0 : cli.parsing:parse_natural
    Seed of the draw. With the same seed, a larger N only adds results.
  --chosen-at-random
    Declare that the labelled results were chosen at random, but not by sample-for-labels.
  -i, --input FILE! : cli.files:file_path
    Answers: TSV with the columns Question, Reference answer and Actual answer.
  --cypher
    Write an example with Cypher, and a graph in a file. Needs the extra cypher.
  --questions FILE : cli.files:file_path
    Your questions: CSV or TSV with the columns question, answer, query and tags; or responses,
    JSONL.
Agent
  --method <GET|POST>
    How to ask.  [default: GET, or POST with --body]
  --param NAME=TEXT... : cli.commands.ask:parse_param
    Parameter to send, with {question} and {KEY}, a tag, in its text. Repeatable.
    [default: question={question}]
  --body FILE : cli.files:json_path
    JSON to send, with {question} and {KEY} in its texts; {{ and }} are braces.
  --header NAME:VALUE... : cli.commands.ask:parse_header
    Header to send: 'Authorization: Bearer ${TOKEN}', with TOKEN from the environment. Repeatable.
  --answer PATH = $.answer
    Answer's JSON path; '' if none.
  --query PATH = $.query
    Query's JSON path; '' if none.
  --steps PATH = $.steps
    Steps' JSON path; '' if none.
  --max-concurrency N = 8 : cli.parsing:parse_count
    Maximum number of questions in progress.
  --timeout TIME = 60s : helpers.durations:parse_duration
    How long to wait for a reply.
  --repeats N = 1 : cli.parsing:parse_count
    How often to ask each question.
  --retries N = 2 : cli.parsing:parse_natural
    How often to ask again if the agent cannot be reached or is busy.
Output
  -o, --output FILE : cli.files:output_path
    Write results here: .jsonl, or .csv or .parquet at the end of the run; - is standard output.
    [default: standard output, unless that is a terminal]
  -o, --output FILE! /joined : cli.files:resumable_path
    Write results here, as JSONL. OUTPUT.shards/ holds finished parts until all are joined.
  -o, --output FILE /watch : cli.files:lines_path
    Write results here, as JSONL.  [default: nowhere]
  -o, --output FILE /lines = - : cli.files:lines_path
    Write lines here, as JSONL.
  -o, --output FILE /converted = - : cli.files:output_path
    Write responses here, as JSONL; with --from, the reference set, as .yaml, .yml or .json.
  --format FORMAT /table = text : cli.parsing:parse_table_format
    Format of tables: text, markdown, html or latex. As text, two runs are compared question by
    question.
  -o, --output FILE /comparison : cli.files:aggregates_path
    Write the whole comparison here: .yaml, .yml or .json.
  -o, --output FILE /page : cli.files:html_path
    Write a page here: one HTML file with metrics, all results and details of the worst.
  -o, --output FILE! /picture : cli.files:picture_path
    Write the picture here: .svg, .png or .pdf.
  -o, --output FILE! /table : cli.files:resumable_path
    Write one row per answer here at the end, as TSV. An existing FILE needs its FILE.journal.
  --report FILE : cli.files:html_path
    Write a report here at the end, as one HTML file.
  --aggregates FILE : cli.files:state_path
    Write the aggregates here: .yaml, .yml or .json; or .aggregates, to merge with aggregate.
  --rejects FILE : cli.files:output_path
    Write rejected lines here, as JSONL.
  --detail
    Also print all means, missing values, intervals and quantiles.
  --by KEY
    Group results by a tag such as hops, or by all `tags`.
  --worst N = 10 : cli.parsing:parse_natural
    How many questions to list that got worse, or are worst.
  --ordered
    Write results in the order of the input.
  --markdown FILE : cli.files:page_path
    Write Markdown for a pull request here: at most 60,000 characters; - for standard output.
  --junit FILE : cli.files:resumable_path
    Write JUnit XML here: a test case for each question and each gate.
  --github
    Print annotations for GitHub Actions, and append the Markdown to $GITHUB_STEP_SUMMARY.
  --pass-if CONDITION... : catalogue.conditions:parse_condition
    A question passes if its mean meets CONDITION, such as 'answer_f1 >= 0.8' or 'lines:steps_score
    >= 0.5'. Repeatable.
    [default: steps_score >= 1, and answer_match, answer_f1 and ragas_answer_correctness >= 0.5, for
    those that the run has]
  --otel
    Send each metric of each result to an OpenTelemetry collector; the OTEL_* environment variables
    say where.
  --window N|TIME = 200 : reports.windows:parse_window
    What counts as recent: a number of results, or a time such as 5m.
  --show <last|worst> = last
    Which results to list: the last, or the worst (errors, then the lowest metrics).
  --every TIME = 10s : helpers.durations:parse_duration
    Without a terminal: how often to print JSON.
  --metrics [HOST:]PORT : cli.parsing:parse_address
    Serve metrics for Prometheus, such as at :9464; without HOST, only to this machine.
  --web [HOST:PORT] : cli.parsing:parse_web
    Show the run in the browser at this address.  [default: 127.0.0.1:8080]
Alerts
  --alert CONDITION... : monitor.alerts:parse_alert
    Alert on recent values: 'steps_score < 0.8 over 200', 'p95 elapsed_sec > 30 over 5m', 'no lines
    for 10m'. Repeatable.
  --on-alert COMMAND
    Shell command to run when an alert starts or ends, with JSON on its input; killed after 30 s.
Resume
  --resume [=force] : cli.parsing:parse_resume
    Keep a journal, and skip lines that are done; =force even if settings have changed.
  --retry-errors
    With --resume: ask again after errors and rejects.
  --retry-failed
    With --resume: judge all metrics of a response again if one failed.
  --retry-failed /agent
    With --resume: ask again the questions with failed metrics.
  --dedupe <position|content> = position
    How to recognise lines that were evaluated before. With content, equal lines count once.
Judges
  -c, --config FILE : cli.files:file_path
    Configuration of the judges, YAML or JSON.
  --llm PROVIDER/MODEL
    Judge answer correctness with this model: openai/gpt-4o-mini.
  --llm PROVIDER/MODEL /default
    Model that judges, without a configuration.  [default: openai/gpt-4o-mini, if OPENAI_API_KEY is
    set]
  --on-fatal <raise|continue> = raise
    On a wrong key, an unknown model or a used-up quota, stop the run or record errors of metrics.
  --stages
    Write each result twice: with its steps scored and metrics pending, then complete.
  --dry-run
    Only estimate calls, tokens and dollars.
Gates
  --gate CONDITION... : catalogue.conditions:parse_gate
    Fail unless CONDITION holds: 'steps_score >= 0.8', of a template 'lines:error_rate < 0.1', of a
    tag 'pass@2[hops=2] > 0.7'. Repeatable.
  --until CONDITION... : cli.parsing:parse_until
    Stop once CONDITION is decided: 'steps_score >= 0.8'. Fails like a gate, also if undecided.
  --max-drop METRIC=X... : cli.regression_gates:parse_max_drop
    Fail if the mean of METRIC got worse by more than X, however uncertain. In metrics up to 1, an
    error counts as 0. Repeatable.
  --non-inferior METRIC=X... : cli.regression_gates:parse_max_drop
    Fail unless the confidence interval rules out a drop of METRIC by X or more. In metrics up to 1,
    an error counts as 0. Repeatable.
  --max-regressions N : cli.parsing:parse_natural
    Fail if more than N questions were right in the baseline and no longer are.
  --fail-on-regression
    Fail if a primary metric got significantly worse, overall or in a template; if significantly
    more questions lost it than gained it; or if there is no primary metric to compare.
  --allow-missing
    Pass these gates even if questions of the baseline are missing.
Statistics
  --level LEVEL = 0.95 : cli.parsing:parse_level
    Confidence level of intervals and decisions, between 0 and 1.
  --interval KIND : cli.parsing:parse_interval
    Kind of intervals: one_look, for finished runs; or anytime, wider but valid however often you
    look, for a run that you or --until stopped.  [default: one_look]
  --interval KIND /run : cli.parsing:parse_interval
    Kind of intervals: one_look, for finished runs; or anytime, wider but valid however often you
    look, for a run that you or --until stopped.  [default: one_look, but anytime if this run is
    stopped]
  -c, --config FILE /primary : cli.files:file_path
    Configuration; its key `primary` names the metrics that get a verdict.
  --detect X! : cli.parsing:parse_positive
    Smallest change of the mean to detect, such as 0.05.
Advanced
  --jobs N = 1 : cli.parsing:parse_natural
    Number of worker processes; 0 means one per core. They share the limits of the configuration. If
    the run is killed, the same command evaluates only what is missing. Standard input, pipes and
    addresses use one.
  --max-in-flight N = 256 : cli.parsing:parse_count
    Maximum number of responses in progress.
  --max-in-flight N /agent : cli.parsing:parse_count
    Maximum number of questions in progress.  [default: 4 times --max-concurrency, at least 8]
  --max-in-flight N /worker = 256 : cli.parsing:parse_count
    Maximum number of responses that a worker judges at a time.
  --concurrency N = 1 : cli.parsing:parse_count
    Number of workers (Ray actors).
"""

_ENTRY = re.compile(
    r"(?P<names>(?:-\w, )?--?[\w-]+|\w+)(?: "
    r"(?P<metavar>[^\s/=:]\S*?)(?P<repeated>\.\.\.)?(?P<mark>[?!])?)?"
    r"(?: /(?P<variant>\w+))?(?: = (?P<default>\S+))?(?: : (?P<parser>\S+))?"
)
"""The first line of an entry of `TABLE`.

The mark is ``?`` for an argument that may be left out, and ``!`` for an option that may not.
"""

_START_OF_ENTRY = re.compile(r"\n(?= {0,2}\S)")
"""The end of a line before an entry or the name of a group; the lines of a help text are indented
further.
"""

ARGUMENTS = "Arguments"
"""The name of the group of the arguments."""


class Option(NamedTuple):
    """An option or an argument, as its entry says.

    Attributes:
        group: the heading under which help texts show it.
        names: its names on the command line, such as ``-o`` and ``--output``; of an argument, the
            name of its field.
        field: the field of the class of options that has its value.
        metavar: what help texts show for its value; None for a flag, which has no value.
        is_repeated: whether it may be given several times.
        is_needed: whether it must be given.
        default: the text of its value if it is not given; None if there is no default.
        parser: the function that parses the text of a value, as ``MODULE:FUNCTION``; None if the
            text is the value.
        help: what it does.
    """

    group: str
    names: tuple[str, ...]
    field: str
    metavar: str | None
    is_repeated: bool
    is_needed: bool
    default: str | None
    parser: str | None
    help: str

    @property
    def is_argument(self) -> bool:
        """Whether its value is found by its position on the command line, not by a name."""
        return self.group == ARGUMENTS

    @property
    def is_flag(self) -> bool:
        """Whether it has no value."""
        return self.metavar is None

    @property
    def is_path(self) -> bool:
        """Whether its value is a path, which a shell can complete."""
        if self.parser is not None and self.parser.startswith("cli.files:"):
            return True
        return self.metavar == "DIR" or (self.is_argument and self.metavar == "PATH")

    @property
    def choices(self) -> list[str]:
        """The values that are allowed; empty if any is.

        An entry writes them as ``<json|csv>``.
        """
        if self.metavar is None or not self.metavar.startswith("<"):
            return []
        return self.metavar.strip("<>").split("|")

    @property
    def label(self) -> str:
        """How help texts name an argument, such as ``RESULTS...``."""
        label = self.field.upper() if self.choices else str(self.metavar)
        return f"{label}..." if self.is_repeated else label

    @property
    def usage(self) -> str:
        """The label of an argument, in brackets if it may be left out."""
        return self.label if self.is_needed else f"[{self.label}]"

    def help_row(self) -> tuple[str, str]:
        """Return the two cells of a help text: the names, and what the option does."""
        if self.is_argument:
            return self.label, self.help

        names = ", ".join(self.names)
        # An optional value, as of `--resume[=force]`, follows the name without a space.
        name_cell = f"{names} {self.metavar or ''}".rstrip().replace(" [=", "[=")

        text, default_heading, described_default = self.help.partition("  [default")
        if self.is_needed:
            text += "  [required]"
        elif self.default is not None and not default_heading:
            text += f"  [default: {self.default}]"
        return name_cell, f"{text}{default_heading}{described_default}"


@cache
def options() -> dict[str, Option]:
    """Return all options of `TABLE` by key.

    A key is the name of the option's field, such as ``output``, or, if several commands have
    different options of this name, the name and the variant, such as ``output/page``.
    """
    option_by_key: dict[str, Option] = {}
    group = ""
    for block in _START_OF_ENTRY.split(TABLE):
        entry, *help_lines = [line.strip() for line in block.strip("\n").split("\n")]
        if help_lines:
            key, option = _read_entry(group, entry, help_lines)
            option_by_key[key] = option
        elif entry:
            # A line without indented lines below it begins a group.
            group = entry
    return option_by_key


def _read_entry(group: str, entry: str, help_lines: Sequence[str]) -> tuple[str, Option]:
    """Return the key of an option and the option.

    Args:
        group: the group of the option.
        entry: the first line of its entry in `TABLE`.
        help_lines: the other lines.
    """
    match = _ENTRY.fullmatch(entry)
    assert match is not None, entry  # noqa: S101  (the table is above)
    names = match["names"].split(", ")
    field = names[-1].strip("-").replace("-", "_")
    key = field if match["variant"] is None else f"{field}/{match['variant']}"
    if iskeyword(field):
        # Such as `from`, which cannot be the name of an attribute.
        field += "_"

    is_needed = match["mark"] == "!"
    if group == ARGUMENTS:
        is_needed = match["mark"] != "?"

    # Two spaces set a default apart, also where it begins a line of the table.
    help_text = " ".join(help_lines).replace("  [default", " [default")
    help_text = help_text.replace(" [default", "  [default")
    option = Option(
        group=group,
        names=tuple(names),
        field=field,
        metavar=match["metavar"],
        is_repeated=match["repeated"] is not None,
        is_needed=is_needed,
        default=match["default"],
        parser=match["parser"],
        help=help_text,
    )
    return key, option
