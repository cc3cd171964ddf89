use std::collections::{BTreeMap, HashMap};
use std::process::Command;

use kafkaproof_vectors::{cases, manifest, rules, run, Expect, Filter, Outcome, Record};
use kafkaproof_vectors::{CASES_NDJSON, RULES_JSON};
use sha2::{Digest, Sha256};

const DECODES: Filter = Filter { ops: &["decode"], areas: &[], verdicts: &[], profiles: &[], compressions: &[], magics: &[] };

/// The right answer to each input.
fn answers() -> HashMap<&'static [u8], &'static Expect> {
    cases(DECODES).map(|case| (case.input.data.as_deref().unwrap(), &case.expect)).collect()
}

fn all_records(expect: &Expect) -> Vec<Record> {
    expect.records(true).cloned().collect()
}

fn counted<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    names.for_each(|name| *counts.entry(name.clone()).or_default() += 1);
    counts
}

#[test]
fn counts_are_those_of_the_manifest() {
    let manifest = manifest();
    let all = || cases(Filter::default());
    assert!(manifest.cases > 0);
    assert_eq!(all().count(), manifest.cases);
    assert_eq!(counted(all().map(|case| &case.op)), manifest.ops);
    assert_eq!(counted(all().map(|case| &case.expect.verdict)), manifest.verdicts);
    assert_eq!(counted(all().map(|case| &case.area)), manifest.areas);
}

#[test]
fn hashes_are_those_of_the_manifest() {
    for (name, text) in [("cases.ndjson", CASES_NDJSON), ("rules.json", RULES_JSON)] {
        let sum: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, manifest().sha256[name], "{name}");
    }
}

#[test]
fn each_case_is_complete() {
    let rules = rules();
    for case in cases(Filter::default()) {
        let given = [case.input.data.is_some(), case.input.batch.is_some(), case.input.scenario.is_some()];
        assert_eq!(given.iter().filter(|is| **is).count(), 1, "{}", case.id);
        if let Some(scenario) = &case.input.scenario {
            assert_eq!(scenario.steps.len(), case.expect.answers.len(), "{}", case.id);
        }
        assert!(case.rules.iter().all(|rule| !rules[rule].sources.is_empty()), "{}", case.id);
    }
}

#[test]
fn filter_chooses() {
    let filter = Filter { compressions: &["none", "zstd"], magics: &[2], areas: &["v2_batch", "zstd"], ..DECODES };
    let chosen: Vec<_> = cases(filter).collect();
    assert!(!chosen.is_empty() && chosen.len() < cases(DECODES).count());
    assert!(chosen.iter().all(|case| case.op == "decode" && !case.facts.magics.contains(&1)));
    assert!(chosen.iter().all(|case| !case.facts.compressions.contains(&"gzip".to_owned())));
}

#[test]
fn right_decoder_has_no_finding() {
    let answers = answers();
    let report = run(cases(DECODES), |data| match answers[data].verdict.as_str() {
        "invalid" => Err("invalid"),
        _ => Ok(all_records(answers[data])),
    });
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(report.agree, manifest().ops["decode"]);
}

#[test]
fn wrong_decoders_are_found() {
    let answers = answers();
    let outcomes = |decode: &dyn Fn(&[u8]) -> Result<Vec<Record>, String>| {
        let report = run(cases(DECODES), decode);
        Outcome::ALL.into_iter().filter(|each| *each != Outcome::Agree && report.count(*each) > 0).collect::<Vec<_>>()
    };
    let null_as_empty = |data: &[u8]| {
        let mut records = all_records(answers[data]);
        records.iter_mut().for_each(|record| record.key = Some(record.key.take().unwrap_or_default()));
        Ok(records)
    };
    assert_eq!(outcomes(&|data| Ok(all_records(answers[data]))), [Outcome::AcceptsInvalid]);
    assert_eq!(outcomes(&|_| Ok(vec![])), [Outcome::WrongData, Outcome::AcceptsInvalid]);
    assert_eq!(outcomes(&|_| Err("no".into())), [Outcome::RejectsValid]);
    assert_eq!(outcomes(&null_as_empty), [Outcome::WrongData, Outcome::AcceptsInvalid]);
}

#[test]
fn panic_is_a_finding() {
    let filter = Filter { areas: &["v2_batch"], ..DECODES };
    let report = run(cases(filter), |_| -> Result<Vec<Record>, String> { panic!("planted") });
    assert_eq!((report.agree, report.count(Outcome::Crash)), (0, cases(filter).count()));
}

/// The example prints counts that add up to its cases, and kafka-protocol reads most of them as Kafka does.
#[test]
fn example_runs() {
    let command = ["run", "--quiet", "--example", "kafka_protocol"];
    let done = Command::new(env!("CARGO")).args(command).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    println!("{text}");
    let counts: Vec<usize> = text.trim().split(", ").map(|part| part.split(' ').next().unwrap().parse().unwrap()).collect();
    let filter = Filter { profiles: &["consumer", "integrity"], magics: &[2], ..Filter::default() };
    assert_eq!(counts.iter().sum::<usize>(), cases(filter).count());
    assert!(counts[0] * 10 > counts.iter().sum::<usize>() * 6, "{text}");
}
