"""Comparison of RDF graphs and datasets, the results of CONSTRUCT and DESCRIBE queries."""
