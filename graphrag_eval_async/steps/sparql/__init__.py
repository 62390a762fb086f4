"""Reading and comparison of SPARQL query results. One prepared reference is compared with many results."""
