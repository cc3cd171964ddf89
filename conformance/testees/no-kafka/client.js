'use strict'
// Reads and writes with no-kafka's own SimpleConsumer and Producer. The requests are those of
// kafka_conformance/process/client_testee.py.

const { COMPRESSION_GZIP, COMPRESSION_NONE, COMPRESSION_SNAPPY, Producer, SimpleConsumer } = require('no-kafka')
const { version } = require('no-kafka/package.json')
const { Skipped, bytes, refusal, serve } = require('./lines.cjs')
const { Inbox, serveRecovery } = require('./application.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 16 << 20
// It fetches again at once, where the default waits a second.
const IDLE = 1
// snappy is a package that users add: no-kafka-snappy has it.
const SNAPPY = process.argv[2] === 'snappy'
const CODECS = {
  none: COMPRESSION_NONE,
  gzip: COMPRESSION_GZIP,
  ...(SNAPPY ? { snappy: COMPRESSION_SNAPPY } : {}),
}
// It logs this and still hands the set to the handler, with `undefined` in place of the message.
const HANDED_ON = 'Failed to decompress message at'
const HANDLER_FAILED = 'Handler for'

const producers = new Map()

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  if (request.op === 'produce') return produce(request)
  if (request.op === 'recover') return serveRecovery(request, await pushing(request))
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  if (SNAPPY) require('snappy') // no-kafka goes on without it, and this testee ends with Node's message
  // It fetches with version 0, and produces with version 1: both are of v0 only.
  const able = { magics: [0], compressions: Object.keys(CODECS) }
  return {
    protocol: 1,
    name: SNAPPY ? 'no-kafka-snappy' : 'no-kafka',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: able,
    encode: able,
  }
}

/**
 * Each request has a consumer of its own, with the handler of a plain application.  The consumer catches what the handler
 * throws, and goes on; to the application it is an error.  Other errors go to the log, at the level of errors, and nowhere else.
 */
async function consume({ bootstrap, topic, partition, offset, end }) {
  const records = []
  let size = 0
  let logged
  let consumer
  const error = await new Promise(resolve => {
    const logFunction = (level, ...words) => {
      if (level !== 'ERROR') return
      logged ??= words.find(each => each instanceof Error) ?? new Error(words.map(String).join(' '))
      if (!words.includes(HANDED_ON)) resolve(logged)
    }
    const deliver = messageSet => {
      for (const given of messageSet) {
        const key = given.message.key
        const value = given.message.value
        if (key?.toString() === end) return resolve(logged)
        size += 100 + (key?.length ?? 0) + (value?.length ?? 0)
        if (size < SHOWN) records.push({ offset: given.offset, key, value })
      }
    }
    consumer = new SimpleConsumer({ connectionString: bootstrap, idleTimeout: IDLE, logger: { logLevel: 2, logFunction } })
    consumer
      .init()
      .then(() => consumer.subscribe(topic, partition, { offset }, noting(deliver, resolve)))
      .catch(resolve)
  })
  Promise.resolve(consumer.end()).catch(() => {}) // the answer does not wait for the fetch that is under way
  return error ? { records, error: refusal(kind(error), error) } : { records }
}

/** The handler *deliver*, which throws on, and gives what it throws to *note*. */
function noting(deliver, note) {
  return messageSet => {
    try {
      deliver(messageSet)
    } catch (error) {
      note(error)
      throw error
    }
  }
}

async function produce({ bootstrap, topic, partition, batch }) {
  if (batch.records.some(({ headers }) => headers?.length)) throw new Skipped('a message of this client has no headers')
  const data = batch.records.map(({ key, value }) => ({ topic, partition, message: { key: bytes(key), value: bytes(value) } }))
  const producer = producers.get(bootstrap) ?? (await connected(bootstrap))
  producers.set(bootstrap, producer)
  const results = await producer.send(data, { codec: CODECS[batch.compression ?? 'none'] })
  const failed = results.find(({ error }) => error)
  if (failed) throw failed.error
  return { records: [] }
}

async function connected(bootstrap) {
  const producer = new Producer({ connectionString: bootstrap, logger: { logLevel: 0 } })
  await producer.init()
  return producer
}

/**
 * A consumer in an application that goes on after errors, with default settings.  Of most errors its log is the only sign, at
 * the levels of errors and of warnings.  There is no seek: the application subscribes again, from another offset.
 */
async function pushing({ bootstrap, topic, partition, offset }) {
  const inbox = new Inbox()
  const logFunction = (level, ...words) => {
    if (level !== 'ERROR' && level !== 'WARN') return
    // What is wrong with a set that the handler still gets, it notices itself; what it throws is logged, too.
    if (!words.includes(HANDED_ON) && !words.includes(HANDLER_FAILED)) inbox.push({ error: lineOf(words) })
  }
  const consumer = new SimpleConsumer({ connectionString: bootstrap, logger: { logFunction } })
  const deliver = messageSet => {
    for (const given of messageSet) inbox.push({ offset: given.offset, key: given.message.key, value: given.message.value })
  }
  const note = error => inbox.push({ error })
  const seek = to => consumer.subscribe(topic, partition, { offset: to }, noting(deliver, note))
  await consumer.init()
  await seek(offset)
  return { inbox, seek, position: () => undefined }
}

/** A line of the log as an error, with the name of the error in it. */
function lineOf([, ...words]) {
  const error = new Error(words.map(String).join(' '))
  error.name = words.find(each => each instanceof Error)?.name ?? 'Error'
  return error
}

/** no-kafka's own errors are named NoKafka…, or Kafka…; what Node, zlib or the handler throws is none of these. */
function kind(error) {
  return /^(NoKafka|Kafka)/.test(error?.name) ? 'malformed' : 'other'
}

serve(answer)
