/* kafkajs in a process of its own; its verbs are described in __init__.py. NODE_PATH names its packages. */
'use strict'

const { randomUUID } = require('node:crypto')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const SnappyCodec = require('kafkajs-snappy')
const Lz4Codec = require('@2l/kafkajs-lz4')
const { ZstdCodec } = require('zstd-codec')

const ACKS = { 0: 0, 1: 1, all: -1 }
const HEARTBEAT_MS = 100
const METADATA_MS = 1000 // after which a member notices new partitions
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.LZ4] = new Lz4Codec().codec
CompressionCodecs[CompressionTypes.ZSTD] = () => { // @kafkajs/zstd builds C++ with headers that it downloads
  const opened = new Promise((resolve) => ZstdCodec.run((zstd) => resolve(new zstd.Streaming())))
  return {
    compress: async (encoder) => Buffer.from((await opened).compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from((await opened).decompress(buffer)),
  }
}

const say = (event) => process.stdout.write(JSON.stringify(event) + '\n')

async function linesOfInput() {
  const chunks = []
  for await (const chunk of process.stdin) chunks.push(chunk)
  return Buffer.concat(chunks).toString().split('\n')
}

async function produce(kafka, topic, acks, codec, idempotent, ...timestamps) {
  const producer = kafka.producer({ idempotent: idempotent === 'true' })
  await producer.connect()
  const messages = (await linesOfInput()).map((value, number) => ({ value, partition: 0, timestamp: timestamps[number] }))
  const [sent] = await producer.send({ topic, acks: ACKS[acks], compression: CODECS[codec], messages })
  say({ offset: sent ? Number(sent.baseOffset) : -1 })
  await producer.disconnect()
}

async function consume(kafka, topic, count) {
  const consumer = kafka.consumer({ groupId: randomUUID(), maxWaitTimeInMs: HEARTBEAT_MS })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  let left = Number(count)
  await new Promise((resolve) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        if (left > 0) say({ value: message.value.toString() })
        if (--left === 0) resolve()
      },
    })
  })
  await consumer.disconnect()
}

async function member(kafka, topic, groupId, sessionMs) { // it knows no group.instance.id
  const consumer = kafka.consumer({
    groupId,
    sessionTimeout: Number(sessionMs),
    heartbeatInterval: HEARTBEAT_MS,
    maxWaitTimeInMs: HEARTBEAT_MS, // it sends heartbeats between fetches
    metadataMaxAge: METADATA_MS,
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    say({ assigned: [...(payload.memberAssignment[topic] ?? [])].sort() })
  })
  process.once('SIGTERM', () => consumer.disconnect())
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      await consumer.commitOffsets([{ topic, partition, offset: String(Number(message.offset) + 1) }])
      say({ value: message.value.toString() })
    },
  })
}

const STEPS = {
  async create(admin, topic, partitions) {
    return { created: await admin.createTopics({ topics: [{ topic, numPartitions: Number(partitions) }] }) }
  },
  async topic(admin, topic) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return { partitions: topics[0].partitions.length }
  },
  async topics(admin) {
    return { topics: (await admin.listTopics()).sort() }
  },
  async trim(admin, topic, offset) {
    await admin.fetchTopicOffsets(topic) // otherwise it does not know the leader
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset }] })
    const [first] = (await admin.fetchTopicOffsets(topic)).filter(({ partition }) => partition === 0)
    return { low: Number(first.low), high: Number(first.high) }
  },
  async at(admin, topic, timestamp) {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, Number(timestamp))
    return { offset: Number(found.find(({ partition }) => partition === 0).offset) }
  },
  async grow(admin, topic, count) {
    await admin.createPartitions({ topicPartitions: [{ topic, count: Number(count) }] })
    return { grown: true }
  },
  async config(admin, topic, name) {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: [name] }]
    const { resources: [described] } = await admin.describeConfigs({ resources, includeSynonyms: false })
    const [{ configValue, configSource }] = described.configEntries
    return { value: configValue, source: configSource }
  },
  async alter(admin, topic, name, value) { // all others return to their defaults
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }]
    await admin.alterConfigs({ resources })
    return { altered: topic }
  },
  async commit(admin, group, topic, offset) {
    await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset }] })
    return { committed: Number(offset) }
  },
  async groups(admin) {
    const { groups } = await admin.listGroups()
    return { groups: groups.map(({ groupId }) => groupId).sort() }
  },
  async group(admin, group) {
    const { groups } = await admin.describeGroups([group])
    const committed = await admin.fetchOffsets({ groupId: group })
    const offsets = {}
    for (const { topic, partitions } of committed) {
      for (const { partition, offset } of partitions) offsets[`${topic}-${partition}`] = Number(offset)
    }
    return { state: groups[0].state, members: groups[0].members.length, offsets }
  },
  async forget(admin, group) {
    await admin.deleteGroups([group])
    return { forgotten: group }
  },
  async delete(admin, topic) {
    await admin.deleteTopics({ topics: [topic] })
    return { deleted: topic }
  },
}

async function admin(kafka, ...steps) {
  const client = kafka.admin()
  await client.connect()
  for (const step of steps) {
    const [name, ...values] = step.split(' ')
    try {
      say(await STEPS[name](client, ...values))
    } catch (refused) {
      const [part] = refused.cause?.partitions ?? refused.partitions ?? refused.groups ?? []
      say({ error: part?.error.type ?? refused.type ?? String(refused) })
    }
  }
  await client.disconnect()
}

async function main() {
  const [verb, address, ...values] = process.argv.slice(2)
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING })
  await { produce, consume, member, admin }[verb](kafka, ...values)
}

main().catch((failed) => {
  console.error(failed)
  process.exit(1)
})
