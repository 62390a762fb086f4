"""Comparison of SPARQL query results: read, prepare the reference once, compare it with many."""
