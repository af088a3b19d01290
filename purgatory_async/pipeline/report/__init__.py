"""The report of a journal: what its operations came to, as tables, figures and a page."""
