"""Shows results to people: as tables, pages, Markdown, JUnit files and annotations."""
