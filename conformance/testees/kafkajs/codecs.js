'use strict'
// Codecs of other packages, plugged in as their users do.

const { CompressionCodecs, CompressionTypes } = require('kafkajs')

/** Plugs in all codecs that are here; gives the names of those that kafkajs then reads and writes. */
function plugged() {
  const readable = ['none', 'gzip', 'snappy', 'zstd']
  const writable = ['none', 'gzip', 'snappy']
  CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
  const { decompress } = require('fzstd') // the package @kafkajs/zstd does not build any more
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({ decompress: async buffer => Buffer.from(decompress(buffer)) })
  try {
    const LZ4 = require('kafkajs-lz4') // has native code, which loads only in the Node that it was built for
    CompressionCodecs[CompressionTypes.LZ4] = new LZ4().codec
    readable.push('lz4')
    writable.push('lz4')
  } catch (error) {
    console.error(`no lz4: ${error.message}`)
  }
  return { readable, writable }
}

module.exports = { plugged }
