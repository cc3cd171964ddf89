'use strict'
// Reads with the consumer of kafka-ts. The requests are those of kafka_conformance/process/client_testee.py.

const { AsyncLocalStorage } = require('node:async_hooks')
const { createKafkaClient, setLogger } = require('kafka-ts')
const { version } = require('kafka-ts/package.json')
const { Skipped, refusal, serve } = require('./lines.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 12 << 20
const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', ...(require('node:zlib').createZstdDecompress ? ['zstd'] : [])]

// An error of a consumer goes to the log, and nowhere else: it starts again.  The log is one for all consumers; what is logged
// belongs to the request that started the consumer.
const requests = new AsyncLocalStorage()
const error = (message, given) => requests.getStore()?.(given instanceof Error ? given : new Error(message))
setLogger({ debug() {}, info() {}, warn() {}, error })

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
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

/** Each request has a client and a consumer of its own, which has no group and reads from the beginning. */
async function consume({ bootstrap, topic, end, committed }) {
  const [host, port] = bootstrap.split(':')
  const client = createKafkaClient({ clientId: 'kafkaproof', bootstrapServers: [{ host, port: Number(port) }] })
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
  const given = { encoding: 'text', records }
  return failed ? { ...given, error: refusal(kind(failed), failed) } : given
}

/** Keys and values are text, headers an object. */
function record({ offset, timestamp, key, value, headers }) {
  return { offset, timestamp, key, value, headers: Object.entries(headers) }
}

/** Its own errors are of the class KafkaTSError; what Node or zlib throws is caught by nothing in it. */
function kind(error) {
  const own = /^KafkaTS|^ConnectionError/.test(error?.constructor?.name)
  return own ? (/magic/.test(error.message) ? 'unsupported_magic' : 'malformed') : 'other'
}

serve(answer)
