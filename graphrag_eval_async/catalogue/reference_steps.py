"""Keys of reference steps, and their values, that several rooms know."""

REFERENCE_QUERY = "reference_query"
"""Key of the query that returns the expected output."""

ALTERNATIVES = "alternatives"
"""Key of a list of other right outputs of a step, each with `KEYS_OF_ALTERNATIVES`."""

KEYS_OF_ALTERNATIVES = ("output", "output_media_type", REFERENCE_QUERY)
"""Keys that an alternative may have in place of those of its step."""

STRICT_ORDER = "strict"
"""The `order` of a group of reference steps that must be taken one after the other.

The first step of the group keeps it.
"""

KEYS_OF_EVALUATIONS = ("matches", "diff", "query_similarity", "executed_at")
"""Keys that evaluations add. Those left over from an earlier evaluation are ignored."""
