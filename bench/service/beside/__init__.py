"""What stands beside the service: nginx with nchan, and wrk, which drives both."""
