"""What is made of a journal: functions from tables to tables, which need a session and read no file."""
