'use strict'
// Serves the record codec of kafkajs by the testee protocol, version 1.
//
// Decoding is what a fetch response goes through, `decodeMessages`; encoding is a whole produce request. Its result is a
// flat list of messages, so the entries that it read are watched on the way: see `watch`.

const readline = require('node:readline')

console.log = console.info = console.error // a library that prints must not spoil a reply

// --- watching -----------------------------------------------------------------------------------

// What the decoder of one format gave for each entry since `decode` began; nothing is changed on the way.
const batches = []
const entries = []

/** Puts a witness in front of a module of kafkajs, before anything else has loaded it. */
function watch(name, witness) {
  const path = require.resolve(`kafkajs/src/protocol/${name}`)
  const original = require(path)
  require.cache[path].exports = (...args) => witness(original, ...args)
}

watch('recordBatch/v0/decoder', async (decodeBatch, ...args) => {
  const batch = await decodeBatch(...args)
  batches.push(batch)
  return batch
})
watch('message/decoder', (decodeMessage, offset, size, decoder) => {
  const message = decodeMessage(offset, size, decoder)
  entries.push({ message, decoder })
  return message
})

const { version } = require('kafkajs/package.json')
const Decoder = require('kafkajs/src/protocol/decoder')
const decodeMessages = require('kafkajs/src/protocol/requests/fetch/v4/decodeMessages')
const { Types, Codecs } = require('kafkajs/src/protocol/message/compression')
const Batch = require('kafkajs/src/consumer/batch')
const produce = require('kafkajs/src/protocol/requests/produce/v3/request')

// --- compression --------------------------------------------------------------------------------

const TYPES = { none: Types.None, gzip: Types.GZIP, snappy: Types.Snappy, lz4: Types.LZ4, zstd: Types.ZSTD }
const readable = ['none', 'gzip', 'snappy']
const writable = ['none', 'gzip', 'snappy']

const ofCodecs = new WeakSet() // errors that came out of a codec, and not out of what reads its output

/** Plugs a codec in, as kafkajs's users do, and remembers its errors. */
function plug(type, codec) {
  const told = async work => {
    try {
      return await work()
    } catch (error) {
      if (Object(error) === error) ofCodecs.add(error)
      throw error
    }
  }
  Codecs[type] = () => ({
    compress: encoder => told(() => codec.compress(encoder)),
    decompress: buffer => told(() => codec.decompress(buffer)),
  })
}

plug(Types.GZIP, require('kafkajs/src/protocol/message/compression/gzip'))
plug(Types.Snappy, require('kafkajs-snappy')())
try {
  const LZ4 = require('kafkajs-lz4') // has native code, which loads only in the Node that it was built for
  plug(Types.LZ4, new LZ4().codec())
  readable.push('lz4')
  writable.push('lz4')
} catch (error) {
  console.error(`no lz4: ${error.message}`)
}
const { decompress } = require('fzstd') // kafkajs has no zstd of its own, and the plug-in of that name does not build
plug(Types.ZSTD, { decompress: buffer => Buffer.from(decompress(buffer)) })
readable.push('zstd')

// --- requests -----------------------------------------------------------------------------------

class Skipped extends Error {}

async function answer(line) {
  let id = ''
  try {
    const request = parse(line)
    id = request.id ?? ''
    if (request.op === 'hello') return hello()
    if (request.op === 'encode') return { id, data: await encode(request.batch) }
    if (request.op !== 'decode') return { id, skipped: `kafkajs has no operation ${request.op}` }
    if (request.aborted !== undefined) return { id, ...(await committed(request)) }
    if (request.many === undefined) return { id, ...(await decode(request.data)) }
    const many = []
    for (const data of request.many) many.push(await decode(data))
    return { id, many }
  } catch (error) {
    // A writer may say no to what it is given in any way.
    return error instanceof Skipped
      ? { id, skipped: error.message }
      : { id, error: { ...describe(error), kind: 'malformed' } }
  }
}

function hello() {
  return {
    protocol: 1,
    name: 'kafkajs',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: { magics: [0, 1, 2], compressions: readable },
    encode: { magics: [2], compressions: writable },
    append: false,
    many: true,
    committed: true,
  }
}

// --- decode -------------------------------------------------------------------------------------

/** An error loses the batches before it too: `decodeMessages` throws. */
async function decode(data) {
  batches.length = entries.length = 0
  try {
    const messages = await decodeMessages(inResponse(data))
    // An error that kafkajs-lz4 emits where nobody listens ends the process, and would end it over a later question.
    await new Promise(setImmediate)
    return { batches: batches.length ? batches.map(batch) : messageSet(new Set(messages)) }
  } catch (error) {
    endIfOutOfMemory(error)
    return { batches: [], error: describe(error) }
  }
}

/** What its consumer makes of a fetch from offset 0, which asks for committed records unless it is told otherwise. */
async function committed({ data, aborted }) {
  const transaction = ([producer, first]) => ({ producerId: String(producer), firstOffset: String(first) })
  const partition = { partition: 0, highWatermark: '0', abortedTransactions: aborted.map(transaction) }
  try {
    const messages = await decodeMessages(inResponse(data))
    const batch = new Batch('t', '0', { ...partition, messages })
    // What `runner.js` does with nothing to process: it moves on, or asks for the same again.
    const moves = !batch.isEmpty() || batch.isEmptyDueToFiltering()
    return {
      records: batch.messages.map(record),
      next_offset: moves ? BigInt(batch.lastOffset()) + 1n : 0,
      stalled: !moves,
    }
  } catch (error) {
    return { records: [], error: describe(error) }
  }
}

/** Its size goes first in a fetch response. */
function inResponse(data) {
  const records = Buffer.from(data, 'base64')
  const field = Buffer.alloc(4 + records.length)
  field.writeInt32BE(records.length)
  records.copy(field, 4)
  return new Decoder(field)
}

/** The codec, the magic and a delete horizon are not exposed in a batch; the magic is in its records. */
function batch(given) {
  const fields = {
    base_offset: BigInt(given.firstOffset),
    last_offset: BigInt.asIntN(64, BigInt(given.firstOffset) + BigInt(given.lastOffsetDelta)),
    timestamp_type: given.timestampType === 1 ? 'append' : 'create',
    max_timestamp: BigInt(given.maxTimestamp),
    producer_id: BigInt(given.producerId),
    producer_epoch: given.producerEpoch,
    base_sequence: given.firstSequence,
    transactional: given.inTransaction,
    control: given.isControlBatch,
    partition_leader_epoch: given.partitionLeaderEpoch,
    records: given.records.map(record),
  }
  if (given.records.length) fields.magic = given.records[0].magicByte
  return fields
}

/**
 * One batch for each message in the set, and one for the messages out of each wrapper. A wrapper is never delivered, so
 * nothing of its own is known.
 */
function messageSet(delivered) {
  const found = []
  const outer = entries[0]?.decoder
  for (const { message, decoder } of entries) {
    if (decoder === outer) found.push({})
    if (!delivered.has(message)) continue
    const entry = found.at(-1)
    entry.records ??= []
    entry.records.push(record(message))
    if (decoder === outer) entry.magic = message.magicByte
  }
  return found.filter(entry => entry.records)
}

function record({ offset, timestamp, key, value, headers }) {
  const fields = { offset: BigInt(offset), key, value }
  if (timestamp !== undefined) fields.timestamp = BigInt(timestamp)
  if (headers !== undefined) fields.headers = Object.entries(headers).flatMap(pairs)
  return fields
}

/** A key that comes twice has an array of values; what is no bytes, as a function of every object, is shown as text. */
function pairs([key, values]) {
  return [values].flat().map(value => [Buffer.from(key), value === null ? null : shown(value)])
}

function shown(value) {
  return value instanceof Uint8Array ? value : Buffer.from(String(value))
}

// --- encode -------------------------------------------------------------------------------------

/** What the producer sends: the records of a produce request, version 3. */
async function encode(given) {
  if (Number(given.magic ?? 2) !== 2) throw new Error(`produce requests of version 3 hold magic 2, not ${given.magic}`)
  expressible(given)
  const request = produce({
    acks: -1,
    timeout: 1000,
    transactionalId: given.transactional ? 'id' : null,
    producerId: given.producer_id ?? -1,
    producerEpoch: Number(given.producer_epoch ?? 0),
    compression: TYPES[given.compression ?? 'none'],
    topicData: [
      {
        topic: 't',
        partitions: [
          { partition: 0, firstSequence: Number(given.base_sequence ?? 0), messages: given.records.map(message) },
        ],
      },
    ],
  })
  const body = (await request.encode()).buffer
  // transactional id, acks, timeout, one topic of one letter, one partition, and the size of its records
  return body.subarray((given.transactional ? 4 : 2) + 2 + 4 + 4 + 3 + 4 + 4 + 4)
}

/** Whether a produce request can hold it; the epoch of the leader is left to the broker in any case. */
function expressible({ control, delete_horizon, timestamp_type, base_offset, last_offset, records = [] }) {
  if (control) throw new Skipped('a producer of kafkajs writes no control batch')
  if (delete_horizon !== undefined && delete_horizon !== null) throw new Skipped('a producer sets no delete horizon')
  if (timestamp_type === 'append') throw new Skipped('kafkajs always writes create time')
  if (!records.length) throw new Skipped('kafkajs produces no batch without records')
  const counted = records.every(({ offset }, index) => Number(offset ?? index) === index)
  if (!counted || Number(base_offset ?? 0) !== 0 || Number(last_offset ?? records.length - 1) !== records.length - 1)
    throw new Skipped('the offsets of a produce request are 0, 1, 2, …')
}

function message({ timestamp, key, value, headers = [] }) {
  return { timestamp: String(timestamp), key: bytes(key), value: bytes(value), headers: toObject(headers) }
}

/** Headers as kafkajs takes them: an object, with an array for a key that comes twice. */
function toObject(headers) {
  const found = new Map()
  for (const [key, value] of headers) {
    const name = Buffer.from(key, 'base64').toString()
    if (!Buffer.from(name).equals(Buffer.from(key, 'base64')))
      throw new Skipped('a header key is text, and this one is not UTF-8')
    found.set(name, found.has(name) ? [found.get(name), bytes(value)].flat() : bytes(value))
  }
  const object = Object.fromEntries(found)
  const back = Object.entries(object).flatMap(pairs)
  if (JSON.stringify(back.map(([key]) => key.toString('base64'))) !== JSON.stringify(headers.map(([key]) => key)))
    throw new Skipped('an object has its own order of keys, so these headers cannot be given')
  return object
}

function bytes(text) {
  return text === null || text === undefined ? null : Buffer.from(text, 'base64')
}

// --- errors -------------------------------------------------------------------------------------

function describe(error) {
  return { kind: kind(error), message: `${error?.name}: ${error?.message}`.slice(0, 400) }
}

/**
 * kafkajs has few errors of its own, all named KafkaJS…; a codec has its own too. What Node itself throws at either, as for
 * a read past the end, is an accident: nobody catches it.
 */
function kind(error) {
  if (error?.name === 'KafkaJSNotImplemented') return 'unsupported_compression'
  if (error?.name?.startsWith('KafkaJS')) return 'malformed'
  const accident = [TypeError, RangeError, ReferenceError].some(type => error instanceof type)
  return ofCodecs.has(error) && !accident ? 'decompression' : 'other'
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

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity }))
    process.stdout.write(json(await answer(line)) + '\n')
}

main()
