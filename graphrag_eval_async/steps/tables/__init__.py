"""Compares tables of SPARQL results."""
