"""The pages of the reference, each made from the code when the site is built."""
