"""What may be asked of the state, whatever carries the question: from its document to its answer."""
