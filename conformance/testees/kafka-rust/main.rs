//! The Consumer and the Producer of the crate kafka, with their default options, on the fake broker.
//! The requests are those of kafka_conformance/process/client_testee.py.

use std::io::{self, BufRead, Write};

use base64::{engine::general_purpose::STANDARD, Engine};
use kafka::client::{Compression, FetchOffset};
use kafka::consumer::Consumer;
use kafka::error::{Error, KafkaCode};
use kafka::producer::{Producer, Record};
use serde_json::{json, Value};

mod recover;

const VERSION: &str = "0.10.0";
/// So many bytes of records are shown: of a flood the first, while the consumer reads on to its end.
const MOST_SHOWN: usize = 16 << 20;
const COMPRESSIONS: [(&str, Compression); 3] =
    [("none", Compression::NONE), ("gzip", Compression::GZIP), ("snappy", Compression::SNAPPY)];

/// Why a request is not answered by records.
enum Failed {
    Skipped(String),
    Refused(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Refused(error)
    }
}

fn main() -> io::Result<()> {
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        if request["op"] == "recover" {
            // One application, and then the process ends.
            let done = recover::go_on(&request, &mut replies)?;
            return emit(&mut replies, json!({ "done": done }));
        }
        emit(&mut replies, answer(&request))?;
    }
    Ok(())
}

fn emit(lines: &mut impl Write, line: Value) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, &line)?;
    lines.write_all(b"\n")?;
    lines.flush()
}

fn answer(request: &Value) -> Value {
    let mut records = Vec::new();
    let done = match request["op"].as_str() {
        Some("hello") => return hello(),
        Some("consume") => consume(request, &mut records).map_err(Failed::Refused),
        Some("produce") => produce(request),
        op => Err(Failed::Skipped(format!("no operation {op:?}"))),
    };
    match done {
        Ok(()) => json!({ "records": records }),
        Err(Failed::Skipped(reason)) => json!({ "skipped": reason }),
        Err(Failed::Refused(error)) => {
            let message: String = format!("{error:?}").chars().take(400).collect();
            json!({"records": records, "error": {"kind": kind(&error), "message": message}})
        }
    }
}

/// It fetches and produces with version 0 only.
fn hello() -> Value {
    let able = json!({"magics": [0], "compressions": COMPRESSIONS.map(|(name, _)| name)});
    json!({"protocol": 1, "name": "kafka-rust", "version": VERSION, "language": "rust",
           "runtime": "rust, release profile", "decode": able, "encode": able})
}

/// Reads until the end record, or the first error.  Each request has a consumer of its own, without a group.
fn consume(request: &Value, records: &mut Vec<Value>) -> Result<(), Error> {
    let mut consumer = Consumer::from_hosts(vec![text(&request["bootstrap"])])
        .with_topic_partitions(text(&request["topic"]), &[0])
        .with_fallback_offset(FetchOffset::Earliest)
        .create()?;
    let (end, mut size) = (text(&request["end"]), 0);
    loop {
        for set in consumer.poll()?.iter() {
            for message in set.messages() {
                if message.key == end.as_bytes() {
                    return Ok(());
                }
                size += 100 + message.key.len() + message.value.len();
                if size < MOST_SHOWN {
                    let (key, value) = (STANDARD.encode(message.key), STANDARD.encode(message.value));
                    records.push(json!({"offset": message.offset, "key": key, "value": value}));
                }
            }
        }
    }
}

fn produce(request: &Value) -> Result<(), Failed> {
    let batch = &request["batch"];
    if batch["magic"].as_i64() != Some(0) {
        return Err(Failed::Skipped("it writes magic 0 only".into()));
    }
    let name = batch["compression"].as_str().unwrap_or("none");
    let Some((_, compression)) = COMPRESSIONS.into_iter().find(|(each, _)| *each == name) else {
        return Err(Failed::Skipped(format!("no compression {name}")));
    };
    let topic = text(&request["topic"]);
    let given = batch["records"].as_array().map_or(&[][..], Vec::as_slice);
    if given.iter().any(|each| each["headers"].as_array().is_some_and(|headers| !headers.is_empty())) {
        return Err(Failed::Skipped("a record of this client has no headers".into()));
    }
    let pairs: Vec<_> = given.iter().map(|each| (bytes(&each["key"]), bytes(&each["value"]))).collect();
    let records: Vec<_> =
        pairs.iter().map(|(key, value)| Record::from_key_value(&topic, &key[..], &value[..])).collect();
    let mut producer =
        Producer::from_hosts(vec![text(&request["bootstrap"])]).with_compression(compression).create()?;
    for confirm in producer.send_all(&records)? {
        for partition in confirm.partition_confirms {
            partition.offset.map_err(Error::Kafka)?;
        }
    }
    Ok(())
}

/// No key or value is no bytes here: the crate has `()` for it, whose `as_bytes` is the empty slice.
fn bytes(value: &Value) -> Vec<u8> {
    value.as_str().map_or_else(Vec::new, |text| STANDARD.decode(text).expect("base64 from the runner"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

/// The crate's own errors of decoding; an IO error is one of a library below it, which it does not explain.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Kafka(KafkaCode::CorruptMessage) => "corrupt",
        Error::UnsupportedProtocol => "unsupported_magic",
        Error::UnsupportedCompression => "unsupported_compression",
        Error::InvalidSnappy(_) => "decompression",
        Error::UnexpectedEOF => "truncated",
        Error::CodecError | Error::StringDecodeError | Error::Kafka(_) => "malformed",
        _ => "other",
    }
}
