"""Reads values as programs show them: Python's literals, the objects of Neo4j's driver, Cypher.

Examples are ``{'film': 'Playtime', 'seen': None}``, ``neo4j.time.Date(2020, 1, 1)``,
``<Node element_id='4:a:1' labels=frozenset({'Film'}) properties={'title': 'Playtime'}>`` and
``(:Film {title: "Playtime"})``. The time it takes grows with the length of the text alone.
"""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from typing import Any, NamedTuple

from graphrag_eval_async.errors import MalformedStep
from graphrag_eval_async.records.decoding import MAX_DEPTH
from graphrag_eval_async.steps.cypher.calls import Unknown, value_of_call
from graphrag_eval_async.steps.cypher.values import Node, Path, PathEnds, Relationship, Value

OBJECT_STARTS = ("<Node ", "<Relationship ", "<Path ", "<Record ")
"""How the objects of Neo4j's driver begin as text."""

MOST_CHARACTERS = 4 << 20
"""Most characters of a text that is read: this takes a second or two, and cannot be stopped."""

MOST_DIGITS = 4000
"""Most characters of a number: Python refuses to read longer ones."""

_WORDS = {
    "None": None,
    "null": None,
    "NULL": None,
    "True": True,
    "true": True,
    "TRUE": True,
    "False": False,
    "false": False,
    "FALSE": False,
    "nan": float("nan"),
    "NaN": float("nan"),
    "NaT": None,
    "inf": float("inf"),
    "Infinity": float("inf"),
}
"""Words that stand for a value in Python, JSON or Cypher."""

_space = re.compile(r"\s*")
_string = re.compile(r"""b?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""", re.DOTALL)
_moment = re.compile(r"-?\d{4,}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.]*(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
_number = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_dotted_name = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_name = re.compile(r"[^\W\d]\w*|`(?:[^`]|``)*`")
_name_before_colon = re.compile(r"\s*([^\W\d]\w*|`(?:[^`]|``)*`)\s*(?=:)")
_attribute = re.compile(r"\s*(\w+)=")
_object_start = re.compile(r"<(?:(?:Record|Node|Relationship|Path)(?=[ >]))?")
_labels_begin = re.compile(r"[(\[]\s*(?:[^\W\d]\w*\s*)?:")
"""How a node or a relationship begins in Cypher: a bracket, perhaps a variable, a colon."""

_record_key = re.compile(r"\s*+((?:[^=]|(?<=[ <>!])=|=(?= ))+)=")
"""The name of a field of a record, which may be an expression such as ``n.year >= 1950``."""

_escape = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|\r?\n|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "a": "\a", "v": "\v"}


class Record(NamedTuple):
    """A record of Neo4j's driver: its fields by name."""

    fields: dict[str, Value]


class Literal(NamedTuple):
    """A value that was read from a text, and the position after it."""

    value: Any
    end: int


def read_literal(text: str) -> Any:
    """Read a text that is one value from its beginning to its end.

    Returns:
        a value of Cypher, a `Record`, or a list that holds these. An unknown call, such as
        ``RetrieverResultItem(content='...')``, is a dict of its arguments by name.

    Raises:
        MalformedStep: the text is no such value, nests too deep, or is too long.
    """
    literal = read_literal_at(text, 0)
    rest = text[literal.end :].strip()
    if rest:
        raise MalformedStep(f"text follows a value: {rest[:20]!r}")
    return literal.value


def read_literal_at(text: str, start: int) -> Literal:
    """Read the value that begins at a position of a text; any text may follow it.

    Raises:
        MalformedStep: no value begins there, it nests too deep, or the text is too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise MalformedStep("values as programs show them, too long to be read; write JSON")
    parser = _Parser(text, start)
    try:
        value = parser.read_value()
    except RecursionError:
        # The caller may have used up most of Python's stack already.
        raise MalformedStep("nested too deep") from None
    if isinstance(value, Unknown):
        raise MalformedStep(f"no value of Cypher: {value.text[:40]}")
    return Literal(value, parser.position)


def read_attributes(text: str) -> dict[str, Any]:
    """Read the attributes of an object from a text such as ``meta=None content=[...]``.

    Pydantic shows models in this form.

    Raises:
        MalformedStep: the text has another form, nests too deep, or is too long.
    """
    if len(text) > MOST_CHARACTERS:
        raise MalformedStep("values as programs show them, too long to be read; write JSON")
    try:
        return _Parser(text, 0).read_attributes_to_end()
    except RecursionError:
        # The caller may have used up most of Python's stack already.
        raise MalformedStep("nested too deep") from None


class _Parser:
    """Reads one value after another from a text.

    Each method reads at `position`, and moves it behind what it has read. If the text is something
    else there, it raises `MalformedStep`.
    """

    def __init__(self, text: str, position: int) -> None:
        """Take a text, and the position at which reading begins."""
        self.position = position
        self._text = text
        self._depth = 0

    def read_value(self) -> Any:
        """Read the value at the position, and move the position behind it.

        An object in angle brackets that is not of Neo4j's driver is `Unknown`.

        Raises:
            MalformedStep: no value begins there, or it nests too deep.
        """
        self._enter()
        self._skip_space()
        start = self._text[self.position : self.position + 1]
        value: Any
        if start == "(" and self._begins(_labels_begin):
            value = self._read_pattern()
        elif start == "[" and self._begins(_labels_begin):
            value = self._read_relationship_in_brackets()
        elif start == "[":
            value = self._read_items("[", "]")
        elif start == "(":
            value = self._read_parentheses()
        elif start == "{":
            value = self._read_braces()
        elif start == "<":
            value = self._read_object()
        else:
            value = self._read_plain_value()
        self._leave()
        return value

    def _enter(self) -> None:
        """Count one more level of nesting.

        Raises:
            MalformedStep: there are more than `MAX_DEPTH` levels.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MalformedStep("nested too deep")

    def _leave(self) -> None:
        """Count one level of nesting less, at the end of a value."""
        self._depth -= 1

    def read_attributes_to_end(self) -> dict[str, Any]:
        """Read ``key=value`` pairs up to the end of the text, and return the values by key."""
        attributes: dict[str, Any] = {}
        self._skip_space()
        while self.position < len(self._text):
            self._read_attribute_into(attributes)
            self._skip_space()
        return attributes

    def _read_attribute_into(self, attributes: dict[str, Any]) -> None:
        """Read one ``key=value`` pair, and add it to `attributes`."""
        key = self._take(_attribute).strip().removesuffix("=")
        # An attribute counts as a level of its own: so many methods call each other here that
        # `MAX_DEPTH` objects inside each other would overflow Python's stack.
        self._enter()
        attributes[key] = self.read_value()
        self._leave()

    def _read_plain_value(self) -> Any:
        """Read text in quotes, a number, a date without quotes, a word, or a call."""
        if self._begins(_string):
            quoted = self._take(_string)
            text = _unquoted(quoted.removeprefix("b"))
            is_bytes = quoted.startswith("b")
            if is_bytes:
                return base64_text(text)
            return text
        # A date begins with digits, so it must be tried before numbers.
        if self._begins(_moment):
            return self._take(_moment)
        if self._begins(_number):
            return _number_of(self._take(_number))
        if self._text.startswith("-inf", self.position):
            self.position += len("-inf")
            return float("-inf")
        name = self._take(_dotted_name)
        if self._accept("("):
            return self._read_call(name)
        if name in _WORDS:
            return _WORDS[name]
        if name.endswith("timezone.utc"):
            # Python shows this time zone without a call.
            return value_of_call(name, [], {})
        raise MalformedStep(f"no value: {name[:20]!r}")

    def _read_call(self, name: str) -> Any:
        """Read the arguments of a call up to its closing bracket, and return the value of the call.

        The name and the opening bracket were read before.
        """
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        while not self._accept(")"):
            if self._begins(_attribute):
                self._read_attribute_into(keywords)
            else:
                arguments.append(self.read_value())
            self._accept(",")
        return value_of_call(name, arguments, keywords)

    def _read_items(self, opening: str, closing: str) -> list[Any]:
        """Read values in brackets, with commas in between and perhaps at the end."""
        self._expect(opening)
        items: list[Any] = []
        while not self._accept(closing):
            items.append(self.read_value())
            if not self._accept(","):
                self._expect(closing)
                break
        return items

    def _read_parentheses(self) -> Any:
        """Read a tuple of Python as a list, or a node of Cypher that has no label.

        ``({...})`` is a node with properties, and perhaps the beginning of a path. A tuple of one
        map differs from it by its comma: ``({...},)``.
        """
        self._expect("(")
        items: list[Any] = []
        has_comma = False
        while not self._accept(")"):
            items.append(self.read_value())
            if self._accept(","):
                has_comma = True
            else:
                self._expect(")")
                break
        if len(items) == 1 and isinstance(items[0], dict) and not has_comma:
            return self._read_rest_of_path(Node(frozenset(), items[0]))
        return items

    def _read_braces(self) -> Any:
        """Read a map, whose keys may lack quotes, or a set of Python, which becomes a list."""
        self._expect("{")
        entries: dict[str, Any] = {}
        items: list[Any] = []
        while not self._accept("}"):
            # Only the colon shows that a value is a key.
            key_or_item = self._read_key()
            if self._accept(":"):
                entries[str(key_or_item)] = self.read_value()
            else:
                items.append(key_or_item)
            if not self._accept(","):
                self._expect("}")
                break
        if items:
            return items
        return entries

    def _read_key(self) -> Any:
        """Read a name without quotes that a colon follows, as text, or else any value."""
        name = _name_before_colon.match(self._text, self.position)
        if name is None:
            return self.read_value()
        self.position = name.end()
        return name[1].strip("`")

    def _read_object(self) -> Any:
        """Read an object of Neo4j's driver; any other object in angle brackets is `Unknown`."""
        start = self.position
        kind = self._take(_object_start)
        if kind == "<Record":
            return self._read_record()
        if kind == "<Node":
            return self._read_node_object()
        if kind == "<Relationship":
            return self._read_relationship_object()
        if kind == "<Path":
            return self._read_path_object()
        end = self._text.find(">", start)
        if end < 0:
            raise MalformedStep("an angle bracket is not closed")
        self.position = end + 1
        return Unknown(self._text[start : self.position])

    def _read_record(self) -> Record:
        """Read the fields of a record up to its closing angle bracket.

        Raises:
            MalformedStep: a field is no value of Cypher, or cannot be read.
        """
        fields: dict[str, Value] = {}
        while not self._accept(">"):
            name = self._take(_record_key).removesuffix("=").strip()
            value = self.read_value()
            if isinstance(value, Unknown):
                raise MalformedStep(f"no value of Cypher: {value.text[:40]}")
            fields[name] = value
        return Record(fields)

    def _read_attributes(self) -> dict[str, Any]:
        """Read ``key=value`` pairs up to the closing angle bracket of an object."""
        attributes: dict[str, Any] = {}
        while not self._accept(">"):
            self._read_attribute_into(attributes)
        return attributes

    def _read_node_object(self) -> Node:
        """Read the attributes of a node up to its closing angle bracket."""
        attributes = self._read_attributes()
        labels = frozenset(str(label) for label in attributes.get("labels") or ())
        # Drivers before version 5 write `id`.
        internal_id = attributes.get("element_id", attributes.get("id"))
        properties = _map(attributes.get("properties"))
        if internal_id is None:
            return Node(labels, properties)
        return Node(labels, properties, str(internal_id))

    def _read_relationship_object(self) -> Relationship:
        """Read the attributes of a relationship up to its closing angle bracket."""
        attributes = self._read_attributes()
        start: Node | None = None
        end: Node | None = None
        nodes: Any = attributes.get("nodes")
        if isinstance(nodes, list) and len(nodes) == 2:
            start = _known_node(nodes[0])
            end = _known_node(nodes[1])
        return Relationship(
            type=str(attributes.get("type")),
            properties=_map(attributes.get("properties")),
            start=start,
            end=end,
        )

    def _read_path_object(self) -> PathEnds:
        """Read the attributes of a path up to its closing angle bracket."""
        attributes = self._read_attributes()
        start = attributes.get("start")
        end = attributes.get("end")
        length = attributes.get("size")
        if not (isinstance(start, Node) and isinstance(end, Node) and isinstance(length, int)):
            raise MalformedStep("a path without start, end and size")
        return PathEnds(start, end, length)

    def _read_pattern(self) -> Node | Path:
        """Read a node in Cypher's notation, or the path that begins with it."""
        return self._read_rest_of_path(self._read_node_in_brackets())

    def _read_node_in_brackets(self) -> Node:
        """Read a node such as ``(:Film {title: "Playtime"})``."""
        self._expect("(")
        labels, properties = self._read_labels_and_properties()
        self._expect(")")
        return Node(frozenset(labels), properties)

    def _read_rest_of_path(self, first: Node) -> Node | Path:
        """Read the relationships and nodes that follow a node, and return the whole path.

        If no relationship follows, return the node.
        """
        nodes = [first]
        relationships: list[Relationship] = []
        while self._peek("-[") or self._peek("<-["):
            # Read one arrow and the node behind it.
            is_backward = self._accept("<")
            self._expect("-")
            arrow = self._read_relationship_in_brackets()
            self._expect("-")
            self._accept(">")
            before = nodes[-1]
            after = self._read_node_in_brackets()

            start = before
            end = after
            if is_backward:
                start = after
                end = before
            relationships.append(Relationship(arrow.type, arrow.properties, start=start, end=end))
            nodes.append(after)
        if not relationships:
            return first
        return Path(tuple(nodes), tuple(relationships))

    def _read_relationship_in_brackets(self) -> Relationship:
        """Read a relationship such as ``[:DIRECTED {since: 1964}]``, without its nodes."""
        self._expect("[")
        types, properties = self._read_labels_and_properties()
        self._expect("]")
        if len(types) != 1:
            raise MalformedStep("a relationship without one type")
        return Relationship(types[0], properties)

    def _read_labels_and_properties(self) -> tuple[list[str], dict[str, Any]]:
        """Read the labels and properties of a node or relationship in Cypher's notation.

        The position is between its brackets. The type of a relationship is read as a label.
        """
        if self._begins(_name):
            # This is the variable, which is no part of the value.
            self._take(_name)
        labels = []
        while self._accept(":"):
            labels.append(self._take(_name).strip("`"))
        properties: Any = {}
        if self._peek("{"):
            # The map is a level of its own inside the node or relationship.
            self._enter()
            properties = self._read_braces()
            self._leave()
        return labels, _map(properties)

    def _skip_space(self) -> None:
        """Move the position behind white space."""
        match = _space.match(self._text, self.position)
        assert match is not None  # noqa: S101 - it also matches nothing
        self.position = match.end()

    def _begins(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a pattern matches at the position."""
        return pattern.match(self._text, self.position) is not None

    def _peek(self, text: str) -> bool:
        """Skip white space, and return whether a text follows."""
        self._skip_space()
        return self._text.startswith(text, self.position)

    def _accept(self, text: str) -> bool:
        """Skip white space, and a text if it follows; return whether it followed."""
        if not self._peek(text):
            return False
        self.position += len(text)
        return True

    def _expect(self, text: str) -> None:
        """Skip white space and a text.

        Raises:
            MalformedStep: the text does not follow.
        """
        if not self._accept(text):
            context = self._text[self.position : self.position + 20]
            raise MalformedStep(f"expected {text!r} before {context!r}")

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Return the text that a pattern matches at the position, and skip that text.

        Raises:
            MalformedStep: the pattern does not match there.
        """
        match = pattern.match(self._text, self.position)
        if match is None:
            context = self._text[self.position : self.position + 20]
            raise MalformedStep(f"no value begins with {context!r}")
        self.position = match.end()
        return match[0]


def _map(value: Any) -> dict[str, Any]:
    """Return the properties of a node or relationship, which may be absent.

    Raises:
        MalformedStep: `value` is no map.
    """
    if isinstance(value, dict):
        return value
    # None stands for absent properties.
    if value is None or value == []:
        return {}
    raise MalformedStep("properties that are no map")


def _known_node(node: Any) -> Node | None:
    """Return a node at an end of a relationship; None if only its internal id is known.

    Neo4j's driver shows a node that the result does not hold without labels and properties.
    """
    if isinstance(node, Node) and (node.labels or node.properties):
        return node
    return None


def _number_of(text: str) -> int | float:
    """Return the number that a text is; a text without a point or exponent is an integer."""
    if len(text) > MOST_DIGITS:
        raise MalformedStep("a number is too long")
    if text.lstrip("+-").isdigit():
        return int(text)
    return float(text)


def base64_text(text: str) -> str:
    """Return bytes in Base64, as Neo4j's HTTP API writes them.

    Args:
        text: a text in which each character stands for a byte.
    """
    return b64encode(text.encode("latin-1", "replace")).decode()


def _unquoted(text: str) -> str:
    """Return the text in quotes, with its escapes replaced."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner
    return _escape.sub(_unescaped, inner)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that an escape of Python or JSON stands for."""
    code_point = escape[1] or escape[2] or escape[3]
    if code_point:
        number = int(code_point, 16)
        is_surrogate = 0xD800 <= number < 0xE000
        if number > sys.maxunicode or is_surrogate:
            return "\N{REPLACEMENT CHARACTER}"
        return chr(number)
    if escape[4] is None:
        # A line break after a backslash joins two lines.
        return ""
    # A backslash before any other character stands for that character.
    return _ESCAPED.get(escape[4], escape[4])
