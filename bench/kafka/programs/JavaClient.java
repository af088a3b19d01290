import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's own client in a process of its own; its verbs are described in __init__.py. */
public final class JavaClient {
    private static final Duration POLL = Duration.ofMillis(100);

    public static void main(String[] arguments) throws Exception {
        String verb = arguments[0];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        String[] values = List.of(arguments).subList(2, arguments.length).toArray(new String[0]);
        switch (verb) {
            case "produce" -> produce(settings, values);
            case "consume" -> consume(settings, values[0], Integer.parseInt(values[1]));
            case "member" -> member(settings, values);
            case "admin" -> administer(settings, values);
            default -> throw new IllegalArgumentException("verb must be one of __init__.py's, got " + verb);
        }
    }

    private static void produce(Properties settings, String[] values) throws Exception {
        settings.put("acks", values[1]);
        settings.put("compression.type", values[2]);
        settings.put("enable.idempotence", values[3]);
        settings.put("linger.ms", "50");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
                var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            Iterator<Long> times = Arrays.stream(values).skip(4).map(Long::valueOf).iterator();
            List<Future<RecordMetadata>> sent = input.lines()
                    .map(line -> producer.send(new ProducerRecord<>(
                            values[0], 0, times.hasNext() ? times.next() : null, (String) null, line)))
                    .toList();
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            say("offset", sent.get(0).get().offset());
        }
    }

    private static KafkaConsumer<String, String> consumer(Properties settings) {
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static void consume(Properties settings, String topic, int count) {
        try (var consumer = consumer(settings)) { // its close sends a fetch for no partitions
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            int left = count;
            while (left > 0) {
                for (var read : consumer.poll(POLL)) {
                    if (left-- > 0) {
                        say("value", read.value());
                    }
                }
            }
        }
        say("closed", true);
    }

    private static void member(Properties settings, String[] values) {
        settings.put("group.id", values[1]);
        settings.put("session.timeout.ms", values[2]);
        settings.put("heartbeat.interval.ms", "100");
        settings.put("max.poll.records", "1");
        settings.put("metadata.max.age.ms", "1000"); // after which it notices new partitions
        if (values.length > 3) {
            settings.put("group.instance.id", values[3]);
        }
        Thread main = Thread.currentThread();
        try (var consumer = consumer(settings)) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM
                consumer.wakeup();
                try {
                    main.join();
                } catch (InterruptedException stopped) {
                    Thread.currentThread().interrupt();
                }
            }));
            consumer.subscribe(List.of(values[0]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    say("assigned", assigned.stream().map(TopicPartition::partition).sorted().toList());
                }
            });
            while (true) {
                for (var read : consumer.poll(POLL)) {
                    consumer.commitSync();
                    say("value", read.value());
                }
            }
        } catch (WakeupException stopped) {
            // the consumer has been closed, which leaves the group
        }
    }

    private static void administer(Properties settings, String[] steps) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            for (String step : steps) {
                try {
                    takeStep(admin, step.split(" "));
                } catch (ExecutionException failed) {
                    if (!(failed.getCause() instanceof ApiException)) {
                        throw failed;
                    }
                    say("error", org.apache.kafka.common.protocol.Errors.forException(failed.getCause()).name());
                }
            }
        }
    }

    private static void takeStep(Admin admin, String[] step) throws Exception {
        switch (step[0]) {
            case "create" -> {
                var topic = new NewTopic(step[1], Integer.parseInt(step[2]), (short) 1);
                admin.createTopics(List.of(topic)).all().get();
                say("created", true);
            }
            case "topic" -> {
                var described = admin.describeTopics(List.of(step[1])).allTopicNames().get();
                say("partitions", described.get(step[1]).partitions().size());
            }
            case "topics" -> say("topics", admin.listTopics().names().get().stream().sorted().toList());
            case "known" -> {
                var topic = admin.describeTopics(List.of(step[1])).allTopicNames().get().get(step[1]);
                var found = admin.describeTopics(TopicCollection.ofTopicIds(List.of(topic.topicId())));
                say("known", found.allTopicIds().get().get(topic.topicId()).name());
            }
            case "at" -> find(admin, step[1], OffsetSpec.forTimestamp(Long.parseLong(step[2])));
            case "newest" -> find(admin, step[1], OffsetSpec.maxTimestamp());
            case "grow" -> {
                admin.createPartitions(Map.of(step[1], NewPartitions.increaseTo(Integer.parseInt(step[2])))).all().get();
                say("grown", true);
            }
            case "config" -> describe(admin, new ConfigResource(ConfigResource.Type.TOPIC, step[1]), step[2]);
            case "alter" -> {
                var operation = new AlterConfigOp(new ConfigEntry(step[2], step[3]), AlterConfigOp.OpType.SET);
                var topic = new ConfigResource(ConfigResource.Type.TOPIC, step[1]);
                admin.incrementalAlterConfigs(Map.of(topic, List.of(operation))).all().get();
                say("altered", step[1]);
            }
            case "trim" -> trim(admin, new TopicPartition(step[1], 0), Long.parseLong(step[2]));
            case "commit" -> {
                var offset = new OffsetAndMetadata(Long.parseLong(step[3]));
                admin.alterConsumerGroupOffsets(step[1], Map.of(new TopicPartition(step[2], 0), offset)).all().get();
                say("committed", offset.offset());
            }
            case "groups" -> say("groups", admin.listGroups().all().get().stream()
                    .map(group -> group.groupId()).sorted().toList());
            case "group" -> describe(admin, step[1]);
            case "forget" -> {
                admin.deleteConsumerGroups(Set.of(step[1])).all().get();
                say("forgotten", step[1]);
            }
            case "delete" -> {
                admin.deleteTopics(Set.of(step[1])).all().get();
                say("deleted", step[1]);
            }
            default -> throw new IllegalArgumentException("step must be one of __init__.py's, got " + step[0]);
        }
    }

    private static void trim(Admin admin, TopicPartition partition, long offset) throws Exception {
        var deleted = admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offset)));
        long low = deleted.lowWatermarks().get(partition).get().lowWatermark();
        long high = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
        System.out.printf("{\"low\": %d, \"high\": %d}%n", low, high);
    }

    private static void find(Admin admin, String topic, OffsetSpec wanted) throws Exception {
        var partition = new TopicPartition(topic, 0);
        var found = admin.listOffsets(Map.of(partition, wanted)).partitionResult(partition).get();
        System.out.printf("{\"offset\": %d, \"timestamp\": %d}%n", found.offset(), found.timestamp());
    }

    private static void describe(Admin admin, ConfigResource resource, String name) throws Exception {
        var config = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        int source = config.source() == ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG ? 1 : 5;
        System.out.printf("{\"value\": %s, \"source\": %d}%n", json(config.value()), source);
    }

    private static void describe(Admin admin, String name) throws Exception {
        var group = admin.describeConsumerGroups(List.of(name)).describedGroups().get(name).get();
        var offsets = new TreeMap<String, Object>();
        admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get()
                .forEach((partition, offset) -> offsets.put(partition.toString(), offset.offset()));
        System.out.printf("{\"state\": %s, \"members\": %d, \"offsets\": %s}%n",
                json(group.groupState().toString()), group.members().size(), json(offsets));
    }

    private static void say(String name, Object value) {
        System.out.println("{" + json(name) + ": " + json(value) + "}");
    }

    private static String json(Object value) {
        if (value instanceof String text) {
            return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
        }
        if (value instanceof List<?> list) {
            return list.stream().map(JavaClient::json).collect(Collectors.joining(", ", "[", "]"));
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(entry -> json(entry.getKey()) + ": " + json(entry.getValue()))
                    .collect(Collectors.joining(", ", "{", "}"));
        }
        return String.valueOf(value);
    }

    private JavaClient() {}
}
