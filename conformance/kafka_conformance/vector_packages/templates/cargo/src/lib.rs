//! Test cases of Kafkaproof for Kafka's record formats.
//!
//! [`cases`] gives them, chosen by a [`Filter`]; [`run`] calls a decoder with each and judges what it gives.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use base64::{engine::general_purpose::STANDARD, Engine};
use serde::{Deserialize, Deserializer};

mod judge;
pub use judge::{run, Finding, Outcome, Report};

/// The cases, one JSON object a line.
pub const CASES_NDJSON: &str = include_str!("../data/cases.ndjson");
/// The rules that cases name, by id.
pub const RULES_JSON: &str = include_str!("../data/rules.json");
/// Counts, hashes, and the cases that are left out.
pub const MANIFEST_JSON: &str = include_str!("../data/manifest.json");

/// One question to a codec or a broker, and its right answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub id: String,
    pub sha256: String,
    pub title: String,
    pub area: String,
    pub op: String,
    pub rules: Vec<String>,
    pub refs: Vec<String>,
    pub since: String,
    pub supersedes: Option<String>,
    pub facts: Facts,
    pub input: Input,
    pub expect: Expect,
}

/// What the judge of Kafkaproof knows of a case besides the right answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    pub profile: String,
    pub required: bool,
    pub reach: String,
    pub strength: String,
    pub magics: Vec<i8>,
    pub compressions: Vec<String>,
}

/// One of `data`, `batch` and `scenario`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    #[serde(default, deserialize_with = "optional_bytes")]
    pub data: Option<Vec<u8>>,
    pub batch: Option<Batch>,
    pub scenario: Option<Scenario>,
    /// Producer id and first offset of each aborted transaction; `None` if the case is not about them.
    pub aborted: Option<Vec<(i64, i64)>>,
}

/// The right answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// `valid`, `invalid` or `acceptable`.
    pub verdict: String,
    #[serde(default)]
    pub batches: Vec<Batch>,
    #[serde(default, deserialize_with = "optional_bytes")]
    pub data: Option<Vec<u8>>,
    pub kinds: Vec<String>,
    pub compare: String,
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub answers: Vec<StepAnswer>,
    /// Offsets that a `read_committed` consumer sees, if the input has `aborted`.
    pub committed: Option<Vec<i64>>,
}

/// One entry of a log: a v2 batch, a v0 or v1 message, or a wrapper with its inner messages as records.
/// Integers are wider than in the format: cases that must be refused have values beyond it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    pub magic: i8,
    pub base_offset: i64,
    pub last_offset: i64,
    pub compression: String,
    pub timestamp_type: String,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i32,
    pub base_sequence: i64,
    pub transactional: bool,
    pub control: bool,
    pub partition_leader_epoch: i64,
    pub delete_horizon: Option<i64>,
    pub records: Vec<Record>,
}

/// One record; `None` is Kafka's null, which is not the same as empty.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub offset: i64,
    pub timestamp: i64,
    #[serde(deserialize_with = "optional_bytes")]
    pub key: Option<Vec<u8>>,
    #[serde(deserialize_with = "optional_bytes")]
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

/// One header; its key may be no valid UTF-8.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(from = "(Base64, Option<Base64>)")]
pub struct Header {
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
}

impl From<(Base64, Option<Base64>)> for Header {
    fn from((key, value): (Base64, Option<Base64>)) -> Self {
        Header { key: key.0, value: value.map(|value| value.0) }
    }
}

/// The steps to run on a broker's empty partition; `config` are the topic's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub steps: Vec<Step>,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
    #[serde(default)]
    pub since: String,
    #[serde(default)]
    pub until: String,
}

/// One step of a scenario. `action` names it, and says which of the fields count.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    #[serde(rename = "do")]
    pub action: String,
    #[serde(deserialize_with = "optional_bytes")]
    pub data: Option<Vec<u8>>,
    #[serde(deserialize_with = "optional_bytes")]
    pub again: Option<Vec<u8>>,
    #[serde(deserialize_with = "optional_bytes")]
    pub beside: Option<Vec<u8>>,
    pub api_version: i16,
    pub acks: i16,
    pub producer: String,
    pub epochs_back: i16,
    /// Of a marker; `None` is 1.
    pub epochs_ahead: Option<i16>,
    pub coordinator_epoch: i32,
    pub transaction_version: i8,
    pub transactional: bool,
    pub topic: String,
    pub commit: bool,
    pub offset: i64,
    pub timestamp: i64,
    pub isolation: String,
    pub max_bytes: Option<i32>,
    pub at: i64,
    pub clean: bool,
    pub cut: bool,
    pub fatal: bool,
    /// Files of the partition that change in a restart: new content by name; `None` removes one.
    #[serde(deserialize_with = "files")]
    pub files: BTreeMap<String, Option<Vec<u8>>>,
}

/// A broker's answer to one step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepAnswer {
    pub error_code: i16,
    pub base_offset: i64,
    pub log_append_time: i64,
    #[serde(deserialize_with = "optional_bytes")]
    pub data: Option<Vec<u8>>,
    pub record_errors: Vec<i32>,
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub aborted: Vec<Aborted>,
    pub text: String,
    pub beside: Option<i16>,
    pub closed: bool,
    pub silent: bool,
    pub ended: bool,
}

/// An aborted transaction in a fetch response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aborted {
    pub producer_id: i64,
    pub first_offset: i64,
}

/// One rule of the format, with its sources.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub statement: String,
    pub strength: Option<String>,
    pub outcome: String,
    pub sources: Vec<String>,
}

/// Counts, hashes, and the cases that are left out, with the reason.
#[derive(Clone, Debug, Deserialize)]
pub struct Manifest {
    pub version: String,
    pub corpus_version: String,
    pub corpus_sha256: String,
    pub unreleased: bool,
    pub cases: usize,
    pub ops: BTreeMap<String, usize>,
    pub verdicts: BTreeMap<String, usize>,
    pub areas: BTreeMap<String, usize>,
    pub sha256: BTreeMap<String, String>,
    pub left_out: BTreeMap<String, String>,
}

#[doc(hidden)]
pub struct Base64(Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(text).map(Base64).map_err(serde::de::Error::custom)
    }
}

fn optional_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
    Ok(Option::<Base64>::deserialize(from)?.map(|bytes| bytes.0))
}

fn files<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Option<Vec<u8>>>, D::Error> {
    let found = BTreeMap::<String, Option<Base64>>::deserialize(from)?;
    Ok(found.into_iter().map(|(name, bytes)| (name, bytes.map(|bytes| bytes.0))).collect())
}

/// Chooses cases. An empty list restricts nothing; `magics` and `compressions` are what a codec can read or write.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    pub areas: &'a [&'a str],
    pub ops: &'a [&'a str],
    pub verdicts: &'a [&'a str],
    pub profiles: &'a [&'a str],
    pub compressions: &'a [&'a str],
    pub magics: &'a [i8],
}

impl Filter<'_> {
    fn matches(&self, case: &Case) -> bool {
        let allows = |list: &[&str], value: &String| list.is_empty() || list.contains(&value.as_str());
        allows(self.areas, &case.area)
            && allows(self.ops, &case.op)
            && allows(self.verdicts, &case.expect.verdict)
            && allows(self.profiles, &case.facts.profile)
            && case.facts.compressions.iter().all(|each| allows(self.compressions, each))
            && (self.magics.is_empty() || case.facts.magics.iter().all(|each| self.magics.contains(each)))
    }
}

/// The cases that `filter` chooses, sorted by id.
pub fn cases(filter: Filter<'_>) -> impl Iterator<Item = &'static Case> + '_ {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    let all = CASES.get_or_init(|| CASES_NDJSON.lines().map(parse).collect());
    all.iter().filter(move |case| filter.matches(case))
}

/// The rules that cases name, by id.
pub fn rules() -> BTreeMap<String, Rule> {
    parse(RULES_JSON)
}

/// Counts, hashes, and the cases that are left out.
pub fn manifest() -> Manifest {
    parse(MANIFEST_JSON)
}

/// The text is part of the crate, so an error is a defect of the crate.
fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> T {
    serde_json::from_str(text).expect("kafkaproof vectors")
}
