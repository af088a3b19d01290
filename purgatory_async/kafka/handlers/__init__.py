"""Handlers: one file for each kind of request, each with its entries of the request table."""
