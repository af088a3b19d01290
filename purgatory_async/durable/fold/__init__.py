"""The service's state as a deterministic fold of one ordered log: entries in, results and effects out.

`Fold` is the one place where anything changes. It reads no clock, does no I/O, draws nothing at random, and its state
does not depend on the order of a hash. So replicas that apply the same entries are equal, whenever and wherever they do
it, and also if some of them begin at a checkpoint.

| file | holds |
|---|---|
| `fold` | `Fold`: one step, from an entry to its result and effects |
| `entries`, `codec` | what goes in, as objects and as UTF-8 JSON |
| `results` | what comes out |
| `log_clock` | the clock of its timer, which stands at log time |
| `shared` | the step and the limits, which all parts read |
| `operations`, `kept_answers`, `kept_signals`, `queues`, `leases`, `replays`, `writers` | the parts of the state |
| `promises`, `telling` | what few operations have: questions, times to be kept, queues that hear of them |
| `same` | whether two submissions, or two answers, mean the same |
| `operation_rules`, `signal_rules`, `queue_rules` | what entries do to them |
| `records`, `checkpoint` | the state as lines of JSON, and its digest |

What belongs to a connection stays outside: held requests, one-shot waits and streams are fed by the effects.
"""
