'use strict'
// Lines of JSON between Kafkaproof and a program in Node: one reply to each request, in order.

const readline = require('node:readline')

console.log = console.info = console.error // a library that prints must not spoil a reply

/** A request that the library's API cannot express. */
class Skipped extends Error {}

/** Integers that a double does not hold stay text, so that they can become a BigInt; no string has a number like it. */
function parse(line) {
  return JSON.parse(line.replace(/([:,[])(-?\d{16,})(?=[,}\]])/g, '$1"$2"'))
}

/** JSON with bytes as base64 and every BigInt as a plain number; what is undefined is left out. */
function json(value) {
  if (value instanceof Uint8Array) return `"${Buffer.from(value).toString('base64')}"`
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return `[${value.map(json).join()}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const given = Object.entries(value).filter(([, each]) => each !== undefined)
  return `{${given.map(([name, each]) => `${JSON.stringify(name)}:${json(each)}`).join()}}`
}

/** The bytes that base64 stands for; null for none. */
function bytes(text) {
  return text === null || text === undefined ? null : Buffer.from(text, 'base64')
}

/** The error as a refusal of *kind*. */
function refusal(kind, error) {
  return { kind, message: `${error?.name}: ${error?.message}`.slice(0, 400) }
}

/** Replies to each line of standard input with what *answer* makes of the request. */
async function serve(answer) {
  for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity }))
    process.stdout.write(json(await replyTo(line, answer)) + '\n')
}

async function replyTo(line, answer) {
  let id
  try {
    const request = parse(line)
    id = request.id
    return { id, ...(await answer(request)) }
  } catch (error) {
    // A writer may refuse its arguments with any exception.
    return error instanceof Skipped ? { id, skipped: error.message } : { id, error: refusal('malformed', error) }
  }
}

module.exports = { Skipped, bytes, refusal, serve }
