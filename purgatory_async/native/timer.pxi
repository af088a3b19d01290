# Mirrors loop/: reaper, timer, timer_handle, ownership.
