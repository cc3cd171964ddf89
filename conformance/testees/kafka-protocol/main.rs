//! Serves the record codec of the crate kafka-protocol by the testee protocol, version 1.
//!
//! A panic is not caught: in a consumer it is one too, and the runner sees the process end.

use std::convert::TryFrom;
use std::io::{self, BufRead, Write};

use base64::{engine::general_purpose::STANDARD, Engine};
use bytes::{Bytes, BytesMut, TryGetError};
use kafka_protocol::protocol::{buf::NotEnoughBytesError, StrBytes};
use kafka_protocol::records::{
    BatchDecodeInfo, Compression, Record, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions, RecordSet,
    TimestampType, NO_SEQUENCE,
};
use serde_json::{json, Map, Value};

const VERSION: &str = "0.18.0";
const COMPRESSIONS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// What the codec answered, or why it could not be asked.
enum Outcome {
    Skipped(String),
    Refused(anyhow::Error),
}

impl From<anyhow::Error> for Outcome {
    fn from(error: anyhow::Error) -> Self {
        Outcome::Refused(error)
    }
}

fn skip<T>(reason: impl Into<String>) -> Result<T, Outcome> {
    Err(Outcome::Skipped(reason.into()))
}

fn main() -> io::Result<()> {
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let reply = match serde_json::from_str::<Value>(&line?) {
            Ok(request) => answer(&request),
            Err(error) => json!({"id": "", "error": {"kind": "malformed", "message": error.to_string()}}),
        };
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}

fn answer(request: &Value) -> Value {
    let mut reply = match request["op"].as_str() {
        Some("hello") => return hello(),
        Some("decode") => match request["many"].as_array() {
            Some(many) => json!({"many": many.iter().map(decode).collect::<Vec<_>>()}),
            None => decode(&request["data"]),
        },
        Some("encode") => match encode(&request["batch"]) {
            Ok(data) => json!({"data": STANDARD.encode(data)}),
            Err(Outcome::Refused(error)) => json!({"error": describe(&error)}),
            Err(Outcome::Skipped(reason)) => json!({"skipped": reason}),
        },
        op => json!({"skipped": format!("kafka-protocol has no operation {op:?}")}),
    };
    reply["id"] = request["id"].clone();
    reply
}

/// Is set where it is measured what a testee costs that ends over one question in ten.
const FALLS: &str = "KAFKAPROOF_FALLS";

fn falls() -> bool {
    std::env::var_os(FALLS).is_some()
}

fn fall_over(question: &[u8]) {
    let hash = question.iter().fold(0xcbf29ce484222325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100000001b3));
    if hash % 10 == 0 {
        panic!("one question in ten");
    }
}

fn hello() -> Value {
    let able = json!({"magics": [2], "compressions": COMPRESSIONS});
    json!({"protocol": 1, "name": "kafka-protocol", "version": VERSION, "language": "rust",
           "runtime": "rust, release profile", "decode": able, "encode": able, "append": false, "many": true})
}

// --- decode -------------------------------------------------------------------------------------

/// The loop of `RecordBatchDecoder::decode_all`, which keeps nothing of what it read before an error.
fn decode(data: &Value) -> Value {
    let mut left = Bytes::from(bytes(data).unwrap_or_default());
    if falls() {
        fall_over(&left);
    }
    let mut batches = Vec::new();
    while !left.is_empty() {
        let mut entry = left.clone();
        match RecordBatchDecoder::decode(&mut left) {
            Ok(set) => {
                entry.truncate(entry.len() - left.len());
                batches.push(batch(&set, RecordBatchDecoder::decode_batch_info(&mut entry).ok()));
            }
            Err(error) => return json!({"batches": batches, "error": describe(&error)}),
        }
    }
    json!({ "batches": batches })
}

/// The last offset, the max timestamp and the time of a delete horizon are not exposed.
fn batch(set: &RecordSet, info: Option<Vec<BatchDecodeInfo>>) -> Value {
    let mut batch = json!({
        "magic": set.version,
        "compression": COMPRESSIONS[set.compression as usize],
        "records": set.records.iter().map(record).collect::<Vec<_>>(),
    });
    if let Some(info) = info.as_ref().and_then(|infos| infos.first()) {
        batch["base_offset"] = json!(info.min_offset);
        batch["timestamp_type"] = json!(match info.timestamp_type {
            TimestampType::Creation => "create",
            TimestampType::LogAppend => "append",
        });
        batch["producer_id"] = json!(info.producer_id);
        batch["producer_epoch"] = json!(info.producer_epoch);
        batch["base_sequence"] = json!(info.base_sequence);
        batch["transactional"] = json!(info.transactional);
        batch["control"] = json!(info.control);
        batch["partition_leader_epoch"] = json!(info.partition_leader_epoch);
        if !info.delete_horizon {
            batch["delete_horizon"] = Value::Null;
        }
    }
    batch
}

fn record(record: &Record) -> Value {
    let headers = record.headers.iter();
    let headers = headers.map(|(key, value)| json!([STANDARD.encode(key.as_bytes()), text(value)]));
    let mut fields = Map::new();
    fields.insert("offset".into(), json!(record.offset));
    fields.insert("timestamp".into(), json!(record.timestamp));
    fields.insert("key".into(), text(&record.key));
    fields.insert("value".into(), text(&record.value));
    fields.insert("headers".into(), headers.collect());
    Value::Object(fields)
}

fn text(bytes: &Option<Bytes>) -> Value {
    bytes.as_ref().map_or(Value::Null, |bytes| STANDARD.encode(bytes).into())
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| STANDARD.decode(text).expect("base64 from the runner"))
}

// --- encode -------------------------------------------------------------------------------------

/// The encoder takes records only and works the rest of the header out of them.
fn encode(batch: &Value) -> Result<BytesMut, Outcome> {
    let records = records(batch)?;
    let first = records.iter().map(|record| record.offset).min().unwrap_or_default();
    let last = records.iter().map(|record| record.offset).max().unwrap_or_default();
    let latest = records.iter().map(|record| record.timestamp).max().unwrap_or_default();
    for (name, made) in [("base_offset", first), ("last_offset", last), ("max_timestamp", latest)] {
        if !batch[name].is_null() && batch[name].as_i64() != Some(made) {
            return skip(format!("the encoder works {name} out of the records"));
        }
    }
    let name = batch["compression"].as_str().unwrap_or("none");
    let options = RecordEncodeOptions {
        version: integer(batch, "magic", 2)?,
        compression: match name {
            "none" => Compression::None,
            "gzip" => Compression::Gzip,
            "snappy" => Compression::Snappy,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            other => return skip(format!("no compression {other}")),
        },
    };
    let mut data = BytesMut::new();
    RecordBatchEncoder::encode(&mut data, &records, &options)?;
    if falls() {
        fall_over(&data);
    }
    Ok(data)
}

fn records(batch: &Value) -> Result<Vec<Record>, Outcome> {
    let given = batch["records"].as_array().map_or(&[][..], Vec::as_slice);
    if given.is_empty() {
        return skip("there is no batch without a record to carry its header");
    }
    let first: i64 = integer(&given[0], "offset", 0)?;
    let base: i64 = integer(batch, "base_offset", first)?;
    given.iter().map(|each| to_record(batch, base, each)).collect()
}

fn to_record(batch: &Value, base_offset: i64, given: &Value) -> Result<Record, Outcome> {
    let offset: i64 = integer(given, "offset", base_offset)?;
    let sequence = match integer(batch, "base_sequence", NO_SEQUENCE)? {
        // What the crate offers to records without a producer.
        NO_SEQUENCE => NO_SEQUENCE,
        // As the decoder gives it, so that the encoder finds the same base sequence.
        base => base.wrapping_add(offset.wrapping_sub(base_offset) as i32),
    };
    let mut record = Record {
        transactional: batch["transactional"].as_bool().unwrap_or(false),
        control: batch["control"].as_bool().unwrap_or(false),
        // A record has the flag, and nothing has the time.
        delete_horizon: !batch["delete_horizon"].is_null(),
        partition_leader_epoch: integer(batch, "partition_leader_epoch", -1)?,
        producer_id: integer(batch, "producer_id", -1)?,
        producer_epoch: integer(batch, "producer_epoch", -1)?,
        timestamp_type: match batch["timestamp_type"].as_str() {
            Some("append") => TimestampType::LogAppend,
            _ => TimestampType::Creation,
        },
        offset,
        sequence,
        timestamp: integer(given, "timestamp", -1)?,
        key: bytes(&given["key"]).map(Bytes::from),
        value: bytes(&given["value"]).map(Bytes::from),
        headers: Default::default(),
    };
    for header in given["headers"].as_array().map_or(&[][..], Vec::as_slice) {
        let Some(Ok(key)) = bytes(&header[0]).map(|key| StrBytes::try_from(Bytes::from(key))) else {
            return skip("a header key is text, and this one is null or not UTF-8");
        };
        if record.headers.insert(key, bytes(&header[1]).map(Bytes::from)).is_some() {
            return skip("headers are a map, which holds no key twice");
        }
    }
    Ok(record)
}

fn integer<T: TryFrom<i64>>(object: &Value, name: &str, otherwise: T) -> Result<T, Outcome> {
    if object[name].is_null() {
        return Ok(otherwise);
    }
    match object[name].as_i64().map(T::try_from) {
        Some(Ok(number)) => Ok(number),
        _ => skip(format!("{name} {} does not fit the crate's type", object[name])),
    }
}

// --- errors -------------------------------------------------------------------------------------

fn describe(error: &anyhow::Error) -> Value {
    json!({"kind": kind(error), "message": format!("{error:#}").trim_end().chars().take(400).collect::<String>()})
}

/// Two classes say that the bytes ended; the crate's other errors are texts, and contexts that name the codec.  Any other
/// error comes from a library below it.
fn kind(error: &anyhow::Error) -> &'static str {
    let text = error.to_string();
    let names = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if names(&["Cyclic redundancy check failed"]) {
        "corrupt"
    } else if names(&["message sets v", "Unknown record batch version"]) {
        "unsupported_magic"
    } else if names(&["Unknown compression algorithm"]) {
        "unsupported_compression"
    } else if names(&["decompress", "snappy", "block"]) {
        "decompression"
    } else if error.is::<NotEnoughBytesError>() || error.is::<TryGetError>() {
        "truncated"
    } else if names(&["Unexpected negative", "Version mismatch", "too large", "Too many"]) {
        "malformed"
    } else {
        "other"
    }
}
