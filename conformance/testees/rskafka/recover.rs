//! A consumer stream in an application that goes on after errors, with the crate's default options, as
//! kafka_conformance/edges/recovery.py runs it.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::{engine::general_purpose::STANDARD, Engine};
use futures::StreamExt;
use rskafka::client::consumer::{StartOffset, StreamConsumer, StreamConsumerBuilder};
use rskafka::client::error::Error;
use rskafka::client::partition::PartitionClient;
use serde_json::{json, Value};
use tokio::time::{sleep, timeout};

fn emit(event: &Value) {
    let mut out = io::stdout();
    // Where the pipe is closed, the process is about to be ended.
    let _ = writeln!(out, "{event}").and_then(|()| out.flush());
}

fn start(client: &Arc<PartitionClient>, offset: i64) -> StreamConsumer {
    StreamConsumerBuilder::new(Arc::clone(client), StartOffset::At(offset)).build()
}

fn milliseconds(request: &Value, name: &str) -> Duration {
    Duration::from_millis(request[name].as_u64().unwrap_or_default())
}

/// Reads until the end record; a stream ends with its first error and has no seek, so another one begins at the offset.
pub async fn go_on(client: PartitionClient, request: &Value) {
    let client = Arc::new(client);
    let seeks = request["seek"].as_bool().unwrap_or_default();
    let mut deadline = Instant::now() + milliseconds(request, "limit_ms");
    let (mut quiet, mut jumped) = (Instant::now(), false);
    let mut next = request["offset"].as_i64().unwrap_or_default();
    let mut tried = -1;
    let mut stream = start(&client, next);
    let done = loop {
        if Instant::now() > deadline {
            break "time";
        }
        match timeout(Duration::from_millis(500), stream.next()).await {
            Ok(Some(Ok((given, _)))) => {
                quiet = Instant::now();
                next = given.offset + 1;
                let value = STANDARD.encode(given.record.value.unwrap_or_default());
                emit(&json!({"offset": given.offset, "value": value}));
                if given.record.key.as_deref() == request["end"].as_str().map(str::as_bytes) {
                    break "end";
                }
            }
            Ok(Some(Err(error))) => {
                quiet = Instant::now();
                report(&error);
                if seeks {
                    next = next.max(tried + 1);
                    tried = next;
                    emit(&json!({"sought": next, "why": "error"}));
                    stream = start(&client, next);
                } else {
                    deadline = deadline.min(quiet + milliseconds(request, "after_error_ms"));
                }
            }
            Ok(None) => sleep(Duration::from_millis(500)).await, // the stream has ended
            Err(_) => {}
        }
        if seeks && !jumped && quiet.elapsed() > milliseconds(request, "silence_ms") {
            (jumped, quiet) = (true, Instant::now());
            next = request["past"].as_i64().unwrap_or_default();
            emit(&json!({"sought": next, "why": "silence"}));
            stream = start(&client, next);
        }
    };
    emit(&json!({ "done": done }));
    std::process::exit(0);
}

/// A stream has no position, and an error no attributes: its request may.
fn report(error: &Error) {
    emit(&json!({"error": {"type": "Error", "message": format!("{error} ({error:?})")}}));
}
