"""Who may do what: tokens, hosts and origins, rates, and the rights of requests under way."""
