"""Reads a history by its layout: where messages, roles, texts, calls and results stand in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.plain import json_of, opened, text_of
from graphrag_eval_async.traces.trace import Call, call_of
from graphrag_eval_async.traces.unread import check_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphrag_eval_async.traces.trace import Trace

_FAILURE_WORDS = {
    "error",
    "ERROR",
    "failed",
    "denied",
    "output-error",
    "output-denied",
    "error-text",
    "error-json",
    "execution-denied",
}
"""Values of a status by which formats say that a call failed."""

_RETURNED_WORDS = {"output-available", "output-error", "output-denied"}
"""Values of a status by which formats say that a tool has returned, even if it returned nothing."""

_USERS = {"user", "human"}
_ASSISTANTS = {"assistant", "model", "ai"}

Paths = tuple[str, ...]
"""Paths of keys and indices, such as ``result.content`` or ``messages.-1`` for the last message.

The first that leads to a value counts.
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What an object must have so that a row of the table applies to it.

    Attributes:
        needs: paths that must all lead to a value.
        texts: paths that must all lead to text.
        when: pattern of the text at a path, such as ``tool-*`` at ``type``.
        lacks: keys that must not have a value.
    """

    needs: Paths = ()
    texts: Paths = ()
    when: Mapping[str, str] = field(default_factory=dict)
    lacks: Paths = ()

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys that an object of this shape has."""
        first_keys = {_keys_of(path)[0] for path in (*self.needs, *self.texts, *self.when)}
        return frozenset(key for key in first_keys if not key.isdecimal())

    @cached_property
    def keys_at_all_levels(self) -> frozenset[str]:
        """The keys that an object of this shape and the objects in it have."""
        paths = (*self.needs, *self.texts, *self.when)
        keys = (key for path in paths for key in _keys_of(path))
        return frozenset(key for key in keys if not key.isdecimal())

    def fits(self, value: Any) -> bool:
        """Return whether an object has this shape."""
        if isinstance(value, dict):
            if not self.keys <= value.keys():
                return False
        elif not isinstance(value, list):
            return False
        if any(value_at(value, path) is None for path in self.needs):
            return False
        if not all(isinstance(value_at(value, path), str) for path in self.texts):
            return False
        if any(value_at(value, key) is not None for key in self.lacks):
            return False
        return all(
            fnmatchcase(str(value_at(value, path)), pattern) for path, pattern in self.when.items()
        )


@dataclass(frozen=True, kw_only=True)
class CallShape(Shape):
    """Where a call, its result, or both stand in an object of that shape.

    Attributes:
        name: paths to the name of the tool.
        name_prefix: text before the name, such as the ``tool-`` of ``tool-search``.
        args: paths to the arguments; none if the object is a result alone.
        id: paths to the id by which calls and results are paired.
        output: paths to what the tool returned. If the last key of one is there, even without a
            value, or there are no arguments, the object tells the result.
        output_wrappers: keys that frameworks wrap an output in: of an object that has one of them
            and no other key, the value there is the output.
        status: paths to a boolean or word that says whether the call failed.
        error: paths to a description of a failure: the call failed if there is one. It is the
            output of a call that has no other.
    """

    name: Paths = ()
    name_prefix: str = ""
    args: Paths = ()
    id: Paths = ()
    output: Paths = ()
    output_wrappers: Paths = ()
    status: Paths = ()
    error: Paths = ()

    def call_in(self, value: Any) -> Call:
        """Return the call, with its result if the object tells it; `args` is None without one."""
        name = first_at(value, self.name)
        if isinstance(name, str):
            name = name.removeprefix(self.name_prefix)

        args = first_at(value, self.args)
        if self.args and args is None:
            args = {}

        call = call_of(name, first_at(value, self.id), args)
        if self._has_result(value):
            error = first_at(value, self.error)
            output = self._output_in(value)
            if error and output in (None, "", [], {}):
                output = text_of(_message_of(error))
            call.end(output, self._failure_in(value, error))
        return call

    def _has_result(self, value: Any) -> bool:
        """Return whether an object tells the result of the call."""
        if not self.args:
            return True
        status = first_at(value, self.status)
        if isinstance(status, str) and status in _RETURNED_WORDS:
            return True
        return any(_has_path(value, path) for path in (*self.output, *self.error))

    def _output_in(self, value: Any) -> Any:
        """Return what the tool returned, without a wrapper, and blocks of text as one text."""
        output = first_at(value, self.output)
        if isinstance(output, dict) and len(output) == 1:
            [(key, inner)] = output.items()
            if key in self.output_wrappers:
                return inner
        return blocks_as_text(output, otherwise=output)

    def _failure_in(self, value: Any, error: Any) -> bool | None:
        """Return whether the call failed; None if the object does not say."""
        if error:
            return True
        status = first_at(value, self.status)
        if isinstance(status, bool):
            return status
        if isinstance(status, str):
            return status in _FAILURE_WORDS
        if any(_has_path(value, path) for path in self.error):
            return False
        return None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One row of the table: how histories of a framework are laid out.

    Attributes:
        name: name of the format.
        prepare: turns a history into the object that the other paths lead into; raises a
            `TraceError` if its calls and results cannot be paired.
        holder: shape of the object that holds the history; none if it may be a list.
        message: shape that all messages have.
        calls: shapes of calls and results: of a message, or of a block of one.
        marks: shapes of messages without calls that only this format has.
        block_marks: shapes of blocks, other than calls, that only this format has.
        messages: paths to the messages, in their order. Without them, or if none leads anywhere,
            the messages are the history itself, or where most formats have them.
        role: paths to the role in a message.
        default_role: role of a message that has none.
        users: roles of the user, if they are not the usual ones.
        has_agents: whether any other role is an agent's, whose name it is.
        blocks: groups of paths to the text and blocks of a message. The first group of which a path
            leads to a value counts, and all of its paths are read.
        text: shape of a block that is text, and the path to it.
        question: paths to the question in the object that holds the history.
        answer: paths to the answer there.
        usage: paths to the tokens that a message took.
        ignored: keys that look like calls but are not needed.
    """

    name: str
    prepare: Callable[[Any], Any] | None = None
    holder: Shape | None = None
    message: Shape = Shape()
    calls: tuple[CallShape, ...] = ()
    marks: tuple[Shape, ...] = ()
    block_marks: tuple[Shape, ...] = ()
    messages: Paths = ()
    role: Paths = ("role",)
    default_role: str = ""
    users: frozenset[str] = frozenset(_USERS)
    has_agents: bool = False
    blocks: tuple[Paths, ...] = (("content",),)
    text: str = "text"
    text_shape: Shape = Shape(needs=("text",))
    question: Paths = ()
    answer: Paths = ()
    usage: Paths = ()
    ignored: Paths = ()

    @property
    def holder_keys(self) -> list[str]:
        """The keys that are read in an object that holds a history."""
        return [path.partition(".")[0] for path in (*self.messages, *self.question, *self.answer)]

    def messages_of(self, value: Any) -> list[Any]:
        """Return the messages of a history."""
        messages: list[Any] = []
        for path in self.messages:
            part = value_at(value, path)
            if isinstance(part, list):
                messages += part
            elif isinstance(part, dict):
                messages.append(part)
        return messages or opened(value)[0]

    def blocks_of(self, message: Any) -> list[Any]:
        """Return the texts and objects that a message consists of."""
        for paths in self.blocks:
            values = [value_at(message, path) for path in paths]
            if any(value is not None for value in values):
                return [block for value in values for block in _as_list(value)]
        return []

    def call_shape_of(self, value: Any) -> CallShape | None:
        """Return the shape of call or result that an object has; None if it has none."""
        for shape in self.calls:
            if shape.fits(value):
                return shape
        return None

    @cached_property
    def signs(self) -> list[frozenset[str]]:
        """Sets of keys, of which a history of this layout has at least one set."""
        shared_keys = self.message.keys_at_all_levels
        if self.holder is not None:
            shared_keys |= self.holder.keys_at_all_levels
        shapes = (*self.calls, *self.marks, *self.block_marks)
        return [shared_keys | shape.keys_at_all_levels for shape in shapes]

    def fits(self, value: Any) -> bool:
        """Return whether a history, or any message of it, is laid out like this."""
        if self.holder is not None and not self.holder.fits(value):
            return False
        return any(self.fits_message(message) for message in self.messages_of(value))

    def fits_message(self, message: Any) -> bool:
        """Return whether a message, or any block of it, has a shape of this layout."""
        if not self.message.fits(message):
            return False
        if any(shape.fits(message) for shape in (*self.calls, *self.marks)):
            return True
        return self.fits_blocks(message)

    def fits_blocks(self, message: Any) -> bool:
        """Return whether any block of a message has a shape that only this layout has."""
        shapes = (*self.calls, *self.block_marks)
        return any(shape.fits(block) for block in self.blocks_of(message) for shape in shapes)

    def read(self, value: Any, trace: Trace) -> None:
        """Add everything that a history says to a trace.

        Raises:
            TraceError: it has something that looks like a call, but is none of this layout.
        """
        if self.prepare is not None:
            value = self.prepare(value)
        question = first_at(value, self.question)
        if isinstance(question, str):
            trace.ask(question)
        for number, message in enumerate(self.messages_of(value), start=1):
            self.read_message(message, trace, place=f"message {number}")
        answer = first_at(value, self.answer)
        if isinstance(answer, str) and answer:
            trace.answer = answer

    def read_message(self, message: Any, trace: Trace, *, place: str = "a message") -> None:
        """Add the calls, results and text of one message to a trace."""
        if not isinstance(message, dict | list):
            trace.problem(f"a message that is no object: {json_of(message)}")
            return
        trace.use(first_at(message, self.usage))

        shape = self.call_shape_of(message)
        if shape is not None:
            _add_call(shape.call_in(message), trace)
            return

        self._check_is_read(message, place)
        calls: list[Call] = []
        texts: list[str] = []
        for block in self.blocks_of(message):
            shape = self.call_shape_of(block)
            if shape is not None:
                calls.append(shape.call_in(block))
                texts.clear()  # What comes before a call is not the answer.
            elif isinstance(block, str):
                texts.append(block)
            elif self.text_shape.fits(block):
                texts.append(text_of(value_at(block, self.text)))
            else:
                self._check_is_read(block, place)
        for call in calls:
            _add_call(call, trace)
        self._add_text("\n".join(filter(None, texts)), message, calls, trace)

    def _add_text(self, text: str, message: Any, calls: list[Call], trace: Trace) -> None:
        """Add the text that is left of a message: a question, or an answer."""
        role = first_at(message, self.role)
        if not isinstance(role, str):
            role = self.default_role
        is_waiting = any(not call.ended for call in calls)
        if role in self.users:
            # A message with results is not the user's, although some formats call it so.
            if not calls:
                trace.ask(text)
        elif text and not is_waiting and (role in _ASSISTANTS or self.has_agents):
            trace.answer = text

    def _check_is_read(self, value: Any, place: str) -> None:
        """Raise a `TraceError` if an object has a call or result that this layout does not know."""
        if isinstance(value, dict):
            first_keys = {path.partition(".")[0] for paths in self.blocks for path in paths}
            known = first_keys.union(self.ignored)
            check_keys(value, frozenset(known), place=place, looked_for=f"the format {self.name}")


def first_at(value: Any, paths: Iterable[str]) -> Any:
    """Return what the first path leads to that leads to a value; None if none does."""
    for path in paths:
        inner = value_at(value, path)
        if inner is not None:
            return inner
    return None


def value_at(value: Any, path: str) -> Any:
    """Return what a path of keys and indices leads to; None if it leads nowhere."""
    for key in _keys_of(path):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key == "-1" and value:
            value = value[-1]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


@cache
def _keys_of(path: str) -> tuple[str, ...]:
    """Return the keys of a path, which is one of those in the table."""
    return tuple(path.split("."))


def _has_path(value: Any, path: str) -> bool:
    """Return whether the last key of a path is there, even if it has no value."""
    above, _, key = path.rpartition(".")
    if above:
        value = value_at(value, above)
    if isinstance(value, list):
        return value_at(value, key) is not None
    return isinstance(value, dict) and key in value


def _as_list(value: Any) -> Iterator[Any]:
    """Yield the items of a list, or a single value; nothing for None."""
    if isinstance(value, list):
        yield from value
    elif value is not None:
        yield value


def _message_of(error: Any) -> Any:
    """Return the message of an error that is an object; any other error as it is."""
    if isinstance(error, dict) and error.get("message"):
        return error["message"]
    return error


def blocks_as_text(output: Any, *, otherwise: Any) -> Any:
    """Return an output of blocks as one text if all are texts or JSON, else another value.

    Bedrock has blocks such as ``{"text": "..."}`` and ``{"json": ...}``, without a type.
    """
    if not isinstance(output, list) or not output:
        return otherwise
    texts = []
    for block in output:
        if isinstance(block, dict) and block.keys() == {"json"}:
            texts.append(json_of(block["json"]))
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            texts.append(block["text"])
        else:
            return otherwise
    return "\n".join(texts)


def _add_call(call: Call, trace: Trace) -> None:
    """Add a call, a result, or both, which may repeat a call that is waiting for its result."""
    if call.ended and call.id is not None and trace.waiting(call.id) is not None:
        call.args = None  # The call is there already; this is its result alone.
    trace.part(call)
