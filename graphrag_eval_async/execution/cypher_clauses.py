"""Checks that a Cypher query is one statement that only reads, before it is sent to a database.

Databases differ in what their read-only modes refuse: some ignore them, some still read files,
fetch addresses or write exports. So this check has lists of what may be sent, and refuses the rest:
clauses, procedures, and namespaces of functions.

In Cypher, any keyword can also be a name, as in `MATCH (match:Set) RETURN match.order`. What a word
is depends on its place: after an operand, such as a name, a number or a closing bracket, only an
operator or the next clause can follow. There, every word must be in a list. Where an operand is
expected, a word is a name, unless it may begin a clause that changes data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NoReturn

from graphrag_eval_async.execution.cypher_tokens import (
    CypherToken,
    TokenKind,
    cypher_tokens,
    escaped_punctuation,
)
from graphrag_eval_async.execution.outcomes import QueryFailed
from graphrag_eval_async.steps.tokens import MAX_QUERY_CHARACTERS


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, which white space separates."""
    return frozenset(text.split())


READING_CLAUSES = _words("""
    MATCH OPTIONAL WHERE WITH RETURN UNWIND ORDER SKIP OFFSET LIMIT UNION CALL YIELD FILTER LET
    FINISH
    """)
"""The first words of clauses that are sent."""

CHANGING_CLAUSES = _words("CREATE MERGE DELETE DETACH SET REMOVE INSERT FOREACH DROP")
"""Clauses that change data. In backquotes, as a property or as a label, such a word is a name."""

OTHER_CLAUSES = CHANGING_CLAUSES | _words("""
    LOAD COPY EXPORT IMPORT CHECKPOINT INSTALL UNINSTALL UPDATE ATTACH PROFILE EXPLAIN USE USING
    SHOW ALTER RENAME GRANT DENY REVOKE START STOP TERMINATE BEGIN COMMIT ROLLBACK ANALYZE COMMENT
    PROJECT CYPHER NEXT DRYRUN ENABLE DISABLE REALLOCATE DEALLOCATE FORCE DUMP STORAGE
    """)
"""First words of other clauses and commands of databases, to refuse them by name."""

_OPERATOR_WORDS = _words("AND OR XOR IN CONTAINS STARTS ENDS IS AS WHEN THEN ELSE WHERE")
"""Words after an operand, which an operand follows."""

_CLOSING_WORDS = _words("""
    NOT NULL END ASC ASCENDING DESC DESCENDING NULLS FIRST LAST NORMALIZED NFC NFD NFKC NFKD
    ALL ANY SHORTEST WSHORTEST TRAIL ACYCLIC PATH PATHS GROUP GROUPS
    """)
"""Words after an operand, after which again an operator or a clause follows.

NOT is that of IS NOT NULL; the last row is of shortest paths.
"""

_PREFIX_WORDS = _words("NOT DISTINCT CASE WHEN WHERE TYPED")
"""Words where an operand is expected, after which it still is."""

_PAIRS_OF_WORDS = frozenset({("ORDER", "BY"), ("STARTS", "WITH"), ("ENDS", "WITH")})
"""Two words that belong together. Only after the second one does the operand follow."""

_PATH_SELECTORS = _words("ALL ANY SHORTEST")
"""Words between MATCH and a pattern, which say which of its paths are wanted."""

_SUBQUERY_WORDS = _words("EXISTS COUNT COLLECT")
"""Words before a subquery in braces."""

_OPERATORS = _words("+ - * / % ^ = <> != < <= > >= =~ || | & ! : :: .. , . $")
_CLOSING_BRACKETS = {"(": ")", "[": "]", "{": "}"}

FUNCTION_NAMESPACES = _words("""
    date datetime localdatetime localtime time duration point vector vector.similarity
    apoc.agg apoc.coll apoc.convert apoc.date apoc.map apoc.math apoc.number apoc.temporal apoc.text
    """)
"""Namespaces, which stand before the last dot of a name, of functions that only compute.

Other functions, such as those of `apoc.load`, can read files or fetch addresses.
"""

PROCEDURES = _words("""
    db.labels db.relationshiptypes db.propertykeys db.schema.visualization
    db.schema.nodetypeproperties db.schema.reltypeproperties
    db.index.fulltext.querynodes db.index.fulltext.queryrelationships
    db.index.vector.querynodes db.index.vector.queryrelationships dbms.components
    apoc.meta.schema apoc.meta.data apoc.meta.stats apoc.meta.graph
    apoc.meta.nodetypeproperties apoc.meta.reltypeproperties
    apoc.path.expand apoc.path.expandconfig apoc.path.subgraphall apoc.path.subgraphnodes
    apoc.path.spanningtree apoc.algo.dijkstra apoc.algo.astar apoc.algo.allsimplepaths
    schema.node_type_properties schema.rel_type_properties vector_search.search
    show_tables show_connection table_info show_indexes db_version query_vector_index
    query_fts_index
    """)
"""Procedures that only read, in lower case: of Neo4j, APOC, Memgraph and Ladybug."""


def check_cypher(query: str) -> frozenset[str]:
    """Check that a query is one statement that only reads.

    Returns:
        the names of its parameters.

    Raises:
        QueryFailed: the query is no such statement. The failure is "invalid" if no database can
            read the query, and otherwise "refused".
    """
    if len(query) > MAX_QUERY_CHARACTERS:
        _refuse(f"it has more than {MAX_QUERY_CHARACTERS:,} characters")
    escape = escaped_punctuation(query)
    if escape is not None:
        _refuse(f"the escape {escape} may end a string or a comment; write the character itself")

    tokens = [*cypher_tokens(query)]
    check = _StatementCheck(tokens)
    check.check_all()
    return frozenset(token.text for token in tokens if token.kind == TokenKind.PARAMETER)


def _refuse(reason: str) -> NoReturn:
    """Raise the failure "refused" of a query that may do more than read."""
    raise QueryFailed("refused", reason)


def _reject(reason: str) -> NoReturn:
    """Raise the failure "invalid" of a query that no database can read."""
    raise QueryFailed("invalid", reason)


class _Place(Enum):
    """Which tokens can come next, by the tokens before."""

    CLAUSE = auto()
    """A clause must begin, as at the start of a query."""
    OPERAND = auto()
    """An operand is expected, so that a word is a name."""
    OPERATOR = auto()
    """An operand has ended: an operator or a clause follows."""


class _FrameKind(Enum):
    """The kind of the statement, or of a part of it between brackets."""

    QUERY = auto()
    """The whole statement, or a subquery."""
    SUBQUERY_OF_CALL = auto()
    BRACKETS = auto()
    """An expression, a pattern, a list, or the arguments of a function."""
    MAP = auto()

    @property
    def has_clauses(self) -> bool:
        """Whether clauses can stand between the brackets."""
        return self in {_FrameKind.QUERY, _FrameKind.SUBQUERY_OF_CALL}


@dataclass(slots=True)
class _Frame:
    """The statement, or a part of it between brackets, as far as it was checked.

    Attributes:
        kind: the kind of the part.
        closing_bracket: the bracket that ends the part; "" for the whole statement.
        place: which tokens can come next.
        clause: the first word of the current clause; "" if no clause has begun.
    """

    kind: _FrameKind
    closing_bracket: str
    place: _Place
    clause: str = ""


_NO_TOKEN = CypherToken(TokenKind.SYMBOL, "")
"""The token before the first one and after the last one."""


class _StatementCheck:
    """Checks the tokens of a statement one after the other."""

    def __init__(self, tokens: list[CypherToken]) -> None:
        """Begin at the first token, where a clause is expected."""
        self._tokens = tokens
        self._index = 0
        self._frames = [_Frame(_FrameKind.QUERY, "", _Place.CLAUSE)]

    def check_all(self) -> None:
        """Check all tokens.

        Raises:
            QueryFailed: the tokens are no statement that only reads.
        """
        if not self._tokens:
            _reject("it is empty")
        while self._index < len(self._tokens):
            token = self._tokens[self._index]
            if token.kind == TokenKind.UNCLEAR:
                _reject(token.text)
            elif token.kind == TokenKind.SYMBOL:
                self._check_symbol(token)
            elif token.is_name:
                self._check_name(token)
            else:
                self._take_operand(token)
            self._index += 1
        if len(self._frames) > 1:
            _reject(f"a {self._frames[-1].closing_bracket} is missing")

    @property
    def _frame(self) -> _Frame:
        """The part between the innermost brackets around the current token, or the statement."""
        return self._frames[-1]

    def _token_at(self, distance: int) -> CypherToken:
        """Return the token at a distance from the current one; a negative distance is before it.

        Beyond the ends, return `_NO_TOKEN`.
        """
        index = self._index + distance
        if 0 <= index < len(self._tokens):
            return self._tokens[index]
        return _NO_TOKEN

    def _take_operand(self, token: CypherToken) -> None:
        """Take the current token as an operand, after which an operator or a clause follows.

        Raises:
            QueryFailed: no operand can stand here, since a clause must begin or an operand has just
                ended.
        """
        place = self._frame.place
        if place == _Place.CLAUSE:
            _reject(f"expected a clause such as MATCH, got {token.text[:50]!r}")
        # A number can follow, as in [*1..3].
        if place == _Place.OPERATOR and token.kind in {TokenKind.STRING, TokenKind.PARAMETER}:
            _reject(f"expected an operator or a clause, got {token.text[:50]!r}")
        self._frame.place = _Place.OPERATOR

    # Words and names in backquotes.

    def _check_name(self, token: CypherToken) -> None:
        """Check the current token, which is a word or a name in backquotes.

        Raises:
            QueryFailed: the word is a clause or command that is not sent, or cannot stand here.
        """
        frame = self._frame
        keyword = token.keyword
        if self._is_certainly_a_name():
            self._take_operand(token)
        elif keyword in CHANGING_CLAUSES:
            _refuse(f"{keyword} is not run; a name like that needs backquotes")
        elif frame.place == _Place.OPERAND:
            self._check_operand_word(keyword)
        elif frame.kind.has_clauses and keyword in READING_CLAUSES:
            self._begin_clause(keyword)
        elif frame.place == _Place.CLAUSE:
            self._check_unknown_clause(token)
        else:
            self._check_operator_word(token)

    def _is_certainly_a_name(self) -> bool:
        """Return whether the current token can be nothing but a name, by its neighbours.

        Such a name is in backquotes, or it is a property, a label, a type, an alias, or the key of
        a map. A word before a round bracket is no such name, since it may begin a clause.
        """
        token = self._token_at(0)
        before = self._token_at(-1)
        after = self._token_at(1)
        if token.kind == TokenKind.QUOTED_NAME:
            return True
        if after.is_symbol("("):
            return False
        is_key = before.is_symbol("{", ",") and after.is_symbol(":")
        if is_key and self._frame.kind == _FrameKind.MAP:
            return True
        # This is an alias. After a property named `as`, no operand would be expected.
        if before.keyword == "AS" and self._frame.place == _Place.OPERAND:
            return True
        if before.is_symbol("|"):
            # This is a type, as in [:LIKES|KNOWS]. But Ladybug also has [* (n, r | WHERE ...)].
            return token.keyword != "WHERE"
        # Behind a dot stands a property, and behind the others a label or a type.
        return before.is_symbol(".", ":", "::", "&", "!")

    def _check_operand_word(self, keyword: str) -> None:
        """Decide what follows a word where an operand is expected.

        If the word is a name, an operator or a clause follows. Some words only stand before an
        operand, which is still expected then.

        Args:
            keyword: the word in upper case.
        """
        frame = self._frame
        before = self._token_at(-1)
        is_second_word = (before.keyword, keyword) in _PAIRS_OF_WORDS
        is_path_selector = (
            keyword in _PATH_SELECTORS
            and frame.clause == "MATCH"
            and before.keyword in {"MATCH", *_PATH_SELECTORS}
        )
        is_before_operand = keyword in _PREFIX_WORDS or is_second_word or is_path_selector
        if not is_before_operand:
            # It is a name.
            frame.place = _Place.OPERATOR

    def _check_operator_word(self, token: CypherToken) -> None:
        """Check a word after an operand that begins no clause of `READING_CLAUSES`.

        Raises:
            QueryFailed: the word is none of those that may stand there.
        """
        frame = self._frame
        keyword = token.keyword
        if keyword in _OPERATOR_WORDS:
            frame.place = _Place.OPERAND
        elif keyword not in _CLOSING_WORDS:
            self._check_unknown_clause(token)

    def _check_unknown_clause(self, token: CypherToken) -> NoReturn:
        """Raise the failure of a word that is no clause and no operator of reading queries."""
        keyword = token.keyword
        if keyword in OTHER_CLAUSES:
            _refuse(f"{keyword} is not run")
        if keyword == "IN" and self._token_at(-1).is_symbol("}"):
            _refuse("CALL with IN TRANSACTIONS is not run")
        if keyword in READING_CLAUSES:
            _reject(f"{keyword} cannot stand in brackets")
        expected = "MATCH, OPTIONAL MATCH, WITH, UNWIND, CALL or RETURN"
        if self._index == 0:
            _reject(f"expected a Cypher query that begins with {expected}")
        _reject(f"{token.text[:50]!r} is no clause or operator; expected one such as {expected}")

    # Clauses.

    def _begin_clause(self, keyword: str) -> None:
        """Begin a clause at the current token, and decide what can follow.

        Args:
            keyword: its first word, one of `READING_CLAUSES`.
        """
        frame = self._frame
        frame.clause = keyword
        if keyword in {"OPTIONAL", "FINISH"}:
            # Nothing but another clause, such as MATCH, can follow.
            frame.place = _Place.CLAUSE
        elif keyword == "UNION":
            if self._token_at(1).keyword in {"ALL", "DISTINCT"}:
                self._index += 1
            frame.place = _Place.CLAUSE
        elif keyword == "CALL":
            self._begin_call()
        else:
            frame.place = _Place.OPERAND

    def _begin_call(self) -> None:
        """Check what follows CALL, up to the first bracket of arguments or of a subquery.

        Raises:
            QueryFailed: the procedure is not in the list, or CALL changes a setting.
        """
        self._skip_imported_variables()
        if self._token_at(1).is_symbol("{"):
            self._index += 1
            self._frame.place = _Place.CLAUSE
            self._frames.append(_Frame(_FrameKind.SUBQUERY_OF_CALL, "}", _Place.CLAUSE))
            return

        name = self._read_procedure_name()
        if self._token_at(1).is_symbol("="):
            _refuse(f"CALL {name[:100]} = is not run")
        if name.lower() not in PROCEDURES:
            _refuse(f"CALL {name[:100]} is not run")
        self._frame.place = _Place.OPERATOR
        if self._token_at(1).is_symbol("("):
            self._index += 1
            self._frames.append(_Frame(_FrameKind.BRACKETS, ")", _Place.OPERAND))

    def _skip_imported_variables(self) -> None:
        """Skip the variables in brackets after CALL, as in CALL (n, m) { ... }, if there are any.

        Raises:
            QueryFailed: no subquery follows.
        """
        if not self._token_at(1).is_symbol("("):
            return
        while not self._token_at(1).is_symbol(")") and self._token_at(1) != _NO_TOKEN:
            self._index += 1
        self._index += 1
        if not self._token_at(1).is_symbol("{"):
            _reject("expected a subquery in braces after CALL (...)")

    def _read_procedure_name(self) -> str:
        """Return the name of a procedure, with its dots, that follows the current token.

        Afterwards, the current token is the last one of the name.

        Raises:
            QueryFailed: no name follows.
        """
        parts: list[str] = []
        while self._token_at(1).is_name:
            self._index += 1
            parts.append(self._token_at(0).text)
            if not self._token_at(1).is_symbol("."):
                break
            self._index += 1
        if not parts:
            _reject("expected a procedure or a subquery after CALL")
        return ".".join(parts)

    # Symbols.

    def _check_symbol(self, token: CypherToken) -> None:
        """Check the current token, which is a symbol.

        Raises:
            QueryFailed: the token is no symbol of Cypher, or cannot stand here.
        """
        symbol = token.text
        if symbol == ";":
            self._check_end()
        elif symbol in _CLOSING_BRACKETS:
            self._open_bracket(symbol)
        elif symbol in {")", "]", "}"}:
            self._close_bracket(symbol)
        elif symbol not in _OPERATORS:
            _reject(f"the character {symbol!a} cannot stand outside strings")
        elif self._frame.place == _Place.CLAUSE:
            _reject(f"expected a clause such as MATCH, got {symbol}")
        else:
            self._take_operator(symbol)

    def _check_end(self) -> None:
        """Check that nothing but semicolons follows the current one.

        Raises:
            QueryFailed: a second statement follows.
        """
        while self._token_at(1).is_symbol(";"):
            self._index += 1
        if self._index + 1 < len(self._tokens):
            _refuse("it has more than one statement")

    def _take_operator(self, symbol: str) -> None:
        """Decide what can follow an operator, a comma or a dot, which is the current token.

        An operand follows, except after a `*` or `+` that is itself the end of an operand.
        """
        frame = self._frame
        # As in RETURN * or count(*), and n.* of some databases.
        is_all = symbol == "*" and (
            frame.place == _Place.OPERAND or self._token_at(-1).is_symbol(".")
        )
        # As in MATCH ((a)-->(b))+ RETURN a: in a pattern, nothing is added or multiplied.
        is_quantifier = symbol in {"+", "*"} and frame.clause == "MATCH"
        if is_all or is_quantifier:
            frame.place = _Place.OPERATOR
        else:
            frame.place = _Place.OPERAND

    def _open_bracket(self, bracket: str) -> None:
        """Begin the part of the statement after an opening bracket, the current token.

        Raises:
            QueryFailed: a clause must begin here, or the bracket belongs to a function that is not
                in the list.
        """
        # Check whether the bracket may stand here.
        frame = self._frame
        word_before = self._token_at(-1).keyword
        if frame.place == _Place.CLAUSE:
            # EXISTS { (a)-->(b) } is short for EXISTS { MATCH (a)-->(b) }.
            is_pattern = bracket == "(" and len(self._frames) > 1 and not frame.clause
            if not is_pattern:
                _reject(f"expected a clause such as MATCH, got {bracket}")
            frame.clause = "MATCH"
        if bracket == "(":
            self._check_function()

        # Behind the closing bracket, the whole part is an operand.
        closing_bracket = _CLOSING_BRACKETS[bracket]
        frame.place = _Place.OPERATOR
        if bracket == "{" and word_before in _SUBQUERY_WORDS:
            inner = _Frame(_FrameKind.QUERY, closing_bracket, _Place.CLAUSE)
        elif bracket == "{":
            inner = _Frame(_FrameKind.MAP, closing_bracket, _Place.OPERAND)
        else:
            inner = _Frame(_FrameKind.BRACKETS, closing_bracket, _Place.OPERAND)
        self._frames.append(inner)

    def _close_bracket(self, bracket: str) -> None:
        """End the innermost part between brackets at a closing bracket, the current token.

        Raises:
            QueryFailed: that part began with another bracket, or there is no such part.
        """
        if bracket != self._frame.closing_bracket:
            _reject(f"a {bracket} has no opening bracket")
        self._frames.pop()

    def _check_function(self) -> None:
        """Check the name before the current bracket if it is that of a function with a namespace.

        Raises:
            QueryFailed: the namespace is not in the list.
        """
        last_part = self._token_at(-1)
        # A name in backquotes may hold the dots, as in `apoc.load.json`('file').
        has_dots = self._token_at(-2).is_symbol(".") or "." in last_part.text
        if not last_part.is_name or not has_dots:
            return
        # Collect the parts of the name from its end.
        parts = [last_part.text]
        distance = -2
        while self._token_at(distance).is_symbol(".") and self._token_at(distance - 1).is_name:
            parts.append(self._token_at(distance - 1).text)
            distance -= 2
        name = ".".join(reversed(parts))
        namespace = name.rpartition(".")[0]

        # Before the first dot may stand another operand, such as a bracket.
        has_other_base = self._token_at(distance).is_symbol(".")
        if has_other_base or namespace.lower() not in FUNCTION_NAMESPACES:
            _refuse(f"the function {name[:100]} is not run")
