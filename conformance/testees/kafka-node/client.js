'use strict'
// Reads and writes with kafka-node's own Consumer and Producer. The requests are those of
// kafka_conformance/process/client_testee.py.

const { Consumer, KafkaClient, Producer } = require('kafka-node')
const { version } = require('kafka-node/package.json')
const { Skipped, bytes, refusal, serve } = require('./lines.cjs')
const { Inbox, serveRecovery } = require('./application.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 16 << 20
// Bytes are an option: by default keys and values are text.
const OPTIONS = { fromOffset: true, autoCommit: false, encoding: 'buffer', keyEncoding: 'buffer' }
// snappy is an optional dependency, which kafka-node-snappy has; others kafka-node does not have.
const SNAPPY = process.argv[2] === 'snappy'
const ATTRIBUTES = SNAPPY ? { none: 0, gzip: 1, snappy: 2 } : { none: 0, gzip: 1 }

const producers = new Map()

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  if (request.op === 'produce') return produce(request)
  if (request.op === 'recover') return serveRecovery(request, pushing(request))
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  if (SNAPPY) require('snappy') // kafka-node goes on without it, and this testee ends with Node's message
  // It fetches and produces with version 2 at most.
  const able = { magics: [0, 1], compressions: Object.keys(ATTRIBUTES) }
  return {
    protocol: 1,
    name: SNAPPY ? 'kafka-node-snappy' : 'kafka-node',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: able,
    encode: able,
  }
}

/**
 * Each request has a client and a consumer of its own, which reads from an offset, without a group.  What the library throws
 * in a callback of its socket ends the process, as it ends that of a user.
 */
async function consume({ bootstrap, topic, partition, offset, end }) {
  const client = new KafkaClient({ kafkaHost: bootstrap })
  const records = []
  let size = 0
  const error = await new Promise(resolve => {
    const consumer = new Consumer(client, [{ topic, partition, offset }], OPTIONS)
    consumer.on('error', resolve)
    consumer.on('message', given => {
      if (given.key?.toString() === end) return resolve()
      size += 100 + (given.key?.length ?? 0) + (given.value?.length ?? 0)
      if (size < SHOWN) records.push(record(given))
    })
  })
  client.close(() => {}) // the answer does not wait for the fetch that is under way
  return error ? { records, error: refusal(kind(error), error) } : { records }
}

/** A message without a `timestamp` has none; a time that no Date holds is an invalid Date. */
function record({ offset, timestamp, key, value }) {
  const time = Number(timestamp)
  return { offset, timestamp: Number.isNaN(time) ? null : time, key, value }
}

/** Each record is a payload, which has its own key and time; the producer puts those of a partition together. */
async function produce({ bootstrap, topic, partition, batch }) {
  if (batch.records.some(({ headers }) => headers?.length)) throw new Skipped('a message of this client has no headers')
  const attributes = ATTRIBUTES[batch.compression ?? 'none']
  const payloads = batch.records.map(({ timestamp, key, value }) => {
    const payload = { topic, partition, attributes, key: bytes(key), messages: [bytes(value)] }
    return batch.magic ? { ...payload, timestamp: milliseconds(timestamp) } : payload
  })
  const producer = producers.get(bootstrap) ?? (await connected(bootstrap))
  producers.set(bootstrap, producer)
  await new Promise((resolve, reject) => producer.send(payloads, error => (error ? reject(error) : resolve())))
  return { records: [] }
}

function milliseconds(timestamp) {
  const time = Number(timestamp)
  if (!Number.isSafeInteger(time)) throw new Skipped('a time is a number, and this one is beyond those that a number holds exactly')
  return time
}

function connected(bootstrap) {
  const producer = new Producer(new KafkaClient({ kafkaHost: bootstrap }))
  return new Promise((resolve, reject) => producer.on('error', reject).on('ready', () => resolve(producer)))
}

/** A consumer in an application that goes on after errors. */
function pushing({ bootstrap, topic, partition, offset }) {
  const inbox = new Inbox()
  const consumer = new Consumer(new KafkaClient({ kafkaHost: bootstrap }), [{ topic, partition, offset }], OPTIONS)
  consumer.on('error', error => inbox.push({ error }))
  consumer.on('message', given => inbox.push(given))
  const seek = async to => consumer.setOffset(topic, partition, to)
  return { inbox, seek, position: () => undefined }
}

/** kafka-node's own errors; what Node or zlib throws is caught by nothing in it. */
function kind(error) {
  return ['MessageSizeTooLarge', 'BrokerNotAvailableError', 'TimeoutError'].includes(error?.name) ? 'malformed' : 'other'
}

serve(answer)
