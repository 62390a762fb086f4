"""Keys of reference steps, and their values, that several rooms know."""

REFERENCE_QUERY = "reference_query"
"""Key of the query that returns the expected output."""

ALTERNATIVES = "alternatives"
"""Key of a list of other right outputs of a step, each with `KEYS_OF_ALTERNATIVES`."""

KEYS_OF_ALTERNATIVES = ("output", "output_media_type", REFERENCE_QUERY)
"""Keys that an alternative may have in place of those of its step."""

COMPARE = "compare"
"""Key that says how an output in JSON is compared: as a `TABLE` or, by default, as one value."""

TABLE = "table"
"""The only value of `COMPARE`."""

MATCH_COLUMNS = "match_columns"
"""Key that says which columns of tables are paired: one of `COLUMN_RULES`."""

BY_CONTENTS = "contents"
"""By default, a column is paired with one of the same contents, whatever their names."""

BY_NAME = "name"
"""A column is paired with the column of the same name."""

BY_COUNT = "count"
"""Columns are paired by contents, and both tables must have the same number of columns."""

COLUMN_RULES = (BY_CONTENTS, BY_NAME, BY_COUNT)

STRICT_ORDER = "strict"
"""The `order` of a group of reference steps that must be taken one after the other.

The first step of the group keeps it.
"""

KEYS_OF_EVALUATIONS = ("matches", "diff", "paired_columns", "query_similarity", "executed_at")
"""Keys that evaluations add. Those left over from an earlier evaluation are ignored."""
