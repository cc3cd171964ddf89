'use strict'
// Reads with no-kafka's own SimpleConsumer. The requests are those of kafka_conformance/process/client_testee.py.

const { SimpleConsumer } = require('no-kafka')
const { version } = require('no-kafka/package.json')
const { Skipped, refusal, serve } = require('./lines.cjs')

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 12 << 20
// It fetches again at once, where the default waits a second.
const IDLE = 1

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  return {
    protocol: 1,
    name: 'no-kafka',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    // It fetches with version 0 only. snappy is a package that users add.
    decode: { magics: [0], compressions: ['none', 'gzip'] },
    encode: { magics: [], compressions: [] },
  }
}

/** Each request has a consumer of its own.  Errors of a fetch go to its log, at the level of errors, and nowhere else. */
async function consume({ bootstrap, topic, partition, offset, end }) {
  const records = []
  let size = 0
  let consumer
  const error = await new Promise(resolve => {
    const logFunction = (level, ...words) => {
      if (level === 'ERROR') resolve(words.find(each => each instanceof Error) ?? new Error(words.map(String).join(' ')))
    }
    consumer = new SimpleConsumer({ connectionString: bootstrap, idleTimeout: IDLE, logger: { logLevel: 2, logFunction } })
    const handler = messageSet => {
      for (const given of messageSet) {
        const { key, value } = given.message
        if (key?.toString() === end) return resolve()
        size += 100 + (key?.length ?? 0) + (value?.length ?? 0)
        if (size < SHOWN) records.push({ offset: given.offset, key, value })
      }
    }
    consumer
      .init()
      .then(() => consumer.subscribe(topic, partition, { offset }, handler))
      .catch(resolve)
  })
  Promise.resolve(consumer.end()).catch(() => {}) // the answer does not wait for the fetch that is under way
  return error ? { records, error: refusal(kind(error), error) } : { records }
}

/** no-kafka's own errors are named NoKafka…, or Kafka…; what Node or zlib throws is caught by nothing in it. */
function kind(error) {
  return /^(NoKafka|Kafka)/.test(error?.name) ? 'malformed' : 'other'
}

serve(answer)
