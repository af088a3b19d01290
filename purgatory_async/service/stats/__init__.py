"""What happened lately, and what is pending now, for the dashboard."""
