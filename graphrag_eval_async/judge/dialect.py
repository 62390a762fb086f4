"""What the server of a model accepts: parameters and reply formats, learned from what it refuses."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec import UNSET

from graphrag_eval_async.config import GenerationConfig
from graphrag_eval_async.judge.formats import FORMATS, LADDER, body_of, is_too_long, refuses_format
from graphrag_eval_async.judge.openai_response import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphrag_eval_async.config import EmbeddingConfig
    from graphrag_eval_async.judge.openai_response import Response
    from graphrag_eval_async.judge.protocol import Message

RENAMED = {"max_tokens": "max_completion_tokens"}
"""Newer names of parameters."""

MAX_TOKENS = 4096
"""Default limit of one reply, in tokens."""

VARIED_TEMPERATURE = 0.3
"""Temperature of requests for several replies, as in ragas."""

CONFIRMATIONS = 2
"""Requests that must need another format before it is remembered, if the server did not say why it failed."""


class Variant(NamedTuple):
    """How one request is written.

    Attributes:
        schema: the schema of the reply; empty for embeddings.
        name: identifies the schema.
        changed: parameters with other values than usual.
        format: place in `LADDER`.
        names: names under which default parameters are sent if it is not their own; None for omitted ones.
        errors: how often the server answered this format with an internal error.
        is_guess: whether the server did not say that it refuses the formats before.
        reasons: what the server said of a parameter, by its name, and of the "format". A parameter that
            changed without a reason did so for this request only.
        is_reopened: whether the request was repeated because its connection had been closed.
    """

    schema: Mapping[str, Any] = {}
    name: str = ""
    changed: Mapping[str, Any] = {}
    format: int = 0
    names: Mapping[str, str | None] = {}
    errors: int = 0
    is_guess: bool = False
    reasons: Mapping[str, str] = {}
    is_reopened: bool = False

    @classmethod
    def of(cls, schema: Mapping[str, Any], variation: int = 0) -> Variant:
        """Return the first variant of a request; a `variation` above 0 asks for another reply to it."""
        name = f"{schema['title']} {sha256(orjson.dumps(schema)).hexdigest()[:8]}"
        return cls(schema, name, {"seed": variation, "temperature": VARIED_TEMPERATURE} if variation else {})

    def because(self, reason: str, **changed: Any) -> Variant:
        """Return the variant with another format, for a reason."""
        return self._replace(reasons={**self.reasons, "format": reason}, **changed)

    def renamed(self, name: str, sent: str | None) -> Variant:
        """Return the variant with a parameter sent under another name, or omitted."""
        return self._replace(names={**self.names, name: sent})


def used(written: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how requests were written, each by `Dialect.written`, as JSON; empty if all as by default.

    Leaves out which reply was requested in which format: results that need different replies from the same
    server were judged alike.
    """
    parts = [*written]
    formats = {part.get("format", LADDER[0]) for part in parts}
    sent = sorted({(name, to or "") for part in parts for name, to in part.get("parameters", {}).items()})
    found = {
        "parameters": {name: to or None for name, to in sent},
        "formats": sorted(formats, key=LADDER.index) if formats != {LADDER[0]} else [],
    }
    return {name: part for name, part in found.items() if part}


class Dialect:
    """Writes requests so that the server of a model accepts them.

    A default parameter that it refuses is renamed or omitted; a parameter that the user configured is never
    omitted. If it refuses a reply format, the next of `FORMATS` is tried. What was accepted is remembered for
    the model, a format for the schema.

    Attributes:
        names: as in `Variant`.
        formats: place in `LADDER` by schema; missing for the first.
    """

    def __init__(self, model: GenerationConfig | EmbeddingConfig) -> None:
        """Write requests to a model as it is configured."""
        configured: dict[str, Any] = {"model": model.model, **model.parameters}
        defaults: dict[str, Any] = {"encoding_format": "float"}
        if isinstance(model, GenerationConfig):
            given = {"temperature": model.temperature, "max_tokens": model.max_tokens}
            if {*RENAMED, *RENAMED.values()} & model.parameters.keys():
                given["max_tokens"] = None
            defaults = {"temperature": 0.0, "max_tokens": MAX_TOKENS}
            defaults = {name: value for name, value in defaults.items() if given[name] is not None}
            own = {name: value for name, value in given.items() if value is not None and value is not UNSET}
            configured = own | configured
        self.names: dict[str, str | None] = {}
        self.formats: dict[str, int] = {}
        self._defaults = {name: configured.get(name, value) for name, value in defaults.items()}
        self._configured = configured
        self._own = {*defaults, "seed"} - {*configured}
        self._proven: set[tuple[str, int]] = set()
        self._guessed: Counter[tuple[str, int]] = Counter()
        self._told: set[str] = set()  # Schemas whose format the server told, instead of leaving us to guess.
        self._recalled: set[str] = set()

    def updated(self, variant: Variant) -> Variant:
        """Return a variant with all that is known by now."""
        place = self.formats.get(variant.name, 0)
        if place > variant.format:
            variant = variant._replace(format=place, errors=0, is_guess=False)
        return variant._replace(names={**variant.names, **self.names}) if self.names else variant

    def parameters(self, variant: Variant) -> dict[str, Any]:
        """Return the parameters of a request. A configured seed is the first of several."""
        body = {}
        values = self._defaults | {
            name: value for name, value in variant.changed.items() if name in self._own
        }
        for name, value in values.items():
            sent = variant.names.get(name, name)
            if sent is not None:
                body[sent] = value
        body |= {name: value for name, value in self._configured.items() if name not in self._defaults}
        if type(body.get("seed")) is int and "seed" not in self._own:
            body["seed"] += variant.changed.get("seed", 0)
        return body

    def completion(self, messages: Sequence[Message], variant: Variant) -> dict[str, Any]:
        """Return the body of a request for a reply that fits the schema."""
        return body_of(LADDER[variant.format], messages, variant.schema) | self.parameters(variant)

    def after_refusal(self, response: Response, body: Mapping[str, Any], variant: Variant) -> Variant | None:
        """Return how to write a request again, or None if the refusal has nothing to do with how."""
        if is_too_long(response):
            sent = variant.names.get("max_tokens", "max_tokens")
            return variant.renamed("max_tokens", None) if "max_tokens" in self._own and sent in body else None
        name = self.refused(response, body, variant)
        if name is not None:
            other = RENAMED.get(variant.names.get(name, name) or "")
            if other is None and name not in self._own:
                return None
            changed = variant.renamed(name, other)
            return changed._replace(reasons={**variant.reasons, name: text_of(response)})
        told = refuses_format(response)
        if not variant.schema or variant.format + 1 == len(LADDER) or told is False:
            return None
        if not told and (variant.name, variant.format) in self._proven:
            return None
        place, is_guess = variant.format + 1, variant.is_guess or not told
        if response.status == 500 and not told:
            guessed = [other for own, other in self._guessed if own == variant.name and other >= place]
            if not (guessed or variant.errors or variant.is_guess):
                return variant._replace(errors=1)  # It may be an accident.
            place = min(guessed, default=place)
        return variant.because(text_of(response), format=place, errors=0, is_guess=is_guess)

    def refused(self, response: Response, body: Mapping[str, Any], variant: Variant) -> str | None:
        """Return the name of the parameter that the server refuses, if it is about one."""
        if response.status not in {400, 404, 422} or is_too_long(response):
            return None
        for name in sorted(self._own | {*self._defaults}):
            sent = variant.names.get(name, name)
            if sent is not None and sent in body and (response.mentions(sent) or response.mentions(name)):
                return name
        for name in sorted(self._configured.keys() & body.keys() - {"model"}):
            older = [other for other, newer in RENAMED.items() if newer == name]
            if any(response.mentions(each, anywhere=False) for each in (name, *older)):
                return name
        return None

    def after_prose(self, variant: Variant, reason: str) -> Variant | None:
        """Return how to repeat a request answered in prose: perhaps the server ignores the format."""
        is_proven = (variant.name, variant.format) in self._proven
        if is_proven or LADDER[variant.format] in {"json_object", "text"}:
            return None
        place = LADDER.index("json_object")
        return variant.because(reason, format=place, errors=0, is_guess=True)

    def accepted(self, variant: Variant) -> list[str]:
        """Remember what the server accepted; return what is new, in words."""
        new = []
        for name, reason in variant.reasons.items():
            if name in variant.names and self.names.get(name, name) != (sent := variant.names[name]):
                self.names = {**self.names, name: sent}
                new.append(_sent(name, sent, reason))
        if self._recalled:
            new += self._from_cache(variant)
        if not variant.schema:
            return new
        name, place = variant.name, variant.format
        if place > self.formats.get(name, 0):
            # One refusal may be an accident if it is unclear, or if a better format was accepted before.
            if variant.is_guess or any((name, better) in self._proven for better in range(place)):
                self._guessed[name, place] += 1
                if self._guessed[name, place] < CONFIRMATIONS:
                    return new
            self.formats[name] = place
            (self._told.discard if variant.is_guess else self._told.add)(name)
            new.append(_requested(variant.schema, place, variant.reasons.get("format", "")))
        self._proven.add((name, place))
        return new

    def _from_cache(self, variant: Variant) -> list[str]:
        """Return what was recalled and is used for the first time, in words."""
        known = "as the cache remembers"
        new = [_sent(name, self.names[name], known) for name in sorted(self._recalled & {*self.names})]
        self._recalled -= {*self.names}
        if variant.name in self._recalled:
            self._recalled.discard(variant.name)
            new.append(_requested(variant.schema, self.formats[variant.name], known))
        return new

    @property
    def limit(self) -> str:
        """The name of the parameter that limits the tokens of a reply, as in the configuration."""
        return next((newer for newer in RENAMED.values() if newer in self._configured), "max_tokens")

    @property
    def learned(self) -> dict[str, Any]:
        """What differs from the defaults and is worth remembering for other runs, as JSON; may be empty.

        Leaves out formats that were only guessed: the server may have been starting.
        """
        named = {name: LADDER[self.formats[name]] for name in sorted(self._told)}
        found = {"parameters": dict(sorted(self.names.items())), "formats": named}
        return {name: part for name, part in found.items() if part}

    def written(self, variant: Variant) -> dict[str, Any]:
        """Return how a request was written, as JSON; empty if as by default.

        Leaves out parameters that are written in another way in this request only.
        """
        found: dict[str, Any] = {"format": LADDER[variant.format]} if variant.format else {}
        sent = {*self._defaults, *variant.changed} & variant.names.keys()
        if names := {name: variant.names[name] for name in sent if name in self.names}:
            found["parameters"] = names
        return found

    def recall(self, learned: Any) -> None:
        """Start with what `learned` was earlier; ignores what it does not understand."""
        match learned:
            case {"parameters": dict(names)}:
                for name, sent in names.items():
                    if (sent is None and name in self._own) or (sent and sent == RENAMED.get(name)):
                        self.names = {**self.names, name: sent}
                        self._recalled.add(name)
        match learned:
            case {"formats": dict(formats)}:
                known = {name: LADDER.index(kind) for name, kind in formats.items() if kind in LADDER}
                self.formats.update(known)
                self._told.update(known)
                self._recalled.update(known)


def _sent(name: str, sent: str | None, reason: str) -> str:
    does = "is left out" if sent is None else f"is sent as {sent}"
    return f"{name} {does} ({reason})"


def _requested(schema: Mapping[str, Any], place: int, reason: str) -> str:
    kind = FORMATS[LADDER[place]]
    return f"replies of the form {schema['title']} are requested as {kind} ({reason})"
