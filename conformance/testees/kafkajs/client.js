'use strict'
// Reads and writes with kafkajs's own consumer and producer. The requests are those of
// kafka_conformance/process/client_testee.py.

process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const { CompressionTypes, Kafka, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')
const { Skipped, refusal, serve } = require('./lines.cjs')
const { message } = require('./messages.js')
const { Inbox, serveRecovery } = require('./application.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 16 << 20
// It tries a fetch again before it gives up, as by default, but without seconds between, and less often than the fake
// broker serves one offset.
const RETRY = { retries: 2, initialRetryTime: 1, maxRetryTime: 1, restartOnFailure: async () => false }
const TYPES = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

const producers = new Map()

function kafka(bootstrap) {
  return new Kafka({ clientId: 'kafkaproof', brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: RETRY })
}

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  if (request.op === 'produce') return produceAll(request)
  if (request.op === 'recover') return serveRecovery(request, await pushing(request))
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  const able = { magics: [0, 1, 2], compressions: Object.keys(TYPES) }
  return {
    protocol: 1,
    name: 'kafkajs-client',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: able,
    encode: able,
  }
}

/** Each request has a consumer of its own, in a group of its own. */
async function consume({ bootstrap, topic, end }) {
  const consumer = kafka(bootstrap).consumer({ groupId: topic, retry: RETRY })
  const records = []
  let size = 0
  const error = await new Promise(resolve => {
    consumer.on(consumer.events.CRASH, ({ payload }) => resolve(payload.error))
    const eachMessage = async ({ message: given }) => {
      if (given.key?.toString() === end) return resolve()
      size += 100 + (given.key?.length ?? 0) + (given.value?.length ?? 0)
      if (size < SHOWN) records.push(record(given))
    }
    consumer
      .connect()
      .then(() => consumer.subscribe({ topics: [topic], fromBeginning: true }))
      .then(() => consumer.run({ eachMessage }))
      .catch(resolve)
  })
  consumer.disconnect().catch(() => {}) // the answer does not wait for the fetch that is under way
  return error ? { records, error: refusal(kind(cause(error)), cause(error)) } : { records }
}

function record({ offset, timestamp, key, value, headers }) {
  const given = headers && Object.entries(headers).flatMap(pairs)
  return { offset: BigInt(offset), timestamp: timestamp === undefined ? undefined : BigInt(timestamp), key, value, headers: given }
}

/** A key that comes twice has an array of values; what is no bytes, as a function of every object, is shown as text. */
function pairs([key, values]) {
  return [values].flat().map(value => [Buffer.from(key), value === null ? null : shown(value)])
}

function shown(value) {
  return value instanceof Uint8Array ? value : Buffer.from(String(value))
}

async function produceAll({ bootstrap, topic, partition, batch }) {
  const messages = batch.records.map(each => ({ ...message(each), partition }))
  // Each idempotent producer gets its own id.
  const idempotent = Number(batch.producer_id ?? -1) !== -1
  const producer = idempotent ? await connected(bootstrap, true) : producers.get(bootstrap) ?? (await connected(bootstrap, false))
  if (!idempotent) producers.set(bootstrap, producer)
  try {
    await producer.send({ topic, messages, compression: TYPES[batch.compression ?? 'none'] })
  } finally {
    if (idempotent) await producer.disconnect()
  }
  return { records: [] }
}

async function connected(bootstrap, idempotent) {
  const producer = kafka(bootstrap).producer(idempotent ? { idempotent } : {})
  await producer.connect()
  return producer
}

/**
 * A consumer in an application that goes on after errors, with default settings. One that has crashed takes no seek until
 * it has started again, from committed offsets, so another one replaces it.
 */
async function pushing({ bootstrap, topic, offset }) {
  const inbox = new Inbox()
  const client = new Kafka({ clientId: 'kafkaproof', brokers: [bootstrap], logLevel: logLevel.NOTHING })
  let number = 0
  let running
  async function start(from) {
    const consumer = client.consumer({ groupId: `${topic}-${number++}` })
    const own = { consumer, hasCrashed: false }
    running = own
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      own.hasCrashed = true
      if (own === running) inbox.push({ error: payload.error })
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message: given }) => own === running && inbox.push(given) })
    consumer.seek({ topic, partition: 0, offset: String(from) })
  }
  async function seek(to) {
    if (!running.hasCrashed) return running.consumer.seek({ topic, partition: 0, offset: String(to) })
    running.consumer.disconnect().catch(() => {})
    await start(to)
  }
  await start(offset)
  return { inbox, seek, position: () => undefined }
}

/** The error that a consumer gave up over. */
function cause(error) {
  return error.cause instanceof Error ? cause(error.cause) : error
}

/** kafkajs's own errors are all named KafkaJS…; what Node or a codec throws is not caught by anything in it. */
function kind(error) {
  if (error?.name === 'KafkaJSNotImplemented') return 'unsupported_compression'
  return error?.name?.startsWith('KafkaJS') ? 'malformed' : 'other'
}

serve(answer)
