'use strict'
// Reads with the consumer of kafka-ts. The requests are those of kafka_conformance/process/client_testee.py.

const { AsyncLocalStorage } = require('node:async_hooks')
const { API, createKafkaClient, setLogger } = require('kafka-ts')
const { version } = require('kafka-ts/package.json')
const { Skipped, refusal, serve } = require('./lines.cjs')
const { Inbox, serveRecovery } = require('./application.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 16 << 20
const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', ...(require('node:zlib').createZstdDecompress ? ['zstd'] : [])]

// An error of a consumer goes to the log, and nowhere else: it starts again.  The log is one for all consumers; what is logged
// belongs to the request that started the consumer.
const requests = new AsyncLocalStorage()
const error = (message, given) => requests.getStore()?.(given instanceof Error ? given : new Error(message))
setLogger({ debug() {}, info() {}, warn() {}, error })

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  if (request.op === 'recover') return serveRecovery(request, await pushing(request))
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  return {
    protocol: 1,
    name: 'kafka-ts',
    version,
    language: 'typescript',
    runtime: `node ${process.versions.node}`,
    decode: { magics: [2], compressions: COMPRESSIONS },
    encode: { magics: [], compressions: [] },
  }
}

function connected(bootstrap) {
  const [host, port] = bootstrap.split(':')
  return createKafkaClient({ clientId: 'kafkaproof', bootstrapServers: [{ host, port: Number(port) }] })
}

/** Each request has a client and a consumer of its own, which has no group and reads from the beginning. */
async function consume({ bootstrap, topic, end, committed }) {
  const client = connected(bootstrap)
  const records = []
  let size = 0
  let consumer
  const failed = await new Promise(resolve => {
    const onBatch = messages => {
      for (const given of messages) {
        if (given.key === end) return resolve()
        size += 100 + (given.key?.length ?? 0) + (given.value?.length ?? 0)
        if (size < SHOWN) records.push(record(given))
      }
    }
    // Committed records are the default.
    const level = committed ? {} : { isolationLevel: 0 }
    requests.run(resolve, () => {
      client
        .startConsumer({ topics: [topic], fromBeginning: true, onBatch, ...level })
        .then(started => (consumer = started))
        .catch(resolve)
    })
  })
  consumer?.close(true).catch(() => {}) // the answer does not wait for the fetch that is under way
  return failed ? { records, error: refusal(kind(failed), failed) } : { records }
}

/** Keys and values are text, headers an object of texts: an application that needs bytes makes them of these. */
function record({ offset, timestamp, key, value, headers }) {
  const pairs = Object.entries(headers).map(each => each.map(toBytes))
  return { offset, timestamp, key: toBytes(key), value: toBytes(value), headers: pairs }
}

function toBytes(text) {
  return text === null ? null : Buffer.from(text)
}

/**
 * A consumer in an application that goes on after errors, with default settings and a group.  Its log is the only sign of
 * errors.  There is no seek: the application closes the consumer, commits another offset for the group with the low-level API,
 * and starts a consumer again.
 */
async function pushing({ bootstrap, topic, partition, offset }) {
  const inbox = new Inbox()
  const client = connected(bootstrap)
  let running
  async function start() {
    const own = {}
    running = own
    const onBatch = messages => {
      for (const given of messages) if (own === running) inbox.push(given)
    }
    const push = given => own === running && inbox.push({ error: given })
    own.consumer = await requests.run(push, () => client.startConsumer({ groupId: topic, topics: [topic], fromBeginning: true, onBatch }))
  }
  async function seek(to) {
    const old = running
    running = undefined
    await old.consumer?.close()
    await commit(to)
    await start()
  }
  async function commit(committedOffset) {
    const cluster = client.createCluster()
    await cluster.connect()
    const partitions = [
      { partitionIndex: partition, committedOffset: BigInt(committedOffset), committedLeaderEpoch: -1, committedMetadata: null },
    ]
    await cluster.sendRequest(API.OFFSET_COMMIT, {
      groupId: topic,
      generationIdOrMemberEpoch: -1,
      memberId: '',
      groupInstanceId: null,
      topics: [{ name: topic, topicId: '', partitions }],
    })
    await cluster.disconnect()
  }
  await start()
  if (offset) await seek(offset)
  return { inbox, seek, position: () => undefined }
}

/** Its own errors are of the class KafkaTSError; what Node or zlib throws is caught by nothing in it. */
function kind(error) {
  const own = /^KafkaTS|^ConnectionError/.test(error?.constructor?.name)
  return own ? (/magic/.test(error.message) ? 'unsupported_magic' : 'malformed') : 'other'
}

serve(answer)
