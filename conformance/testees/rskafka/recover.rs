//! A consumer stream in an application that goes on after errors, as kafka_conformance/edges/recovery.py runs it.
//!
//! A stream ends with its first error, so another one begins: at the offset that the application goes to, or, if it
//! only logs, after the last record.  Neither a stream nor an error has a position.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::{engine::general_purpose::STANDARD, Engine};
use futures::StreamExt;
use rskafka::client::consumer::{StartOffset, StreamConsumer, StreamConsumerBuilder};
use rskafka::client::partition::PartitionClient;
use serde_json::{json, Value};
use tokio::time::{sleep, timeout};

const POLL: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(100);

/// The application's loop; it ends with the end record, or when its time is over.
pub async fn go_on(request: &Value, client: Arc<PartitionClient>, events: &mut impl Write) -> io::Result<&'static str> {
    let seeks = request["seek"].as_bool().unwrap_or_default();
    let (mut quiet, mut deadline) = (Instant::now(), Instant::now() + millis(&request["limit_ms"]));
    let (mut last, mut tried, mut jumped) = (integer(&request["offset"]) - 1, -1, false);
    let mut stream = stream_from(&client, last + 1);
    while Instant::now() < deadline {
        match timeout(POLL, stream.next()).await {
            Ok(Some(Ok((given, _)))) => {
                let value = STANDARD.encode(given.record.value.unwrap_or_default());
                emit(events, json!({"offset": given.offset, "value": value}))?;
                (quiet, last) = (Instant::now(), given.offset);
                if given.record.key.as_deref() == request["end"].as_str().map(str::as_bytes) {
                    return Ok("end");
                }
            }
            Ok(Some(Err(error))) => {
                let message: String = error.to_string().chars().take(2000).collect();
                emit(events, json!({"error": {"type": "Error", "message": message}}))?;
                quiet = Instant::now();
                if !seeks {
                    deadline = deadline.min(quiet + millis(&request["after_error_ms"]));
                    sleep(PAUSE).await;
                    stream = stream_from(&client, last + 1);
                    continue;
                }
                tried = (last + 1).max(tried + 1);
                stream = stream_from(&client, tried);
                emit(events, json!({"sought": tried, "why": "error"}))?;
            }
            Ok(None) => stream = stream_from(&client, last + 1),
            Err(_) => {} // nothing in that time
        }
        if seeks && !jumped && quiet.elapsed() > millis(&request["silence_ms"]) {
            (jumped, quiet) = (true, Instant::now());
            let past = integer(&request["past"]);
            stream = stream_from(&client, past);
            emit(events, json!({"sought": past, "why": "silence"}))?;
        }
    }
    Ok("time")
}

fn stream_from(client: &Arc<PartitionClient>, offset: i64) -> StreamConsumer {
    StreamConsumerBuilder::new(Arc::clone(client), StartOffset::At(offset)).build()
}

pub fn emit(events: &mut impl Write, event: Value) -> io::Result<()> {
    serde_json::to_writer(&mut *events, &event)?;
    events.write_all(b"\n")?;
    events.flush()
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or_default())
}
