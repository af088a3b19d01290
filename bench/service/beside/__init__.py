"""What stands beside the service: nginx with nchan, a handler written by hand, and the load for all of them."""
