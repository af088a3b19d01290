"""The commands of ``purgatory pipeline``, one a module: options, input and output, and no arithmetic."""
