"""Consumer groups: who belongs to one, its generations, and the offsets that it has committed.

    coordinator   groups by id
    group         what members ask: join, sync, heartbeat, leave, commit
    membership    the state machine behind it; `state` has its table
    delayed, sessions   what waits, and for how long

Nothing here knows sockets or the wire format: requests and answers are plain values, and refusals are
`ProtocolError`.
"""
