"""What it costs to write down what a purgatory does, and how fast that is on the disk."""
