"""Keys and values of reference steps."""

REFERENCE_QUERY = "reference_query"
"""Key of a reference step: the query that returns the expected output."""

STRICT_ORDER = "strict"
"""The `order` of a group of reference steps, kept in its first step, that must come one after
the other.
"""

KEYS_OF_EVALUATIONS = ("matches", "diff", "query_similarity", "executed_at")
"""Keys of reference steps that evaluations add; those left over from an earlier one are ignored."""
