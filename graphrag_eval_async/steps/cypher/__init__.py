"""Results of Cypher queries: reading them in all forms, and comparing them as tables."""
