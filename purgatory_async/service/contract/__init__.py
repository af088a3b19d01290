"""The words that the service shares with its clients: bodies, answers, problems, names."""
