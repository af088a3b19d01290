"""Several brokers as one cluster: what they publish to each other, and how followers copy their leaders.

    Cluster       topics, sets in sync and brokers within reach, as one broker knows them
    Change        one thing that a broker publishes to the others
    Replica       follows one leader
    recover       takes back what a broker led before it started again
    Peer          a connection to another broker
    Replication   runs what a broker needs of these

Placement is static: partition ``i`` of a topic is on as many brokers as it has replicas, in turn, beginning with the
``i``-th, which leads it. There is no election. While a leader is out of reach, the others answer for its partitions
with leader -1 and leader_not_available.

Topics are created and deleted by the controller, the broker with the least number; others refuse with not_controller,
and pass on what a client's metadata request creates. The answer waits until the brokers in sync know of it.

Memory is all there is. A broker that starts again takes back what it led from its followers before it serves, the
topics included. Followers keep what they share with it, by leader epoch, and drop the rest with a warning. What only
it had is lost: records that no follower had, and the offsets of the groups that it coordinated.
"""
