"""Several brokers as one cluster: what they tell each other, and how followers copy their leaders.

    Cluster       topics, sets in sync and brokers within reach, as one broker knows them
    Change        one thing that a broker tells the others
    Replica       follows one leader
    Peer          a connection to another broker
    Replication   runs what a broker needs of these

There is no election. Each partition has the leader that it was created with, and is not available without it.
"""
