"""What the sections of all judged metrics have in a configuration, and types of values."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Text = Annotated[str, Meta(pattern=r"\S", description="a string that is not empty")]
Name = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z", description="1 to 64 letters, digits, _ and -")
]
Amount = Annotated[float, Meta(ge=0, le=1e9, description="a number from 0 to a billion")]
Texts = Annotated[tuple[Text, ...], Meta(min_length=1, description="a list that is not empty")]
Seed = Annotated[int, Meta(ge=0, le=2**53, description="an integer of 0 or more")]
Share = Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]

GENERATION = "generation"
"""The judge that `llm.generation` configures, among those that a metric names."""


class MetricConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sections of all metrics have.

    Attributes:
        judges: names from `llm.judges`, or "generation" for the generation model.
        vote: how to combine the values of several judges: "mean", or "majority", which is the
            median. If each value is 0 or 1, the median is the verdict of most judges, or 0.5 in a
            tie.
    """

    judges: Texts = (GENERATION,)
    vote: Literal["mean", "majority"] = "mean"


class BuiltInConfig(MetricConfig, frozen=True, kw_only=True):
    """What the sections of built-in metrics have.

    Attributes:
        enabled: whether the metric is on.
    """

    enabled: bool = True

    @property
    def needs_embedding(self) -> bool:
        """Whether the metric asks for embeddings."""
        return False

    @property
    def needs_ragas(self) -> bool:
        """Whether the metric uses the package ragas."""
        return getattr(self, "mode", None) == "ragas"
