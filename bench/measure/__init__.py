"""What every benchmark here shares: the machine, the collector, the samples, the lines it prints."""
