// A testee for Kafkaproof. Call your codec in decode, and describe it in hello: name, version, formats.
'use strict'
const readline = require('node:readline')

const hello = {
  protocol: 1, name: 'my-codec', version: '0.1', language: 'javascript', runtime: `node ${process.version}`, many: true,
  decode: { magics: [2], compressions: ['none'] }, encode: { magics: [], compressions: [] },
}

// ======== Your codec goes here: yields the batches in data one by one, and throws for what is refused. ========
// This small one reads uncompressed v2 batches. What your codec does not expose is left out of the objects.
// Keys, values and header keys are Buffers (or null), 64-bit numbers may be BigInts.
function * decode (data) {
  for (let at = 0; data.length - at >= 17;) {
    const end = at + 12 + data.readInt32BE(at + 8)
    if (data[at + 16] !== 2) throw refused('unsupported_magic', `magic ${data[at + 16]}`)
    if (end > data.length) return // a partial batch at the end is dropped
    const batch = data.subarray(at, end)
    if (crc32c(batch.subarray(21)) !== batch.readUInt32BE(17)) throw refused('corrupt', 'the checksum does not match')
    yield readBatch(batch)
    at = end
  }
}

function readBatch (data) {
  let at = 61
  const varint = () => {
    let number = 0n
    for (let shift = 0n; ; shift += 7n) {
      number |= BigInt(data.readUInt8(at) & 0x7f) << shift
      if (data[at++] < 0x80) return (number >> 1n) ^ -(number & 1n)
    }
  }
  const bytes = () => {
    const size = Number(varint())
    if (size < 0) return null
    if (size > data.length - at) throw refused('malformed', `${size} bytes at ${at} of ${data.length}`)
    return data.subarray(at, at += size)
  }
  const base = data.readBigInt64BE(0)
  const records = Array.from({ length: data.readInt32BE(57) }, () => {
    varint() // the record's length; its attributes follow
    at++
    const record = { timestamp: data.readBigInt64BE(27) + varint(), offset: base + varint(), key: bytes(), value: bytes() }
    return { ...record, headers: Array.from({ length: Number(varint()) }, () => [bytes(), bytes()]) }
  })
  return { magic: 2, base_offset: base, max_timestamp: data.readBigInt64BE(35), compression: 'none', records }
}

const refused = (kind, message) => Object.assign(new Error(message), { kind })
function crc32c (data) {
  const shifted = crc => crc & 1 ? crc >>> 1 ^ 0x82f63b78 : crc >>> 1
  return ~data.reduce((crc, byte) => [1, 2, 3, 4, 5, 6, 7, 8].reduce(shifted, crc ^ byte), ~0) >>> 0
}

// ======== From here on nothing has to be changed. ========
function answer (data) {
  const batches = []
  try {
    for (const batch of decode(Buffer.from(data, 'base64'))) batches.push(batch)
    return { batches }
  } catch (error) {
    return { batches, error: { kind: error.kind ?? 'malformed', message: String(error) } }
  }
}

function plain (_, value) { // Buffers as base64, BigInts marked to be written as numbers
  if (typeof value === 'bigint') return `#${value}`
  return value?.type === 'Buffer' ? Buffer.from(value).toString('base64') : value
}

readline.createInterface({ input: process.stdin }).on('line', line => {
  const { id, op, data, many } = JSON.parse(line)
  const asked = () => many ? { id, many: many.map(answer) } : { id, ...answer(data) }
  const reply = op === 'hello' ? hello : op === 'decode' ? asked() : { id, skipped: `no ${op} here` }
  console.log(JSON.stringify(reply, plain).replace(/"#(-?\d+)"/g, '$1'))
})
