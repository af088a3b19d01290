"""The endpoints: each an async function from the service and a request to an answer, one file per resource."""
