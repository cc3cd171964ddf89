/// <reference types="node" />

export type Op = 'decode' | 'encode' | 'append' | 'fetch' | 'convert' | 'segment' | 'compact'
export type Verdict = 'valid' | 'invalid' | 'acceptable'
export type Compression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
export type Kind =
  'truncated' | 'corrupt' | 'malformed' | 'unsupported_magic' | 'unsupported_compression' | 'decompression' | 'limit'
export type Profile =
  'consumer' | 'consumer-legacy' | 'consumer-transactions' | 'producer' | 'producer-legacy' | 'integrity' | 'hostile' | 'broker'
export type Reach = 'any_producer' | 'broker_itself' | 'old_logs' | 'retired' | 'rot' | 'hostile' | 'as_writer'
export type Outcome = 'agree' | 'wrong_data' | 'rejects_valid' | 'accepts_invalid'

/** One question to a codec or a broker, and its right answer. */
export interface Case {
  id: string
  sha256: string
  title: string
  area: string
  op: Op
  rules: string[]
  refs: string[]
  since: string
  supersedes?: string
  facts: Facts
  input: Input
  expect: Expect
}

/** What the judge of Kafkaproof knows of a case besides the right answer. */
export interface Facts {
  profile: Profile
  required: boolean
  reach: Reach
  strength: 'must' | 'should' | 'may'
  magics: number[]
  compressions: Compression[]
}

/** One of data, batch and scenario. */
export interface Input {
  data?: Buffer
  batch?: Batch
  scenario?: Scenario
  /** Producer id and first offset of each aborted transaction. */
  aborted?: [bigint, bigint][]
}

/** The right answer. */
export interface Expect {
  verdict: Verdict
  batches: Batch[]
  data?: Buffer
  kinds: Kind[]
  compare: 'exact' | 'masked' | 'records' | 'readable'
  why?: string
  answers: StepAnswer[]
  /** Offsets that a read_committed consumer sees, if the input has `aborted`. */
  committed?: bigint[]
}

/** One entry of a log: a v2 batch, a v0 or v1 message, or a wrapper with its inner messages as records. */
export interface Batch {
  magic: number
  base_offset: bigint
  last_offset: bigint
  compression: Compression
  timestamp_type: 'create' | 'append' | 'none'
  max_timestamp: bigint
  producer_id: bigint
  producer_epoch: number
  base_sequence: number
  transactional: boolean
  control: boolean
  partition_leader_epoch: number
  delete_horizon: bigint | null
  records: Record[]
}

/** One record; null is Kafka's null, which is not the same as empty. */
export interface Record {
  offset: bigint
  timestamp: bigint
  key: Uint8Array | null
  value: Uint8Array | null
  headers: [Uint8Array, Uint8Array | null][]
}

/** The steps to run on a broker's empty partition; `config` are the topic's settings. */
export interface Scenario {
  steps: Step[]
  config?: { [name: string]: string }
  since?: string
  until?: string
}

/** One step of a scenario; `do` says which of the fields it has. */
export interface Step {
  do: string
  data?: Buffer
  again?: Buffer
  beside?: Buffer
  api_version?: number
  acks?: number
  producer?: string
  epochs_back?: number
  /** Of a marker; 1 where it is left out. */
  epochs_ahead?: number
  coordinator_epoch?: number
  transaction_version?: number
  transactional?: boolean
  topic?: string
  commit?: boolean
  offset?: bigint
  timestamp?: bigint
  isolation?: 'read_uncommitted' | 'read_committed'
  max_bytes?: number
  at?: number
  clean?: boolean
  cut?: boolean
  fatal?: boolean
  /** Files of the partition that change in a restart: new content by name; null removes one. */
  files?: { [name: string]: Buffer | null }
}

/** A broker's answer to one step. */
export interface StepAnswer {
  error_code: number
  base_offset: bigint
  log_append_time: bigint
  data: Buffer
  record_errors: number[]
  high_watermark: bigint
  last_stable_offset: bigint
  aborted: { producer_id: bigint, first_offset: bigint }[]
  text: string
  beside?: number
  closed: boolean
  silent: boolean
  ended: boolean
}

/** One rule of the format, with its sources. */
export interface Rule {
  statement: string
  strength: 'must' | 'should' | 'may' | null
  outcome: string
  sources: string[]
}

export interface Manifest {
  version: string
  corpus_version: string
  corpus_sha256: string
  unreleased: boolean
  cases: number
  ops: { [name: string]: number }
  verdicts: { [name: string]: number }
  areas: { [name: string]: number }
  sha256: { [name: string]: string }
  left_out: { [id: string]: string }
}

/** An empty list restricts nothing; magics and compressions are what a codec can read or write. */
export interface Filter {
  areas?: string[]
  ops?: Op[]
  verdicts?: Verdict[]
  profiles?: Profile[]
  magics?: number[]
  compressions?: Compression[]
}

export interface Finding {
  case: Case
  outcome: Outcome
  error?: unknown
}

export interface Report {
  counts: { [outcome in Outcome]: number }
  findings: Finding[]
  toString(): string
}

export type Decode = (data: Buffer) => Record[] | Promise<Record[]>

export const OUTCOMES: Outcome[]
export function cases(filter?: Filter): Case[]
export function rules(): { [id: string]: Rule }
export function manifest(): Manifest
export function expectedRecords(of: Case, options?: { control?: boolean }): Record[]
export function judge(of: Case, given: { records?: Record[], error?: unknown }): Outcome
export function run(cases: Case[], decode: Decode): Promise<Report>
