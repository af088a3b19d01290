"""Several brokers as one cluster: what they tell each other, and how followers copy their leaders.

    Cluster       topics, sets in sync and brokers within reach, as one broker knows them
    Change        one thing that a broker tells the others
    Replica       follows one leader
    Peer          a connection to another broker
    Replication   runs what a broker needs of these

Placement is static: partition ``i`` of a topic is on as many brokers as it has replicas, in turn, beginning with the
``i``-th, which leads it. There is no election. While a leader is out of reach, the others answer for its partitions
with leader -1 and leader_not_available.

Topics are created and deleted by the controller, the broker with the least number; others refuse with not_controller,
and pass on what a client's metadata request creates. The answer waits until the brokers in sync know of it.

Memory is all there is. A follower that starts again copies its leaders anew, and is in sync from the high watermark
on. A leader that starts again has lost its records, and its followers drop them, too. A controller that starts again
has no topics, and then no broker has any.
"""
