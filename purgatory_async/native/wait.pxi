# Mirrors loop/wait.
