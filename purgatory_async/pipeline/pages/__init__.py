"""What the pages of the jobs share: style, document, tables and figures."""
