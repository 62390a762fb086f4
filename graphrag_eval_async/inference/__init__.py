"""What can be concluded from aggregates: intervals, comparisons and decisions."""

from graphrag_eval_async.errors import UsageError, describe


def check_level(level: object, *, name: str = "level") -> None:
    """Check a confidence level; `name` is what a message calls it.

    Raises:
        UsageError: it is not a float between 0 and 1, both excluded.
    """
    if not isinstance(level, float) or not 0 < level < 1:
        raise UsageError(f"{name}: expected a number between 0 and 1, got {describe(level)}")
