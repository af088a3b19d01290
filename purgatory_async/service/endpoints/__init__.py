"""The endpoints: async functions from the service and a request to an answer."""
