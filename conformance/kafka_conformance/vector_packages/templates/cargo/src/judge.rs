use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::{Case, Expect, Record};

/// The result of one case; all but `Agree` are findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Agree,
    WrongData,
    RejectsValid,
    AcceptsInvalid,
    /// A panic.
    Crash,
}

impl Outcome {
    pub const ALL: [Outcome; 5] =
        [Outcome::Agree, Outcome::WrongData, Outcome::RejectsValid, Outcome::AcceptsInvalid, Outcome::Crash];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Agree => "agree",
            Outcome::WrongData => "wrong_data",
            Outcome::RejectsValid => "rejects_valid",
            Outcome::AcceptsInvalid => "accepts_invalid",
            Outcome::Crash => "crash",
        }
    }
}

/// A case on which a decoder disagrees.
#[derive(Clone, Debug)]
pub struct Finding {
    pub case: &'static Case,
    pub outcome: Outcome,
    pub error: String,
}

/// How many cases agree, and all findings.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub agree: usize,
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn count(&self, outcome: Outcome) -> usize {
        let found = self.findings.iter().filter(|each| each.outcome == outcome).count();
        if outcome == Outcome::Agree { self.agree } else { found }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = Outcome::ALL.map(|each| format!("{} {}", self.count(each), each.name()));
        to.write_str(&parts.join(", "))
    }
}

impl Expect {
    /// The records of all expected batches, those of control batches included or not.
    pub fn records(&self, with_control: bool) -> impl Iterator<Item = &Record> {
        self.batches.iter().filter(move |batch| with_control || !batch.control).flat_map(|batch| &batch.records)
    }
}

impl Case {
    /// Compare what a decoder gave for a decode case with the right answer. Control records may be left out.
    pub fn judge<E>(&self, given: &Result<Vec<Record>, E>) -> Outcome {
        let right = |records: &Vec<Record>| {
            self.expect.records(true).eq(records.iter()) || self.expect.records(false).eq(records.iter())
        };
        match (self.expect.verdict.as_str(), given) {
            ("invalid", Ok(_)) => Outcome::AcceptsInvalid,
            ("valid", Err(_)) => Outcome::RejectsValid,
            (_, Ok(records)) if !right(records) => Outcome::WrongData,
            _ => Outcome::Agree,
        }
    }
}

/// Call `decode` for each decode case and judge what it gives. A panic is a finding; an abort ends the process.
pub fn run<E: fmt::Display>(
    cases: impl IntoIterator<Item = &'static Case>,
    decode: impl Fn(&[u8]) -> Result<Vec<Record>, E>,
) -> Report {
    let mut report = Report::default();
    for case in cases {
        let Some(data) = case.input.data.as_deref().filter(|_| case.op == "decode") else { continue };
        let (outcome, error) = match catch_unwind(AssertUnwindSafe(|| decode(data))) {
            Ok(given) => (case.judge(&given), given.err().map(|error| error.to_string()).unwrap_or_default()),
            Err(_) => (Outcome::Crash, "panic".to_owned()),
        };
        if outcome == Outcome::Agree {
            report.agree += 1;
        } else {
            report.findings.push(Finding { case, outcome, error });
        }
    }
    report
}
