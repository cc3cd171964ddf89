// What the testees of @platformatic/kafka share: its version, messages, and errors.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import lines from './lines.cjs'

const { Skipped, bytes } = lines

const manifest = new URL('../package.json', import.meta.resolve('@platformatic/kafka'))
export const { version } = JSON.parse(readFileSync(fileURLToPath(manifest)))

/** A record of a request as a message of a producer. */
export function message({ timestamp, key, value, headers = [] }, topic, partition) {
  if ((timestamp ?? null) === null) throw new Skipped('a message without a time gets that of the call')
  return {
    topic,
    partition,
    timestamp: BigInt(timestamp),
    key: bytes(key),
    value: bytes(value),
    headers: new Map(headers.map(([name, content]) => [bytes(name), bytes(content)])),
  }
}

/** The headers of a record: what is not there is undefined to the package. */
export function shown(headers) {
  return headers.map(([name, content]) => [name ?? null, content ?? null])
}

/** By code; OUT_OF_BOUNDS is that of its buffers. What Node, WebAssembly or a codec throws has none of these. */
export function kind(error) {
  if (error?.code === 'PLT_KFK_UNSUPPORTED_COMPRESSION') return 'unsupported_compression'
  if (error?.code === 'PLT_KFK_OUT_OF_BOUNDS' || error?.code === 'OUT_OF_BOUNDS') return 'truncated'
  return error?.code?.startsWith?.('PLT_KFK') ? 'malformed' : 'other'
}
