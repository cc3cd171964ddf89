// Test cases of Kafkaproof for Kafka's record formats; index.d.ts has the types.
import { readFileSync } from 'node:fs'

const read = name => readFileSync(new URL(`./data/${name}`, import.meta.url), 'utf8')

let loaded

/** The cases that the filter chooses, sorted by id. They are shared: do not change them. */
export function cases (filter = {}) {
  loaded ??= read('cases.ndjson').trimEnd().split('\n').map(line => toCase(JSON.parse(withBigIntegers(line))))
  return loaded.filter(each => matches(filter, each))
}

/** The rules that cases name, by id. */
export const rules = () => JSON.parse(read('rules.json'))

/** Counts, hashes, and the cases that are left out, with the reason. */
export const manifest = () => JSON.parse(read('manifest.json'))

function matches ({ areas, ops, verdicts, profiles, magics, compressions }, { area, op, expect, facts }) {
  const allows = (list, ...values) => !list?.length || values.every(value => list.includes(value))
  return allows(areas, area) && allows(ops, op) && allows(verdicts, expect.verdict) && allows(profiles, facts.profile) &&
    allows(magics, ...facts.magics) && allows(compressions, ...facts.compressions)
}

// --- JSON to objects: base64 to Buffer, 64-bit numbers to BigInt -----------------------------------

/** JSON.parse would round large integers: put them into quotes. Strings are matched first, so that they stay as they are. */
function withBigIntegers (line) {
  return line.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d{15,}/g, token => token[0] === '"' ? token : `"${token}"`)
}

const bytes = text => text === undefined || text === null ? text : Buffer.from(text, 'base64')

function toCase (line) {
  const { input, expect } = line
  if ('data' in input) input.data = bytes(input.data)
  if (input.batch) toBatch(input.batch)
  input.aborted &&= input.aborted.map(pair => pair.map(BigInt))
  input.scenario?.steps.forEach(toStep)
  expect.batches ??= []
  expect.batches.forEach(toBatch)
  expect.data = bytes(expect.data)
  expect.committed &&= expect.committed.map(BigInt)
  expect.answers ??= []
  expect.answers.forEach(toAnswer)
  return line
}

function toBatch (batch) {
  for (const name of ['base_offset', 'last_offset', 'max_timestamp', 'producer_id']) batch[name] = BigInt(batch[name])
  if (batch.delete_horizon !== null) batch.delete_horizon = BigInt(batch.delete_horizon)
  for (const record of batch.records) {
    record.offset = BigInt(record.offset)
    record.timestamp = BigInt(record.timestamp)
    record.key = bytes(record.key)
    record.value = bytes(record.value)
    record.headers = record.headers.map(pair => pair.map(bytes))
  }
}

function toStep (step) {
  for (const name of ['data', 'again', 'beside']) if (name in step) step[name] = bytes(step[name])
  for (const name in step.files) step.files[name] = bytes(step.files[name])
  for (const name of ['offset', 'timestamp']) if (name in step) step[name] = BigInt(step[name])
}

function toAnswer (answer) {
  answer.data = bytes(answer.data)
  for (const name of ['base_offset', 'log_append_time', 'high_watermark', 'last_stable_offset']) {
    answer[name] = BigInt(answer[name])
  }
  for (const each of answer.aborted) {
    each.producer_id = BigInt(each.producer_id)
    each.first_offset = BigInt(each.first_offset)
  }
}

// --- Judging ---------------------------------------------------------------------------------------

export const OUTCOMES = ['agree', 'wrong_data', 'rejects_valid', 'accepts_invalid']

/** The records of all expected batches, those of control batches included or not. */
export function expectedRecords ({ expect }, { control = true } = {}) {
  return expect.batches.filter(batch => control || !batch.control).flatMap(batch => batch.records)
}

const sameBytes = (one, other) => one === other || (one instanceof Uint8Array && other instanceof Uint8Array && Buffer.compare(one, other) === 0)
const sameList = (one, other, same) => one.length === other.length && one.every((each, at) => same(each, other[at]))
const sameHeader = (one, other) => sameBytes(one[0], other[0]) && sameBytes(one[1], other[1])
const sameRecord = (one, other) => one.offset === other.offset && one.timestamp === other.timestamp &&
  sameBytes(one.key, other.key) && sameBytes(one.value, other.value) && sameList(one.headers, other.headers, sameHeader)

/** Compare what a decoder gave for a decode case with the right answer. Control records may be left out. */
export function judge (each, { records, error }) {
  const refused = error !== undefined
  const { verdict } = each.expect
  if (verdict === 'invalid') return refused ? 'agree' : 'accepts_invalid'
  if (refused) return verdict === 'valid' ? 'rejects_valid' : 'agree'
  const right = [true, false].some(control => sameList(records, expectedRecords(each, { control }), sameRecord))
  return right ? 'agree' : 'wrong_data'
}

/** Call `decode` for each decode case and judge what it gives. What it throws is a refusal. */
export async function run (chosen, decode) {
  const report = { counts: Object.fromEntries(OUTCOMES.map(name => [name, 0])), findings: [], toString: () => text(report) }
  for (const each of chosen.filter(({ op }) => op === 'decode')) {
    const given = {}
    try {
      given.records = await decode(Buffer.from(each.input.data))
    } catch (error) {
      given.error = error ?? new Error('nothing was thrown')
    }
    const outcome = judge(each, given)
    report.counts[outcome]++
    if (outcome !== 'agree') report.findings.push({ case: each, outcome, error: given.error })
  }
  return report
}

const text = ({ counts }) => OUTCOMES.map(name => `${counts[name]} ${name}`).join(', ')
