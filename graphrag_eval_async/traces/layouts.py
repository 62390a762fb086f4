"""Reads a history by its layout: where messages, roles, texts, calls and results stand in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from graphrag_eval_async.traces.plain import json_of, open_history, text_of
from graphrag_eval_async.traces.trace import Call, find_unanswered, make_call
from graphrag_eval_async.traces.unread import check_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
    "OUTCOME_FAILED",
    "OUTCOME_DEADLINE_EXCEEDED",
}
"""Values of a status by which formats say that a call failed."""

_RETURNED_WORDS = {"output-available", "output-error", "output-denied"}
"""Values of a status by which formats say that a tool has returned, even if it returned nothing."""

_USER_ROLES = frozenset({"user", "human"})
"""Roles of messages of the user, in most formats."""

_ASSISTANT_ROLES = {"assistant", "model", "ai"}
"""Roles of messages of the agent."""

_NO_OUTPUT: tuple[Any, ...] = (None, "", [], {})
"""Outputs that say nothing, so that the description of a failure is taken in their place."""

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
        """The keys that an object of this shape must have at its top level."""
        paths = (*self.needs, *self.texts, *self.when)
        first_keys = [_split_path(path)[0] for path in paths]
        return frozenset(key for key in first_keys if not _is_index(key))

    @cached_property
    def keys_at_all_levels(self) -> frozenset[str]:
        """The keys that an object of this shape must have, in itself or in an object in it."""
        keys: list[str] = []
        for path in (*self.needs, *self.texts, *self.when):
            keys += _split_path(path)
        return frozenset(key for key in keys if not _is_index(key))

    def fits(self, value: Any) -> bool:
        """Return whether a value is an object or list of this shape."""
        if isinstance(value, dict):
            # This check is quick, and excludes most objects.
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
        for path, pattern in self.when.items():
            if not fnmatchcase(str(value_at(value, path)), pattern):
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class CallShape(Shape):
    """Where a call, its result, or both stand in an object of that shape.

    Attributes:
        name: paths to the name of the tool.
        name_prefix: text before the name, such as the ``tool-`` of ``tool-search``.
        fixed_name: name of the tool if all objects of this shape are of one tool, and do not name
            it; else empty.
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
    fixed_name: str = ""
    args: Paths = ()
    id: Paths = ()
    output: Paths = ()
    output_wrappers: Paths = ()
    status: Paths = ()
    error: Paths = ()

    def read_call(self, value: Any) -> Call:
        """Return the call in an object of this shape, with its result if the object has that, too.

        If the object has only a result, the `args` of the call are None.
        """
        name = self.fixed_name or first_at(value, self.name)
        if isinstance(name, str):
            name = name.removeprefix(self.name_prefix)

        args = first_at(value, self.args)
        if self.args and args is None:
            args = {}  # With None, the call would be a result alone.

        call = make_call(name, first_at(value, self.id), args)
        if self._has_result(value):
            error = first_at(value, self.error)
            output = self._read_output(value)
            if error and output in _NO_OUTPUT:
                # The description of the failure is what the tool returned.
                output = text_of(_message_of_error(error))
            call.set_result(output, self._read_failure(value, error))
        return call

    def _has_result(self, value: Any) -> bool:
        """Return whether an object of this shape has the result of its call."""
        is_shape_of_results = not self.args
        if is_shape_of_results:
            return True  # Objects without a place for arguments have nothing but a result.
        status = first_at(value, self.status)
        if isinstance(status, str) and status in _RETURNED_WORDS:
            return True
        return any(_has_path(value, path) for path in (*self.output, *self.error))

    def _read_output(self, value: Any) -> Any:
        """Return the output of the tool from an object of this shape.

        An object that only wraps the output is removed, and a list of blocks becomes their text.
        """
        output = first_at(value, self.output)
        if isinstance(output, dict) and len(output) == 1:
            [(key, wrapped_output)] = output.items()
            if key in self.output_wrappers:
                return wrapped_output
        return blocks_as_text(output, otherwise=output)

    def _read_failure(self, value: Any, error: Any) -> bool | None:
        """Return whether the call in an object of this shape failed; None if it does not say so.

        `error` is the description of the failure; None if the object has no description.
        """
        if error:
            return True
        status = first_at(value, self.status)
        if isinstance(status, bool):
            return status
        if isinstance(status, str):
            return status in _FAILURE_WORDS
        if any(_has_path(value, path) for path in self.error):
            return False  # The key of an error is there, but without an error.
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
    users: frozenset[str] = _USER_ROLES
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
        """The keys of the object that holds a history at which something is read."""
        paths = (*self.messages, *self.question, *self.answer)
        return [_first_key(path) for path in paths]

    def list_messages(self, history: Any) -> list[Any]:
        """Return the messages of a history, in order.

        The messages at all of the layout's paths to messages are returned. If there are none, the
        history is either one message, or has its messages where most formats have them.
        """
        messages: list[Any] = []
        for path in self.messages:
            part = value_at(history, path)
            if isinstance(part, list):
                messages += part
            elif isinstance(part, dict):
                messages.append(part)
        if messages:
            return messages
        is_one_message = bool(self.message.keys) and self.message.fits(history)
        if is_one_message:
            # Anything else in the object, such as the events of a run, is no message.
            return [history]
        return open_history(history).messages

    def list_blocks(self, message: Any) -> list[Any]:
        """Return the texts and objects that a message consists of.

        Only the first group of paths in `self.blocks` counts that leads to a value. All values at
        the paths of this group are read, and the items of lists are returned one by one.
        """
        for paths in self.blocks:
            values_at_paths = [value_at(message, path) for path in paths]
            present_values = [value for value in values_at_paths if value is not None]
            if present_values:
                blocks: list[Any] = []
                for value in present_values:
                    if isinstance(value, list):
                        blocks += value
                    else:
                        blocks.append(value)
                return blocks
        return []

    def find_call_shape(self, value: Any) -> CallShape | None:
        """Return the shape of the call or result in a message or block; None if it has neither."""
        for shape in self.calls:
            if shape.fits(value):
                return shape
        return None

    @cached_property
    def required_keys(self) -> list[frozenset[str]]:
        """Sets of keys: a history of this layout has all keys of at least one set, at any level."""
        shared_keys = self.message.keys_at_all_levels
        if self.holder is not None:
            shared_keys |= self.holder.keys_at_all_levels
        shapes = (*self.calls, *self.marks, *self.block_marks)
        return [shared_keys | shape.keys_at_all_levels for shape in shapes]

    def fits(self, history: Any) -> bool:
        """Return whether a history has this layout.

        The object that holds the history must have the shape `self.holder`, if there is one. At
        least one message must have a shape that only this layout has.
        """
        if self.holder is not None and not self.holder.fits(history):
            return False
        return any(self.fits_message(message) for message in self.list_messages(history))

    def fits_message(self, message: Any) -> bool:
        """Return whether a message, or one of its blocks, has a shape that only this layout has."""
        if not self.message.fits(message):
            return False
        if any(shape.fits(message) for shape in (*self.calls, *self.marks)):
            return True
        return self.fits_blocks(message)

    def fits_blocks(self, message: Any) -> bool:
        """Return whether one of a message's blocks has a shape that only this layout has."""
        for block in self.list_blocks(message):
            if any(shape.fits(block) for shape in (*self.calls, *self.block_marks)):
                return True
        return False

    def read(self, history: Any, trace: Trace) -> None:
        """Add the question, calls, results and answer of a history of this layout to a trace.

        Raises:
            TraceError: something in the history looks like a call, but has no shape of this layout.
        """
        prepared = history
        if self.prepare is not None:
            prepared = self.prepare(history)

        question = first_at(prepared, self.question)
        if isinstance(question, str):
            trace.start_turn(question)
        for number, message in enumerate(self.list_messages(prepared), start=1):
            self.read_message(message, trace, place=f"message {number}")
        answer = first_at(prepared, self.answer)
        if isinstance(answer, str) and answer:
            trace.answer = answer

    def read_message(self, message: Any, trace: Trace, *, place: str = "a message") -> None:
        """Add the calls, results, tokens and text of one message to a trace.

        Args:
            message: the message.
            trace: the trace.
            place: which message it is, for errors, such as "message 3".

        Raises:
            TraceError: something in the message looks like a call, but has no shape of this layout.
        """
        if not isinstance(message, dict | list):
            trace.add_problem(f"a message that is no object: {json_of(message)}")
            return
        trace.add_token_usage(first_at(message, self.usage))

        # In some layouts, a message is itself a call or a result.
        call_shape = self.find_call_shape(message)
        if call_shape is not None:
            _add_call(call_shape.read_call(message), trace)
            return

        # In others, calls, results and texts are blocks of the message.
        self._check_for_unread_call(message, place)
        calls: list[Call] = []
        texts: list[str] = []
        for block in self.list_blocks(message):
            call_shape = self.find_call_shape(block)
            if call_shape is not None:
                calls.append(call_shape.read_call(block))
                texts.clear()  # What comes before a call is not the answer.
            elif isinstance(block, str):
                texts.append(block)
            elif self.text_shape.fits(block):
                texts.append(text_of(value_at(block, self.text)))
            else:
                self._check_for_unread_call(block, place)
        for call in calls:
            _add_call(call, trace)
        text = "\n".join(text for text in texts if text)
        self._add_text(text, message, calls, trace)

    def _add_text(self, text: str, message: Any, calls: list[Call], trace: Trace) -> None:
        """Add the text of a message to a trace: as the question or the answer, by the role.

        - The text of a user is the question, unless the message has `calls`, which are results.
        - The text of an agent is the answer, unless one of the `calls` waits for its result.
        - The text of any other role is ignored.
        """
        role = first_at(message, self.role)
        if not isinstance(role, str):
            role = self.default_role

        if role in self.users:
            # A message with results is not from the user, although some formats say so.
            if not calls:
                trace.start_turn(text)
            return

        is_of_agent = self.has_agents or role in _ASSISTANT_ROLES
        is_waiting = bool(find_unanswered(calls))
        if text and is_of_agent and not is_waiting:
            trace.answer = text

    def _check_for_unread_call(self, value: Any, place: str) -> None:
        """Check that a message or block has no call or result that this layout cannot read.

        Args:
            value: the message or block.
            place: which message it is, for the error.

        Raises:
            TraceError: the message or block has such a call or result.
        """
        if not isinstance(value, dict):
            return
        # Keys that are read, or are not needed, may look like calls.
        known_keys = set(self.ignored)
        for paths in self.blocks:
            known_keys.update(_first_key(path) for path in paths)
        check_keys(value, known_keys, place=place, looked_for=f"the format {self.name}")


def first_at(value: Any, paths: Iterable[str]) -> Any:
    """Return the value at the first path in `paths` that leads to one; None if no path does."""
    for path in paths:
        inner_value = value_at(value, path)
        if inner_value is not None:
            return inner_value
    return None


def value_at(value: Any, path: str) -> Any:
    """Return what is inside `value` at the end of a path of keys and indices.

    The index -1 means the last item of a list. None if nothing is at the end of the path.
    """
    current = value
    for key in _split_path(path):
        if isinstance(current, dict):
            current = current.get(key)
        elif isinstance(current, list) and key == "-1" and current:
            current = current[-1]
        elif isinstance(current, list) and key.isdecimal() and int(key) < len(current):
            current = current[int(key)]
        else:
            return None
    return current


@cache  # Paths are those in the table of layouts, so there are few.
def _split_path(path: str) -> tuple[str, ...]:
    """Return the keys and indices of a path, as text."""
    return tuple(path.split("."))


def _first_key(path: str) -> str:
    """Return the first key or index of a path."""
    return _split_path(path)[0]


def _is_index(key: str) -> bool:
    """Return whether a part of a path is an index of a list, other than -1."""
    return key.isdecimal()


def _has_path(value: Any, path: str) -> bool:
    """Return whether a path leads to a key inside `value`, even if None is stored at the key.

    If the path ends with the index of a list, something else than None must be there.
    """
    path_to_holder, _, last_key = path.rpartition(".")
    holder = value
    if path_to_holder:
        holder = value_at(value, path_to_holder)
    if isinstance(holder, list):
        return value_at(holder, last_key) is not None
    return isinstance(holder, dict) and last_key in holder


def _message_of_error(error: Any) -> Any:
    """Return the ``message`` of an error that is an object; return any other error unchanged."""
    if isinstance(error, dict) and error.get("message"):
        return error["message"]
    return error


def blocks_as_text(output: Any, *, otherwise: Any) -> Any:
    """Return the text of an output that is a list of blocks of text or JSON, joined by newlines.

    Blocks are objects such as ``{"text": "..."}`` or, from Bedrock, ``{"json": ...}``.

    Args:
        output: the output of a tool.
        otherwise: what to return if the output is no such list.
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
    """Add a call, its result, or both to a trace.

    If a call with the same id waits for its result in the trace, only the result is added, and the
    arguments of `call` are removed.
    """
    is_waiting_in_trace = call.id is not None and trace.first_waiting_call(call.id) is not None
    if call.has_result and is_waiting_in_trace:
        call.args = None  # Without arguments, it is a result alone.
    trace.add_part(call)
