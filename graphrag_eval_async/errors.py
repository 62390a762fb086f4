"""The exceptions of the package, and words for what is wrong."""

from __future__ import annotations

import sys
from importlib import import_module
from math import isfinite
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, Literal, get_args
from warnings import warn

from graphrag_eval_async.unicode import in_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphrag_eval_async.records.reject import Reject
    from graphrag_eval_async.records.token_usage import TokenUsage

Failure = Literal[
    "timeout",
    "rate_limited",
    "refused",
    "invalid_request",
    "invalid_reply",
    "budget",
    "unavailable",
]
"""The kinds of judging failures; the text of each ``*_error`` begins with one."""

FAILURES = get_args(Failure)

MAX_MESSAGE = 2000
"""Characters of a judge's error that are kept: a reply can be wrong in thousands of places."""

MAX_LISTED_PROBLEMS = 20
"""Problems of a reference set that the message of an error lists."""


class GraphragEvalError(Exception):
    """Base of every error that this package raises on purpose. Can be pickled, with all
    attributes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), str(self), self.__dict__)


def _restore(
    kind: type[GraphragEvalError], message: str, attributes: dict[str, Any]
) -> GraphragEvalError:
    """Return an error that was pickled, without a call of `__init__`.

    `__init__` may take other arguments than the message.

    Args:
        kind: class of the error.
        message: its message.
        attributes: its attributes by name.
    """
    error = kind.__new__(kind, message)
    error.__dict__.update(attributes)
    return error


class GraphragEvalWarning(UserWarning):
    """Something is probably a mistake; the message says what, where, and what to do."""


class UsageError(GraphragEvalError, ValueError):
    """An argument has an invalid value; the message names it and says what is allowed."""


class ConfigError(GraphragEvalError, ValueError):
    """A configuration is invalid.

    `problems` lists what was found, each beginning with its key, such as ``llm.limits.max_attempts:
    ...``; `source` is the path it was read from, if any.
    """

    def __init__(self, problems: Sequence[str], source: str | None = None) -> None:
        self.problems = list(problems)
        self.source = source
        heading = f"configuration {source}:" if source else "configuration:"
        super().__init__("\n  ".join([heading, *self.problems]))


class ReferenceDataError(GraphragEvalError):
    """A reference set is invalid. The message lists the first problems.

    Attributes:
        problems: each problem with its place, such as ``templates[3].questions[0].id: ...``, and
            its line; equal ones together.
        source: the path from which the set was read; None if it is from no file.
        doubts: probable mistakes that were found beside the problems, in the same form.
    """

    def __init__(
        self, problems: Sequence[str], source: str | None = None, doubts: Sequence[str] = ()
    ) -> None:
        self.problems = list(problems)
        self.source = source
        self.doubts = list(doubts)
        super().__init__("\n  ".join([self.headline, *self.first_problems]))

    @property
    def headline(self) -> str:
        """How many problems there are, and in which file."""
        headline = f"reference set: {plural(len(self.problems), 'problem')}"
        if self.source:
            headline += f" in {self.source}"
        return headline

    @property
    def first_problems(self) -> list[str]:
        """The first `MAX_LISTED_PROBLEMS` problems, and how many others there are."""
        unlisted = len(self.problems) - MAX_LISTED_PROBLEMS
        if unlisted <= 0:
            return self.problems
        rest = f"... and {unlisted} more; `graphrag-eval-async validate` lists all"
        return [*self.problems[:MAX_LISTED_PROBLEMS], rest]


class SourceError(GraphragEvalError):
    """Responses or results cannot be read."""


class WorkerError(GraphragEvalError):
    """A worker process died or failed unexpectedly.

    The message names the file and the range of its bytes that the process had; results before it
    are whole.
    """


class TraceError(GraphragEvalError, ValueError):
    """A history has no known format; the message says what it has instead."""


class JournalError(GraphragEvalError):
    """A journal cannot be read or written; what is in it stays valid. The message names the
    file.
    """


class JournalLocked(JournalError):  # noqa: N818
    """Another process, or another stream of this one, writes to the journal."""


class JournalMismatch(JournalError):  # noqa: N818
    """The journal is of another reference set, configuration or version.

    `differences` names what is different.
    """

    def __init__(self, message: str, differences: Sequence[str] = ()) -> None:
        self.differences = tuple(differences)
        super().__init__(message)


class RejectedResponse(GraphragEvalError):  # noqa: N818  (a verdict on the input, not on the program)
    """A response cannot be evaluated; `reject` says where it is and why."""

    def __init__(self, reject: Reject) -> None:
        self.reject = reject
        super().__init__(str(reject))


class RejectedResponses(GraphragEvalError):  # noqa: N818
    """Responses of a finished set could not be evaluated; `rejects` holds those kept, `total`
    counts all.
    """

    def __init__(self, rejects: Sequence[Reject], total: int) -> None:
        self.rejects = list(rejects)
        self.total = total
        lines = [f"{plural(total, 'response')} could not be evaluated"]
        lines += [str(reject) for reject in self.rejects]
        unlisted = total - len(self.rejects)
        if unlisted > 0:
            lines.append(f"... and {unlisted} more")
        super().__init__("\n  ".join(lines))


class MissingResponses(GraphragEvalError):  # noqa: N818
    """Questions of the reference set have no response; `question_ids` names them all."""

    def __init__(self, question_ids: Sequence[str]) -> None:
        self.question_ids = list(question_ids)
        count = f"{plural(len(self.question_ids), 'question')} without a response"
        ids_in_words = ", ".join(self.question_ids)
        super().__init__(f'{count} (missing="skip" leaves them out): {ids_in_words}')


class AggregationError(GraphragEvalError):
    """A result or a serialised state cannot be aggregated; the message names the key and the
    question.
    """


class JudgeError(GraphragEvalError):
    """A call of a judge failed; your own `Judge` raises it to say how.

    Attributes:
        message: what happened, in words.
        kind: kind of failure. Calls that fail with "timeout", "rate_limited" or "unavailable" are
            retried. A call that fails with "invalid_reply" is repeated once, with `reply`, if there
            is one, and this error's text. Other calls fail at once.
        retry_after: seconds that the server asks to wait; None if it does not say. If
            "rate_limited", all callers wait, otherwise only this one.
        reply: the text of a reply that could not be used, if there was one.
        usage: the tokens that the failed call used, if known.
        final: whether another try would end in the same way, whatever the kind.
    """

    def __init__(
        self,
        kind: Failure,
        message: str,
        *,
        retry_after: float | None = None,
        reply: str | None = None,
        usage: TokenUsage | None = None,
        final: bool = False,
    ) -> None:
        """Say what happened; an argument with an invalid value raises `UsageError`."""
        if kind not in FAILURES:
            raise UsageError(f"kind: expected one of {', '.join(FAILURES)}, got {kind!r}")
        if not isinstance(retry_after, float | int | None) or not isfinite(retry_after or 0.0):
            raise UsageError(f"retry_after: expected a number of seconds, got {retry_after!r}")
        if not isinstance(reply, str | None):
            raise UsageError(f"reply: expected a text, got {reply!r}")
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE - 3]}..."
        self.kind: Failure = kind
        self.message = in_utf8(message)
        self.retry_after = retry_after
        self.reply = reply
        self.usage = usage
        self.final = final
        super().__init__(f"{kind}: {self.message}")


class JudgeUnavailable(JudgeError):  # noqa: N818
    """The judge cannot answer any call: wrong key, unknown model, or no quota."""

    def __init__(self, message: str) -> None:
        super().__init__("unavailable", message, final=True)


class ExecutionUnavailable(GraphragEvalError):  # noqa: N818
    """No query can be run: the endpoint does not answer, or the graph cannot be read.

    The message names the key and the address, without secrets.
    """


class MalformedStep(GraphragEvalError):  # noqa: N818
    """A step cannot be compared; each of `problems` begins with its place, such as ``args.limit:
    ...``.
    """

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class ComparatorError(GraphragEvalError):
    """Your comparator raised, or did not return a number from 0 to 1."""


class ComparisonBudgetExceeded(GraphragEvalError):  # noqa: N818
    """Comparing the steps of a response took more than its fixed budget."""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 question" or "2 questions"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def warn_caller(text: str) -> None:
    """Warn with a `GraphragEvalWarning`, for the innermost line that is not of this package."""
    this_package = _package_of(__name__)
    frame = sys._getframe(1)
    # For `warn`, level 1 is this function, and level 2 is its caller.
    level = 2
    while _package_of(frame.f_globals.get("__name__", "")) == this_package:
        if frame.f_back is None:
            break
        frame = frame.f_back
        level += 1
    warn(text, GraphragEvalWarning, stacklevel=level)


def _package_of(module: str) -> str:
    """Return the top-level package of a module, by name."""
    return module.partition(".")[0]


def describe_exception(error: BaseException) -> str:
    """Return the type and the text of an exception of other code, even if getting its text fails.

    The name of the type is without its module.
    """
    text = "".join(format_exception_only(error)).strip()
    return text.removeprefix(f"{type(error).__module__}.")


def describe(value: object) -> str:
    """Return a value in a few words, of whatever type it is, for an error message."""
    if isinstance(value, str):
        return repr(value[:200])
    # Python refuses to print an integer of thousands of digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, int | float | None):
        return repr(value)
    return type(value).__name__


def check_integer(name: str, value: object, least: int = 1) -> None:
    """Check that the option `name` is an integer of `least` or more.

    Raises:
        UsageError: it is not.
    """
    # In Python, a bool is an int, too.
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name}: expected an integer of {least} or more, got {describe(value)}")


def check_boolean(name: str, value: object) -> None:
    """Check that the option `name` is a boolean.

    Raises:
        UsageError: it is not.
    """
    if not isinstance(value, bool):
        raise UsageError(f"{name}: expected a boolean, got {describe(value)}")


def needs(extra: str) -> str:
    """Return the end of a message that says how to install an extra of this package.

    The package is not on the package index, so it is installed from the checkout.
    """
    return f"needs the extra {extra}; in the checkout, run pip install '.[{extra}]'"


def check_extra(what: str, extra: str, *modules: str) -> None:
    """Check that an extra of this package is installed, by importing the modules that it brings.

    Args:
        what: what needs the extra; the message of the error begins with it.
        extra: name of the extra.
        *modules: modules of the packages that the extra installs.

    Raises:
        UsageError: a module cannot be imported.
    """
    for module in modules:
        try:
            import_module(module)
        except ImportError:
            raise UsageError(f"{what} {needs(extra)}") from None
