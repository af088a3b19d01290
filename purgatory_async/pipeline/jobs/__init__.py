"""The commands of ``purgatory pipeline``, one per module: options, input and output, no arithmetic."""
