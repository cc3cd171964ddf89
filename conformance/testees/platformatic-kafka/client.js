// Reads and writes with the Consumer and the Producer of @platformatic/kafka. The requests are those of
// kafka_conformance/process/client_testee.py.

import { compressionsAlgorithms, Consumer, MessagesStreamModes, Producer } from '@platformatic/kafka'
import application from './application.cjs'
import lines from './lines.cjs'
import { kind, message, shown, version } from './shared.js'

const { Skipped, refusal, serve } = lines

// Of a flood of records the first are shown; the consumer reads on to its end.
const SHOWN = 16 << 20
// It tries a fetch again before it gives up, as by default, but without seconds between, and less often than the fake
// broker serves one offset.
const RETRY = { retries: 2, retryDelay: 1 }

const producers = new Map()

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'consume') return consume(request)
  if (request.op === 'produce') return produce(request)
  if (request.op === 'recover') return application.serveRecovery(request, await pushing(request))
  throw new Skipped(`no operation ${request.op}`)
}

function hello() {
  const compressions = Object.keys(compressionsAlgorithms).filter(name => compressionsAlgorithms[name].available)
  return {
    protocol: 1,
    name: 'platformatic-kafka-client',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: { magics: [0, 1, 2], compressions },
    encode: { magics: [2], compressions },
  }
}

/** Each request has a consumer of its own, in a group of its own. */
async function consume({ bootstrap, topic, partition, offset, end }) {
  const consumer = new Consumer({ clientId: 'kafkaproof', groupId: topic, bootstrapBrokers: [bootstrap], ...RETRY })
  const records = []
  let size = 0
  try {
    const offsets = [{ topic, partition, offset: BigInt(offset) }]
    const stream = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.MANUAL, offsets })
    for await (const given of stream) {
      if (given.key?.toString() === end) break
      size += 100 + (given.key?.length ?? 0) + (given.value?.length ?? 0)
      if (size < SHOWN) records.push(record(given))
    }
    return { records }
  } catch (error) {
    return { records, error: refusal(kind(cause(error)), cause(error)) }
  } finally {
    consumer.close(true, () => {}) // the answer does not wait for the fetch that is under way
  }
}

/** A null is given as undefined. */
function record({ offset, timestamp, key, value, headerEntries }) {
  return { offset, timestamp, key: key ?? null, value: value ?? null, headers: shown(headerEntries) }
}

async function produce({ bootstrap, topic, partition, batch }) {
  const messages = batch.records.map(each => message(each, topic, partition))
  // Each idempotent producer gets its own id.
  const idempotent = Number(batch.producer_id ?? -1) !== -1
  const options = { clientId: 'kafkaproof', bootstrapBrokers: [bootstrap], ...RETRY }
  const producer = idempotent
    ? new Producer({ ...options, idempotent })
    : producers.get(bootstrap) ?? new Producer(options)
  if (!idempotent) producers.set(bootstrap, producer)
  try {
    await producer.send({ messages, compression: batch.compression ?? 'none' })
  } finally {
    if (idempotent) await producer.close(true)
  }
  return { records: [] }
}

/** A consumer in an application that goes on after errors, with default settings; a stream that has ended is replaced. */
async function pushing({ bootstrap, topic, offset }) {
  const inbox = new application.Inbox()
  const consumer = new Consumer({ clientId: 'kafkaproof', groupId: topic, bootstrapBrokers: [bootstrap] })
  let stream
  async function start(from) {
    const offsets = [{ topic, partition: 0, offset: BigInt(from) }]
    const started = await consumer.consume({ topics: [topic], mode: MessagesStreamModes.MANUAL, offsets })
    started.on('data', given => started === stream && inbox.push(given))
    started.on('error', error => started === stream && inbox.push({ error }))
    return started
  }
  async function seek(to) {
    const old = stream
    stream = undefined
    if (!old.destroyed) await old.close()
    stream = await start(to)
  }
  stream = await start(offset)
  return { inbox, seek, position: () => undefined }
}

/** The error that a request was given up over: the last of all tries. */
function cause(error) {
  if (error?.errors?.length) return cause(error.errors.at(-1))
  return error?.cause instanceof Error ? cause(error.cause) : error
}

serve(answer)
