"""Other designs, kept only to be measured beside the library's own."""
