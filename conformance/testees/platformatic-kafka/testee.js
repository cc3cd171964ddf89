// Serves the record codec of @platformatic/kafka by the testee protocol, version 1.
//
// Decoding is what every fetch response goes through, encoding what goes into every produce request.

import {
  compressionsAlgorithms,
  createRecordsBatch,
  NumericMap,
  Reader,
  readRecordsBatches,
} from '@platformatic/kafka'
import lines from './lines.cjs'
import { kind, message, shown, version } from './shared.js'

const { Skipped, refusal, serve } = lines
// Bits 3, 4 and 5 of a batch's attributes: the package has no name for the first, and its older releases none for the others.
const HAS_APPEND_TIME = 0x08
const IS_TRANSACTIONAL = 0x10
const IS_CONTROL = 0x20
const compressions = Object.keys(compressionsAlgorithms).filter(name => compressionsAlgorithms[name].available)

// --- requests -----------------------------------------------------------------------------------

async function answer(request) {
  if (request.op === 'hello') return hello()
  if (request.op === 'encode') return { data: encode(request.batch) }
  if (request.op !== 'decode') throw new Skipped(`@platformatic/kafka has no operation ${request.op}`)
  return request.many === undefined ? decode(request.data) : { many: request.many.map(decode) }
}

function hello() {
  return {
    protocol: 1,
    name: 'platformatic-kafka',
    version,
    language: 'javascript',
    runtime: `node ${process.versions.node}`,
    // A fetch response may hold v0 and v1, and they are read like v2.
    decode: { magics: [0, 1, 2], compressions },
    encode: { magics: [2], compressions },
    append: false,
    many: true,
  }
}

// --- decode -------------------------------------------------------------------------------------

/** An error loses the batches before it too: `readRecordsBatches` throws. */
function decode(data) {
  try {
    return { batches: readRecordsBatches(Reader.from(Buffer.from(data, 'base64'))).map(batch) }
  } catch (error) {
    return { batches: [], error: refusal(kind(error), error) }
  }
}

/** The attributes stay raw; the package's consumer takes two bits of them by these masks. */
function batch(given) {
  return {
    magic: given.magic,
    base_offset: given.firstOffset,
    last_offset: given.firstOffset + BigInt(given.lastOffsetDelta),
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

/**
 * Offset and timestamp as `messages-stream.js` makes them of the deltas.  The codec gives no time of a record in a batch
 * of LogAppendTime; the client has a row of its own.
 */
function record(batch, { offsetDelta, timestampDelta, key, value, headers }) {
  return {
    offset: batch.firstOffset + BigInt(offsetDelta),
    timestamp: batch.attributes & HAS_APPEND_TIME ? undefined : batch.firstTimestamp + timestampDelta,
    key,
    value,
    headers: shown(headers),
  }
}

// --- encode -------------------------------------------------------------------------------------

function encode(given) {
  if (Number(given.magic ?? 2) !== 2) throw new Skipped(`createRecordsBatch writes magic 2, not ${given.magic}`)
  expressible(given)
  const options = { transactionalId: given.transactional ? 'id' : undefined }
  if (given.compression !== undefined) options.compression = given.compression
  // As its producer has them: nothing without a producer id, else what the broker gave, with sequences from 0.
  if (Number(given.producer_id ?? -1) !== -1) {
    options.producerId = BigInt(given.producer_id)
    options.producerEpoch = Number(given.producer_epoch ?? 0)
    options.sequences = new NumericMap()
  }
  return createRecordsBatch(given.records.map(each => message(each, 't', 0)), options).buffer
}

/** Throws `Skipped` for what an application cannot ask of a producer. */
function expressible(given) {
  const { control, delete_horizon, timestamp_type, base_offset, last_offset, records = [] } = given
  const anonymous = Number(given.producer_id ?? -1) === -1
  const refused = [
    [control, 'createRecordsBatch makes no control batch'],
    [(delete_horizon ?? null) !== null, 'a producer sets no delete horizon'],
    [(timestamp_type ?? 'create') !== 'create', 'createRecordsBatch writes create time'],
    [!records.length, 'createRecordsBatch takes one message or more'],
    [Number(given.partition_leader_epoch ?? -1) !== -1, 'the leader epoch is left to the broker'],
    [anonymous && (given.transactional || Number(given.producer_epoch ?? -1) > 0), 'a producer without an id has no epoch and no transaction'],
    [Number(given.base_sequence ?? -1) > 0, 'a producer counts its sequences from 0'],
  ]
  for (const [is, reason] of refused) if (is) throw new Skipped(reason)
  const counted = records.every(({ offset }, index) => Number(offset ?? index) === index)
  if (!counted || Number(base_offset ?? 0) !== 0 || Number(last_offset ?? records.length - 1) !== records.length - 1)
    throw new Skipped('the offsets of createRecordsBatch are 0, 1, 2, …')
}

serve(answer)
