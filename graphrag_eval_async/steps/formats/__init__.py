"""Reading results in JSON, XML, TSV and CSV, and tables that tools return in their place."""
