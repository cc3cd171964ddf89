//! Serves the crate rskafka by the testee protocol, version 1: its record codec, or with the argument `client` its client.
//!
//! A panic is not caught: in a consumer it is one too, and the runner sees the process end.

use std::io::{self, BufRead, Cursor, Write};

use base64::{engine::general_purpose::STANDARD, Engine};
use rskafka::protocol::primitives::Records;
use rskafka::protocol::record::{
    ControlBatchOrRecords, Record, RecordBatch, RecordBatchCompression, RecordBatchTimestampType, RecordHeader,
};
use rskafka::protocol::traits::{ReadError, ReadType, WriteType};
use serde_json::{json, Value};

mod client;
mod recover;

const VERSION: &str = "0.6.0";
const COMPRESSIONS: [(&str, RecordBatchCompression); 5] = [
    ("none", RecordBatchCompression::NoCompression),
    ("gzip", RecordBatchCompression::Gzip),
    ("snappy", RecordBatchCompression::Snappy),
    ("lz4", RecordBatchCompression::Lz4),
    ("zstd", RecordBatchCompression::Zstd),
];

/// Why there is nothing written.
enum Unwritten {
    Skipped(String),
    Refused(String),
}

fn skip<T>(reason: impl Into<String>) -> Result<T, Unwritten> {
    Err(Unwritten::Skipped(reason.into()))
}

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("client") {
        return client::serve();
    }
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
            Err(Unwritten::Refused(message)) => json!({"error": {"kind": "malformed", "message": message}}),
            Err(Unwritten::Skipped(reason)) => json!({"skipped": reason}),
        },
        op => json!({"skipped": format!("rskafka has no operation {op:?}")}),
    };
    reply["id"] = request["id"].clone();
    reply
}

fn hello() -> Value {
    let able = json!({"magics": [2], "compressions": COMPRESSIONS.map(|(name, _)| name)});
    json!({"protocol": 1, "name": "rskafka", "version": VERSION, "language": "rust",
           "runtime": "rust, release profile", "decode": able, "encode": able, "append": false, "many": true})
}

// --- decode -------------------------------------------------------------------------------------

/// `Records` as they stand in a fetch response: four bytes of size in front.
fn decode(data: &Value) -> Value {
    let data = bytes(data).unwrap_or_default();
    let mut field = (data.len() as i32).to_be_bytes().to_vec();
    field.extend(data);
    let read = Records::read(&mut Cursor::new(field)).map_err(|error| (kind(&error), error.to_string()));
    let batches = read.and_then(|records| records.0.iter().map(batch).collect::<Result<Vec<_>, _>>());
    match batches {
        Ok(batches) => json!({ "batches": batches }),
        Err((kind, message)) => {
            let message: String = message.chars().take(400).collect();
            json!({"batches": [], "error": {"kind": kind, "message": message}})
        }
    }
}

/// The magic and a delete horizon are not exposed, nor is what a control record holds beside its type.
fn batch(batch: &RecordBatch) -> Result<Value, (&'static str, String)> {
    let mut fields = json!({
        "base_offset": batch.base_offset,
        "last_offset": batch.base_offset.wrapping_add(batch.last_offset_delta as i64),
        "compression": COMPRESSIONS.iter().find(|(_, each)| *each == batch.compression).map(|(name, _)| name),
        "timestamp_type": match batch.timestamp_type {
            RecordBatchTimestampType::CreateTime => "create",
            RecordBatchTimestampType::LogAppendTime => "append",
        },
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": matches!(batch.records, ControlBatchOrRecords::ControlBatch(_)),
        "partition_leader_epoch": batch.partition_leader_epoch,
    });
    if let ControlBatchOrRecords::Records(records) = &batch.records {
        fields["records"] = records.iter().map(|each| record(batch, each)).collect::<Result<_, _>>()?;
    }
    Ok(fields)
}

/// Offset and timestamp as `extract_records` in `client/partition.rs` makes them of the deltas.  The codec gives no
/// time of a record in a batch of LogAppendTime; the client has a row of its own.
fn record(batch: &RecordBatch, record: &Record) -> Result<Value, (&'static str, String)> {
    let headers = record.headers.iter();
    let headers = headers.map(|header| json!([STANDARD.encode(&header.key), STANDARD.encode(&header.value)]));
    let mut fields = json!({
        "offset": batch.base_offset.wrapping_add(record.offset_delta as i64),
        "key": record.key.as_ref().map(|key| STANDARD.encode(key)),
        "value": record.value.as_ref().map(|value| STANDARD.encode(value)),
        "headers": headers.collect::<Value>(),
    });
    if matches!(batch.timestamp_type, RecordBatchTimestampType::CreateTime) {
        let timestamp = batch.first_timestamp.checked_add(record.timestamp_delta).ok_or_else(|| {
            let (first, delta) = (batch.first_timestamp, record.timestamp_delta);
            ("malformed", format!("Timestamp overflow (first_timestamp={first}, delta={delta}"))
        })?;
        fields["timestamp"] = json!(timestamp);
    }
    Ok(fields)
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| STANDARD.decode(text).expect("base64 from the runner"))
}

/// An IO error comes from a library below the crate, or is an end of file.
fn kind(error: &ReadError) -> &'static str {
    match error {
        ReadError::IO(error) if error.kind() == io::ErrorKind::UnexpectedEof => "truncated",
        ReadError::IO(_) => "other",
        _ => kind_of(&error.to_string()),
    }
}

/// The crate's errors are told apart by their text.
fn kind_of(text: &str) -> &'static str {
    let is_snappy = ["snappy: ", "Snappy-compressed", "Snappy compression"].iter().any(|each| text.contains(each));
    match text {
        _ if text.contains("CRC error") => "corrupt",
        _ if text.contains("Invalid magic number") => "unsupported_magic",
        _ if text.contains("Invalid compression type") => "unsupported_compression",
        _ if is_snappy => "decompression",
        _ => "malformed",
    }
}

// --- encode -------------------------------------------------------------------------------------

fn encode(batch: &Value) -> Result<Vec<u8>, Unwritten> {
    let given = batch["records"].as_array().map_or(&[][..], Vec::as_slice);
    if batch["control"].as_bool() == Some(true) {
        return skip("to rskafka a control record is its type alone");
    }
    if !batch["delete_horizon"].is_null() {
        return skip("rskafka has no delete horizon");
    }
    if integer::<i8>(batch, "magic", 2)? != 2 {
        return Err(Unwritten::Refused("rskafka writes magic 2 only".into()));
    }
    let name = batch["compression"].as_str().unwrap_or("none");
    let Some((_, compression)) = COMPRESSIONS.into_iter().find(|(each, _)| *each == name) else {
        return skip(format!("no compression {name}"));
    };
    let first = given.first().unwrap_or(&Value::Null);
    let base_offset = integer(batch, "base_offset", integer(first, "offset", 0)?)?;
    let first_timestamp = integer(first, "timestamp", -1)?;
    let records = given.iter().map(|each| to_record(each, base_offset, first_timestamp));
    let records = records.collect::<Result<Vec<_>, _>>()?;
    let latest = records.iter().map(|each| first_timestamp.wrapping_add(each.timestamp_delta)).max();
    let last = records.iter().map(|each| each.offset_delta).max().unwrap_or(-1);
    let last_offset: i64 = integer(batch, "last_offset", base_offset.wrapping_add(last as i64))?;
    let batch = RecordBatch {
        base_offset,
        partition_leader_epoch: integer(batch, "partition_leader_epoch", -1)?,
        last_offset_delta: delta("last_offset", last_offset, base_offset)?,
        first_timestamp,
        max_timestamp: integer(batch, "max_timestamp", latest.unwrap_or(-1))?,
        producer_id: integer(batch, "producer_id", -1)?,
        producer_epoch: integer(batch, "producer_epoch", -1)?,
        base_sequence: integer(batch, "base_sequence", -1)?,
        records: ControlBatchOrRecords::Records(records),
        compression,
        is_transactional: batch["transactional"].as_bool().unwrap_or(false),
        timestamp_type: match batch["timestamp_type"].as_str() {
            Some("append") => RecordBatchTimestampType::LogAppendTime,
            _ => RecordBatchTimestampType::CreateTime,
        },
    };
    let mut data = Vec::new();
    batch.write(&mut data).map_err(|error| Unwritten::Refused(error.to_string()))?;
    Ok(data)
}

fn to_record(given: &Value, base_offset: i64, first_timestamp: i64) -> Result<Record, Unwritten> {
    let timestamp: i64 = integer(given, "timestamp", first_timestamp)?;
    let headers = given["headers"].as_array().map_or(&[][..], Vec::as_slice);
    Ok(Record {
        timestamp_delta: timestamp.wrapping_sub(first_timestamp),
        offset_delta: delta("offset", integer(given, "offset", base_offset)?, base_offset)?,
        key: bytes(&given["key"]),
        value: bytes(&given["value"]),
        headers: headers.iter().map(to_header).collect::<Result<_, _>>()?,
    })
}

fn to_header(given: &Value) -> Result<RecordHeader, Unwritten> {
    let Some(Ok(key)) = bytes(&given[0]).map(String::from_utf8) else {
        return skip("a header key is text, and this one is null or not UTF-8");
    };
    match bytes(&given[1]) {
        Some(value) => Ok(RecordHeader { key, value }),
        None => skip("to rskafka no header value is null"),
    }
}

fn delta(name: &str, offset: i64, base_offset: i64) -> Result<i32, Unwritten> {
    match offset.wrapping_sub(base_offset).try_into() {
        Ok(delta) => Ok(delta),
        Err(_) => skip(format!("{name} {offset} is no int32 above {base_offset}")),
    }
}

fn integer<T: TryFrom<i64>>(object: &Value, name: &str, otherwise: T) -> Result<T, Unwritten> {
    if object[name].is_null() {
        return Ok(otherwise);
    }
    match object[name].as_i64().map(T::try_from) {
        Some(Ok(number)) => Ok(number),
        _ => skip(format!("{name} {} does not fit the crate's type", object[name])),
    }
}
