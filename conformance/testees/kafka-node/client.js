'use strict'
// Reads with kafka-node's own Consumer. The requests are those of kafka_conformance/process/client_testee.py.

const { Consumer, KafkaClient } = require('kafka-node')
const { version } = require('kafka-node/package.json')
const { Skipped, refusal, serve } = require('./lines.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 12 << 20
// Bytes are an option: by default keys and values are text.
const BYTES = { encoding: 'buffer', keyEncoding: 'buffer' }

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  return {
    protocol: 1,
    name: 'kafka-node',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    // snappy is an optional dependency, whose newest fitting release does not build any more; others it does not have.
    decode: { magics: [0, 1], compressions: ['none', 'gzip'] },
    encode: { magics: [], compressions: [] },
  }
}

/** Each request has a client and a consumer of its own, which reads from an offset, without a group. */
async function consume({ bootstrap, topic, partition, offset, end }) {
  const client = new KafkaClient({ kafkaHost: bootstrap, autoConnect: true })
  const records = []
  let size = 0
  const error = await new Promise(resolve => {
    // What it throws from a socket's callback reaches nobody else.
    process.removeAllListeners('uncaughtException').once('uncaughtException', resolve)
    const consumer = new Consumer(client, [{ topic, partition, offset }], { fromOffset: true, autoCommit: false, ...BYTES })
    consumer.on('error', resolve)
    consumer.on('message', given => {
      if (given.key?.toString() === end) return resolve()
      size += 100 + (given.key?.length ?? 0) + (given.value?.length ?? 0)
      if (size < SHOWN) records.push(record(given))
    })
  })
  process.removeAllListeners('uncaughtException').on('uncaughtException', () => {})
  client.close(() => {}) // the answer does not wait for the fetch that is under way
  return error ? { records, error: refusal(kind(error), error) } : { records }
}

/** A message without a `timestamp` has none; a time that no Date holds is an invalid Date. */
function record({ offset, timestamp, key, value }) {
  const time = Number(timestamp)
  return { offset, timestamp: Number.isNaN(time) ? null : time, key, value }
}

/** kafka-node's own errors; what Node or zlib throws is caught by nothing in it. */
function kind(error) {
  return ['MessageSizeTooLarge', 'BrokerNotAvailableError', 'TimeoutError'].includes(error?.name) ? 'malformed' : 'other'
}

serve(answer)
