import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { cases, expectedRecords, manifest, OUTCOMES, rules, run } from 'kafkaproof-vectors'

const decodes = cases({ ops: ['decode'] })
const answers = new Map(decodes.map(each => [each.input.data.toString('hex'), each]))
const answerTo = data => answers.get(data.toString('hex'))
const rightRecords = data => expectedRecords(answerTo(data))

function counted (names) {
  const counts = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

test('counts are those of the manifest', () => {
  const all = cases()
  assert.ok(all.length > 0)
  assert.equal(all.length, manifest().cases)
  assert.deepEqual(counted(all.map(each => each.op)), manifest().ops)
  assert.deepEqual(counted(all.map(each => each.expect.verdict)), manifest().verdicts)
  assert.deepEqual(counted(all.map(each => each.area)), manifest().areas)
})

test('hashes are those of the manifest', () => {
  for (const name of ['cases.ndjson', 'rules.json']) {
    const data = readFileSync(new URL(`../data/${name}`, import.meta.url))
    assert.equal(createHash('sha256').update(data).digest('hex'), manifest().sha256[name])
  }
})

test('each case is complete', () => {
  const known = rules()
  for (const { id, input, expect, rules } of cases()) {
    assert.equal(['data', 'batch', 'scenario'].filter(name => input[name] !== undefined).length, 1, id)
    if (input.scenario) assert.equal(input.scenario.steps.length, expect.answers.length, id)
    assert.ok(rules.every(rule => known[rule].sources.length > 0), id)
  }
})

test('64-bit numbers are exact', () => {
  const numbers = cases().flatMap(({ expect }) => expect.batches).flatMap(({ records }) => records.map(({ offset }) => offset))
  assert.ok(numbers.every(number => typeof number === 'bigint'))
  assert.ok(numbers.includes(2n ** 63n - 1n))
})

test('filter chooses', () => {
  const chosen = cases({ ops: ['decode'], magics: [2], compressions: ['none', 'zstd'], areas: ['v2_batch', 'zstd'] })
  assert.ok(chosen.length > 0 && chosen.length < decodes.length)
  assert.ok(chosen.every(({ op, facts }) => op === 'decode' && !facts.magics.includes(1) && !facts.compressions.includes('gzip')))
})

test('a right decoder has no finding', async () => {
  const report = await run(decodes, data => {
    if (answerTo(data).expect.verdict === 'invalid') throw new Error('invalid')
    return rightRecords(data)
  })
  assert.deepEqual(report.findings, [])
  assert.equal(report.counts.agree, manifest().ops.decode)
})

const wrong = {
  'accepts everything': [rightRecords, ['accepts_invalid']],
  'gives nothing': [() => [], ['wrong_data', 'accepts_invalid']],
  'refuses everything': [() => { throw new Error('no') }, ['rejects_valid']],
  'takes null for empty': [
    data => rightRecords(data).map(record => ({ ...record, key: record.key ?? Buffer.alloc(0) })), ['wrong_data', 'accepts_invalid']],
  'rounds offsets': [
    data => rightRecords(data).map(record => ({ ...record, offset: BigInt(Number(record.offset)) })), ['wrong_data', 'accepts_invalid']],
}
for (const [name, [decode, expected]] of Object.entries(wrong)) {
  test(`a decoder that ${name} is found`, async () => {
    const report = await run(decodes, decode)
    assert.deepEqual(OUTCOMES.filter(outcome => outcome !== 'agree' && report.counts[outcome] > 0), expected)
  })
}

test('the example prints counts that add up to its cases', async () => {
  const { report } = await import('../examples/kafkajs.js')
  const total = Object.values(report.counts).reduce((sum, count) => sum + count)
  assert.equal(total, cases({ profiles: ['consumer', 'integrity'], magics: [2], compressions: ['none', 'gzip'] }).length)
  assert.ok(report.counts.agree * 10 > total * 6, String(report))
})
