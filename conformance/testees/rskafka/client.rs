//! A consumer stream and a `PartitionClient`, on the fake broker, with the crate's default options.
//! The requests are those of kafka_conformance/process/client_testee.py.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use base64::{engine::general_purpose::STANDARD, Engine};
use futures::StreamExt;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::error::Error;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};
use serde_json::{json, Value};

use crate::recover;

/// So many bytes of records are shown: of a flood the first, while the consumer reads on to its end.
const MOST_SHOWN: usize = 16 << 20;
const COMPRESSIONS: [(&str, Compression); 5] = [
    ("none", Compression::NoCompression),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

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

pub fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        if request["op"] == "recover" {
            return runtime.block_on(recovered(&request, &mut replies));
        }
        let reply = runtime.block_on(answer(&request));
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}

/// One application, and then the process ends.
async fn recovered(request: &Value, replies: &mut impl Write) -> io::Result<()> {
    let client = connected(request).await.map_err(io::Error::other)?;
    let done = recover::go_on(request, Arc::new(client), replies).await?;
    recover::emit(replies, json!({ "done": done }))
}

async fn answer(request: &Value) -> Value {
    let mut records = Vec::new();
    let done = match request["op"].as_str() {
        Some("hello") => return hello(),
        Some("consume") => consume(request, &mut records).await,
        Some("produce") => produce(request).await,
        op => Err(Failed::Skipped(format!("no operation {op:?}"))),
    };
    match done {
        Ok(()) => json!({ "records": records }),
        Err(Failed::Skipped(reason)) => json!({ "skipped": reason }),
        Err(Failed::Refused(error)) => {
            let message: String = error.to_string().chars().take(400).collect();
            json!({"records": records, "error": {"kind": kind(&error), "message": message}})
        }
    }
}

fn hello() -> Value {
    let able = json!({"magics": [2], "compressions": COMPRESSIONS.map(|(name, _)| name)});
    json!({"protocol": 1, "name": "rskafka-client", "version": crate::VERSION, "language": "rust",
           "runtime": "rust, release profile", "decode": able, "encode": able})
}

/// Each request has a client of its own, as the crate has none that reads from several topics.
async fn connected(request: &Value) -> Result<PartitionClient, Error> {
    let client: Client = ClientBuilder::new(vec![text(&request["bootstrap"])]).build().await?;
    client.partition_client(text(&request["topic"]), 0, UnknownTopicHandling::Retry).await
}

/// Reads until the end record, or the first error, after which a stream ends.
async fn consume(request: &Value, records: &mut Vec<Value>) -> Result<(), Failed> {
    let client = Arc::new(connected(request).await?);
    let start = StartOffset::At(request["offset"].as_i64().unwrap_or_default());
    let mut stream = StreamConsumerBuilder::new(client, start).build();
    let mut size = 0;
    while let Some(next) = stream.next().await {
        let (given, _) = next?;
        if given.record.key.as_deref() == request["end"].as_str().map(str::as_bytes) {
            break;
        }
        size += 100 + given.record.approximate_size();
        if size < MOST_SHOWN {
            records.push(record(&given));
        }
    }
    Ok(())
}

fn record(given: &RecordAndOffset) -> Value {
    let headers = given.record.headers.iter();
    json!({
        "offset": given.offset,
        "timestamp": given.record.timestamp.timestamp_millis(),
        "key": given.record.key.as_ref().map(|key| STANDARD.encode(key)),
        "value": given.record.value.as_ref().map(|value| STANDARD.encode(value)),
        "headers": headers.map(|(key, value)| json!([STANDARD.encode(key), STANDARD.encode(value)])).collect::<Value>(),
    })
}

async fn produce(request: &Value) -> Result<(), Failed> {
    let batch = &request["batch"];
    if batch["producer_id"].as_i64().is_some_and(|id| id != -1) {
        return Err(Failed::Skipped("rskafka has no idempotent producer".into()));
    }
    let name = batch["compression"].as_str().unwrap_or("none");
    let Some((_, compression)) = COMPRESSIONS.into_iter().find(|(each, _)| *each == name) else {
        return Err(Failed::Skipped(format!("no compression {name}")));
    };
    let given = batch["records"].as_array().map_or(&[][..], Vec::as_slice);
    let records = given.iter().map(to_record).collect::<Result<Vec<_>, _>>().map_err(Failed::Skipped)?;
    connected(request).await?.produce(records, compression).await?;
    Ok(())
}

fn to_record(given: &Value) -> Result<Record, String> {
    let timestamp = given["timestamp"].as_i64().unwrap_or(-1);
    let timestamp = DateTime::<Utc>::from_timestamp_millis(timestamp).ok_or("no such date in chrono")?;
    let mut record =
        Record { key: bytes(&given["key"]), value: bytes(&given["value"]), headers: Default::default(), timestamp };
    let mut last = String::new();
    for header in given["headers"].as_array().map_or(&[][..], Vec::as_slice) {
        let key = bytes(&header[0]).and_then(|key| String::from_utf8(key).ok());
        let key = key.ok_or("a header key is text, and this one is null or not UTF-8")?;
        let value = bytes(&header[1]).ok_or("to rskafka no header value is null")?;
        if !record.headers.is_empty() && key <= last {
            return Err("headers are a sorted map, which holds no key twice".into());
        }
        last.clone_from(&key);
        record.headers.insert(key, value);
    }
    Ok(record)
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    value.as_str().map(|text| STANDARD.decode(text).expect("base64 from the runner"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

/// The crate's own errors.  An IO error comes from a library below it, or is an end of file that it does not explain.
fn kind(error: &Error) -> &'static str {
    let text = error.to_string();
    match error {
        Error::InvalidResponse(_) => "malformed",
        Error::Request(_) if text.contains("Malformed data") => crate::kind_of(&text),
        _ => "other",
    }
}
