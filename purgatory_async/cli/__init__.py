"""The command line: ``purgatory``, or ``python -m purgatory_async``."""
