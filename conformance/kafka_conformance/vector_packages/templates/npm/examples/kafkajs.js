import Decoder from 'kafkajs/src/protocol/decoder.js'
import decodeMessages from 'kafkajs/src/protocol/requests/fetch/v4/decodeMessages.js'
import { cases, run } from 'kafkaproof-vectors'

// kafkajs gives headers as an object, with an array for a key that comes twice.
const pairs = headers => Object.entries(headers).flatMap(([key, values]) => [values].flat().map(value => [Buffer.from(key), value]))

async function decode (data) {
  const size = Buffer.alloc(4) // it goes first in a fetch response
  size.writeInt32BE(data.length)
  const messages = await decodeMessages(new Decoder(Buffer.concat([size, data])))
  return messages.map(({ offset, timestamp, key, value, headers }) => (
    { offset: BigInt(offset), timestamp: BigInt(timestamp), key, value, headers: pairs(headers) }))
}

const formats = { magics: [2], compressions: ['none', 'gzip'] }
export const report = await run(cases({ profiles: ['consumer', 'integrity'], ...formats }), decode)
console.log(String(report))
