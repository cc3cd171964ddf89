// Serves the record codec of @platformatic/kafka by the testee protocol, version 1.
//
// Decoding is what every fetch response goes through, encoding what goes into every produce request.

import { readFileSync } from 'node:fs'
import readline from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  compressionsAlgorithms,
  Consumer,
  createRecordsBatch,
  IS_COMPRESSED,
  IS_CONTROL,
  IS_TRANSACTIONAL,
  NumericMap,
  Reader,
  readRecordsBatches,
} from '@platformatic/kafka'

console.log = console.info = console.error // a library that prints must not spoil a reply

const manifest = new URL('../package.json', import.meta.resolve('@platformatic/kafka'))
const { version } = JSON.parse(readFileSync(fileURLToPath(manifest)))
// Private to the package, which has no other way to give a consumer a fetch response.
const { kGetApi, kMetadata, kPerformWithRetry } = await import(new URL('./dist/clients/base/base.js', manifest).href)
const compressions = Object.keys(compressionsAlgorithms).filter(name => compressionsAlgorithms[name].available)

const TOPIC = '00000000-0000-0000-0000-000000000001'

const ofCodecs = new WeakSet() // errors that came out of a codec, and not out of what reads its output
for (const algorithm of Object.values(compressionsAlgorithms)) {
  const original = algorithm.decompressSync
  algorithm.decompressSync = data => {
    try {
      return original(data)
    } catch (error) {
      if (Object(error) === error) ofCodecs.add(error)
      throw error
    }
  }
}

// --- requests -----------------------------------------------------------------------------------

class Skipped extends Error {}

async function answer(line) {
  let id = ''
  try {
    const request = parse(line)
    id = request.id ?? ''
    if (request.op === 'hello') return hello()
    if (request.op === 'encode') return { id, data: encode(request.batch) }
    if (request.op !== 'decode') return { id, skipped: `@platformatic/kafka has no operation ${request.op}` }
    if (request.aborted !== undefined) return { id, ...(await committed(request)) }
    return request.many === undefined ? { id, ...decode(request.data) } : { id, many: request.many.map(decode) }
  } catch (error) {
    // A writer may say no to what it is given in any way.
    return error instanceof Skipped
      ? { id, skipped: error.message }
      : { id, error: { ...describe(error), kind: 'malformed' } }
  }
}

function hello() {
  const able = { magics: [2], compressions }
  return {
    protocol: 1,
    name: 'platformatic-kafka',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: able,
    encode: able,
    append: false,
    many: true,
    committed: true,
  }
}

// --- decode -------------------------------------------------------------------------------------

/** An error loses the batches before it too: `readRecordsBatches` throws. */
function decode(data) {
  try {
    return { batches: readRecordsBatches(Reader.from(Buffer.from(data, 'base64'))).map(batch) }
  } catch (error) {
    endIfOutOfMemory(error)
    return { batches: [], error: describe(error) }
  }
}

/** A consumer that gets *response* to its next fetch, from a cluster of one broker. */
function fetching(response) {
  const consumer = new Consumer({ clientId: 'kafkaproof', groupId: 'kafkaproof', bootstrapBrokers: ['127.0.0.1:9'] })
  consumer[kPerformWithRetry] = (_name, operation, callback) => operation(callback)
  consumer[kMetadata] = (_options, callback) => callback(null, { brokers: new Map([[0, {}]]), topics: new Map() })
  consumer[kGetApi] = (_name, callback) => callback(null, (...fetch) => fetch.at(-1)(null, response))
  return consumer
}

/** `Consumer.fetch`, which reads committed records unless it is told otherwise, and then as `messages-stream.js` goes on. */
async function committed({ data, aborted }) {
  try {
    const abortedTransactions = aborted.map(([id, first]) => ({ producerId: BigInt(id), firstOffset: BigInt(first) }))
    const records = readRecordsBatches(Reader.from(Buffer.from(data, 'base64')))
    const response = { responses: [{ topicId: TOPIC, partitions: [{ partitionIndex: 0, records, abortedTransactions }] }] }
    const asked = { partition: 0, currentLeaderEpoch: -1, fetchOffset: 0n, lastFetchedEpoch: -1, partitionMaxBytes: 1 }
    const connectionPool = { get: (_broker, callback) => callback(null, {}) }
    const fetched = await fetching(response).fetch({ node: 0, topics: [{ topicId: TOPIC, partitions: [asked] }], connectionPool })
    const batches = fetched.responses[0].partitions[0].records.filter(each => !(each.attributes & IS_CONTROL))
    return { records: batches.flatMap(each => each.records.map(every => record(each, every))) }
  } catch (error) {
    return { records: [], error: describe(error) }
  }
}

/** The attributes stay raw; of their bits the package names three. */
function batch(given) {
  const bits = given.attributes & IS_COMPRESSED
  return {
    magic: given.magic,
    base_offset: given.firstOffset,
    last_offset: given.firstOffset + BigInt(given.lastOffsetDelta),
    compression: compressions.find(name => compressionsAlgorithms[name].bitmask === bits),
    max_timestamp: given.maxTimestamp,
    producer_id: given.producerId,
    producer_epoch: given.producerEpoch,
    base_sequence: given.firstSequence,
    transactional: (given.attributes & IS_TRANSACTIONAL) !== 0,
    control: (given.attributes & IS_CONTROL) !== 0,
    partition_leader_epoch: given.partitionLeaderEpoch,
    records: given.records.map(each => record(given, each)),
  }
}

/** Offset and timestamp as `messages-stream.js` makes them of the deltas. */
function record(batch, { offsetDelta, timestampDelta, key, value, headers }) {
  return {
    offset: batch.firstOffset + BigInt(offsetDelta),
    timestamp: batch.firstTimestamp + timestampDelta,
    key,
    value,
    headers: headers.map(([name, content]) => [name ?? Buffer.of(), content]),
  }
}

// --- encode -------------------------------------------------------------------------------------

function encode(given) {
  if (Number(given.magic ?? 2) !== 2) throw new Error(`createRecordsBatch writes magic 2, not ${given.magic}`)
  expressible(given)
  const options = {
    compression: given.compression ?? 'none',
    producerId: BigInt(given.producer_id ?? -1),
    producerEpoch: Number(given.producer_epoch ?? -1),
    partitionLeaderEpoch: Number(given.partition_leader_epoch ?? -1),
    sequences: new NumericMap([['t:0', Number(given.base_sequence ?? -1)]]),
    transactionalId: given.transactional ? 'id' : undefined,
  }
  return createRecordsBatch(given.records.map(message), options).buffer
}

/** Whether messages and options can say it. */
function expressible({ control, delete_horizon, timestamp_type, base_offset, last_offset, records = [] }) {
  if (control) throw new Skipped('createRecordsBatch makes no control batch')
  if (delete_horizon !== undefined && delete_horizon !== null) throw new Skipped('a producer sets no delete horizon')
  if (timestamp_type === 'append') throw new Skipped('createRecordsBatch always writes create time')
  if (!records.length) throw new Skipped('createRecordsBatch takes one message or more')
  const counted = records.every(({ offset }, index) => Number(offset ?? index) === index)
  if (!counted || Number(base_offset ?? 0) !== 0 || Number(last_offset ?? records.length - 1) !== records.length - 1)
    throw new Skipped('the offsets of createRecordsBatch are 0, 1, 2, …')
}

function message({ timestamp, key, value, headers = [] }) {
  return {
    topic: 't',
    partition: 0,
    timestamp: BigInt(timestamp),
    key: bytes(key),
    value: bytes(value),
    headers: new Map(headers.map(([name, content]) => [bytes(name), bytes(content)])),
  }
}

function bytes(text) {
  return text === null || text === undefined ? null : Buffer.from(text, 'base64')
}

// --- errors -------------------------------------------------------------------------------------

function describe(error) {
  return { kind: kind(error), message: `${error?.name}: ${error?.message}`.slice(0, 400) }
}

/** By class and code. What Node and WebAssembly themselves throw, as for a trap in a codec, is an accident: nobody catches it. */
function kind(error) {
  if (error?.code === 'PLT_KFK_UNSUPPORTED_COMPRESSION') return 'unsupported_compression'
  if (error?.code === 'OUT_OF_BOUNDS') return 'truncated'
  const accident = [TypeError, RangeError, WebAssembly.RuntimeError].some(type => error instanceof type)
  if (!accident && ofCodecs.has(error)) return 'decompression'
  return !accident && error?.code?.startsWith('PLT_KFK') ? 'malformed' : 'other'
}

/** An allocation that fails is the end of a process; Node makes an error of some, so that ours has to end it. */
function endIfOutOfMemory(error) {
  if (error instanceof RangeError && /allocation failed|Invalid typed array length/.test(error.message)) {
    console.error(`out of memory: ${error.message}`)
    process.exit(1)
  }
}

// --- JSON ---------------------------------------------------------------------------------------

/** Integers that a double does not hold stay text, so that they can become a BigInt; no string has a number like it. */
function parse(line) {
  return JSON.parse(line.replace(/([:,[])(-?\d{16,})(?=[,}\]])/g, '$1"$2"'))
}

/** JSON with bytes as base64 and every BigInt as a plain number. */
function json(value) {
  if (value instanceof Uint8Array) return `"${Buffer.from(value).toString('base64')}"`
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return `[${value.map(json).join()}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const given = Object.entries(value).filter(([, each]) => each !== undefined)
  return `{${given.map(([name, each]) => `${JSON.stringify(name)}:${json(each)}`).join()}}`
}

for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity }))
  process.stdout.write(json(await answer(line)) + '\n')
