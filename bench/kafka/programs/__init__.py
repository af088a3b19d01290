"""Clients of other languages, each a program: kafkajs, and Kafka's own client in Java.

    produce ADDRESS TOPIC ACKS CODEC IDEMPOTENT [TIMESTAMP...]
                                                   send the lines of its input to partition 0, until it ends
    consume ADDRESS TOPIC COUNT                    read partition 0 from its beginning
    member ADDRESS TOPIC GROUP SESSION_MS [INSTANCE]    read in the group, commit each record, leave it at SIGTERM
    admin ADDRESS STEP...                          take steps, one after another:
        'create TOPIC PARTITIONS'  'topic TOPIC'  'topics'  'trim TOPIC OFFSET'  'delete TOPIC'
        'grow TOPIC COUNT'  'config TOPIC NAME'  'alter TOPIC NAME VALUE'
        'at TOPIC TIMESTAMP'  'commit GROUP TOPIC OFFSET'  'groups'  'group GROUP'  'forget GROUP'
        and only Java's: 'newest TOPIC'  'known TOPIC', whose id finds it

They print a line of JSON for each record, assignment and step: ``{"value": ...}``, ``{"assigned": [...]}``. A refused
step prints ``{"error": ...}``.
"""

from bench.kafka.programs.launch import JAVA, KAFKAJS, PROGRAMS, command, environment, missing

__all__ = ["JAVA", "KAFKAJS", "PROGRAMS", "command", "environment", "missing"]
