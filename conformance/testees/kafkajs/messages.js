'use strict'
// Batches of the testee protocol as messages of a kafkajs producer.

const { Skipped, bytes } = require('./lines.cjs')

/** Throws `Skipped` for what an application cannot ask of a producer. */
function expressible(given, magic) {
  const { control, delete_horizon, timestamp_type, base_offset, last_offset, records = [] } = given
  const producer = Number(given.producer_id ?? -1)
  const time = magic ? 'create' : 'none'
  const refused = [
    [control, 'a producer of kafkajs writes no control batch'],
    [(delete_horizon ?? null) !== null, 'a producer sets no delete horizon'],
    [(timestamp_type ?? time) !== time, 'kafkajs writes create time'],
    [!records.length, 'kafkajs produces no batch without records'],
    [records.some(({ timestamp }) => (timestamp ?? null) === null), 'kafkajs gives a message without a time that of the call'],
    [Number(given.partition_leader_epoch ?? -1) !== -1, 'the leader epoch is left to the broker'],
    [producer === -1 && (given.transactional || Number(given.producer_epoch ?? -1) > 0), 'a producer without an id has no epoch and no transaction'],
    [Number(given.base_sequence ?? -1) > 0, 'a producer counts its sequences from 0'],
  ]
  for (const [is, reason] of refused) if (is) throw new Skipped(reason)
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
    if (key === null) throw new Skipped('a header key is text, and this one is null')
    const name = Buffer.from(key, 'base64').toString()
    if (!Buffer.from(name).equals(Buffer.from(key, 'base64')))
      throw new Skipped('a header key is text, and this one is not UTF-8')
    found.set(name, found.has(name) ? [found.get(name), bytes(value)].flat() : bytes(value))
  }
  const object = Object.fromEntries(found)
  const back = Object.entries(object).flatMap(([name, values]) => [values].flat().map(() => name))
  if (JSON.stringify(back.map(name => Buffer.from(name).toString('base64'))) !== JSON.stringify(headers.map(([key]) => key)))
    throw new Skipped('an object has its own order of keys, so these headers cannot be given')
  return object
}

module.exports = { expressible, message }
