"""What requests mean: the endpoints, their routes, and their description in OpenAPI."""
