'use strict'
// Serves the record codec of kafkajs by the testee protocol, version 1.
//
// Decoding is what a fetch response goes through, `decodeMessages`; encoding is a whole produce request. Its result is a
// flat list of messages, so the entries that it read are watched on the way: see `watch`.
// With the argument `plugins` the codecs of other packages are plugged in: that is the testee kafkajs-plugins.

const { Skipped, refusal, serve } = require('./lines.cjs')

// --- watching -----------------------------------------------------------------------------------

// What the decoder of one format gave for each entry since `decode` began; nothing is changed on the way.
const batches = []
const entries = []
// Whether it stopped in front of a batch of v2, to fetch again from there.
let stopped = false

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
  try {
    const message = decodeMessage(offset, size, decoder)
    entries.push({ message, decoder })
    return message
  } catch (error) {
    stopped ||= error.name === 'KafkaJSUnsupportedMagicByteInMessageSet' && error.message.endsWith('magic byte: 2')
    throw error
  }
})

const { version } = require('kafkajs/package.json')
const Decoder = require('kafkajs/src/protocol/decoder')
const decodeMessages = require('kafkajs/src/protocol/requests/fetch/v4/decodeMessages')
const { CompressionTypes } = require('kafkajs')
const produceRequests = require('kafkajs/src/protocol/requests/produce')
const { plugged } = require('./codecs.js')
const { expressible, message } = require('./messages.js')

const PLUGINS = process.argv.includes('plugins')
const { readable, writable } = PLUGINS ? plugged() : { readable: ['none', 'gzip'], writable: ['none', 'gzip'] }
const TYPES = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

// --- requests -----------------------------------------------------------------------------------

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'encode') return { data: await encode(request.batch) }
  if (request.op !== 'decode') throw new Skipped(`kafkajs has no operation ${request.op}`)
  if (request.many === undefined) return decode(request.data)
  const many = []
  for (const data of request.many) many.push(await decode(data))
  return { many }
}

function hello() {
  return {
    protocol: 1,
    name: PLUGINS ? 'kafkajs-plugins' : 'kafkajs',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    decode: { magics: [0, 1, 2], compressions: readable },
    encode: { magics: [0, 1, 2], compressions: writable },
    append: false,
    many: true,
  }
}

// --- decode -------------------------------------------------------------------------------------

/** An error loses the batches before it too: `decodeMessages` throws. */
async function decode(data) {
  batches.length = entries.length = 0
  stopped = false
  try {
    const messages = await decodeMessages(inResponse(data))
    // An error that kafkajs-lz4 emits where nobody listens ends the process, and would end it over a later request.
    await new Promise(setImmediate)
    if (stopped && messages.length) return { skipped: 'decodeMessages leaves a batch of v2 behind messages to the next fetch; see kafkajs-client' }
    return { batches: batches.length ? batches.map(batch) : messageSet(new Set(messages)) }
  } catch (error) {
    return { batches: [], error: refusal(kind(error), error) }
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

/** The codec, the last offset, the magic and a delete horizon are not exposed in a batch; the magic is in its records. */
function batch(given) {
  return {
    base_offset: BigInt(given.firstOffset),
    timestamp_type: given.timestampType === 1 ? 'append' : 'create',
    max_timestamp: BigInt(given.maxTimestamp),
    producer_id: BigInt(given.producerId),
    producer_epoch: given.producerEpoch,
    base_sequence: given.firstSequence,
    transactional: given.inTransaction,
    control: given.isControlBatch,
    partition_leader_epoch: given.partitionLeaderEpoch,
    records: given.records.map(record),
    magic: given.records[0]?.magicByte,
  }
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

/** kafkajs's own errors are all named KafkaJS…; what Node or a codec throws is not caught by anything in it. */
function kind(error) {
  if (error?.name === 'KafkaJSNotImplemented') return 'unsupported_compression'
  return error?.name?.startsWith('KafkaJS') ? 'malformed' : 'other'
}

// --- encode -------------------------------------------------------------------------------------

// The version of produce requests in which kafkajs writes a magic.
const VERSION_OF = { 0: 1, 1: 2, 2: 3 }

/** What the producer sends: the records of a produce request. */
async function encode(given) {
  const magic = Number(given.magic ?? 2)
  if (!(magic in VERSION_OF)) throw new Error(`no produce request holds magic ${magic}`)
  expressible(given, magic)
  const { producer_id, producer_epoch, transactional } = given
  const partition = { partition: 0, firstSequence: 0, messages: given.records.map(each => message(each)) }
  const { request } = produceRequests.protocol({ version: VERSION_OF[magic] })({
    acks: -1,
    timeout: 1000,
    transactionalId: transactional ? 'id' : null,
    // As eosManager has them: these without a producer id, else what the broker gave.
    ...(Number(producer_id ?? -1) === -1
      ? { producerId: -1, producerEpoch: 0 }
      : { producerId: producer_id, producerEpoch: Number(producer_epoch ?? 0) }),
    compression: TYPES[given.compression ?? 'none'],
    topicData: [{ topic: 't', partitions: [partition] }],
  })
  const body = (await request.encode()).buffer
  // acks, timeout, one topic of one letter, one partition, and the size of its records; first, from magic 2 on, the
  // transactional id
  const id = magic < 2 ? 0 : transactional ? 4 : 2
  return body.subarray(id + 2 + 4 + 4 + 3 + 4 + 4 + 4)
}

serve(answer)
