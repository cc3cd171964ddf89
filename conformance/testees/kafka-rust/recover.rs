//! A Consumer in an application that goes on after errors, as kafka_conformance/edges/recovery.py runs it.
//!
//! A Consumer has no seek.  To begin or go on at another offset than the first, the application fetches from there with the client
//! of its Consumer, and counts on from the last message.  Neither a Consumer nor an error has a position.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::{engine::general_purpose::STANDARD, Engine};
use kafka::client::FetchPartition;
use kafka::consumer::{Consumer, FetchOffset, Message};
use kafka::error::Error;
use serde_json::{json, Value};

use crate::{emit, text};

const PAUSE: Duration = Duration::from_millis(100);

/// Offset, key and value of a message.
type Taken = (i64, Vec<u8>, Vec<u8>);

struct Application {
    topic: String,
    consumer: Consumer,
    /// Where the client fetches; none as long as the Consumer is polled.
    fetched_at: Option<i64>,
}

impl Application {
    fn start(request: &Value) -> Result<Self, Error> {
        let topic = text(&request["topic"]);
        let consumer = Consumer::from_hosts(vec![text(&request["bootstrap"])])
            .with_topic_partitions(topic.clone(), &[0])
            .with_fallback_offset(FetchOffset::Earliest)
            .create()?;
        let fetched_at = Some(integer(&request["offset"])).filter(|&offset| offset > 0);
        Ok(Self { topic, consumer, fetched_at })
    }

    fn poll(&mut self) -> Result<Vec<Taken>, Error> {
        let Some(offset) = self.fetched_at else {
            return Ok(self.consumer.poll()?.iter().flat_map(|set| set.messages()).map(taken).collect());
        };
        let mut messages = Vec::new();
        let wanted = FetchPartition::new(&self.topic, 0, offset);
        for response in self.consumer.client_mut().fetch_messages_for_partition(&wanted)? {
            for partition in response.topics().iter().flat_map(|topic| topic.partitions()) {
                messages.extend(partition.data()?.messages().iter().map(taken));
            }
        }
        if let Some((last, ..)) = messages.last() {
            self.fetched_at = Some(last + 1);
        }
        Ok(messages)
    }

    fn seek(&mut self, offset: i64) {
        self.fetched_at = Some(offset);
    }
}

fn taken(message: &Message<'_>) -> Taken {
    (message.offset, message.key.to_vec(), message.value.to_vec())
}

/// The application's loop; it ends with the end record, or when its time is over.
pub fn go_on(request: &Value, events: &mut impl Write) -> io::Result<&'static str> {
    let seeks = request["seek"].as_bool().unwrap_or_default();
    let (mut quiet, mut deadline) = (Instant::now(), Instant::now() + millis(&request["limit_ms"]));
    let (mut last, mut tried, mut jumped) = (integer(&request["offset"]) - 1, -1, false);
    let mut application = Application::start(request).map_err(io::Error::other)?;
    while Instant::now() < deadline {
        match application.poll() {
            Ok(messages) => {
                for (offset, key, value) in messages {
                    emit(events, json!({"offset": offset, "value": STANDARD.encode(value)}))?;
                    (quiet, last) = (Instant::now(), offset);
                    if request["end"].as_str().map(str::as_bytes) == Some(&key) {
                        return Ok("end");
                    }
                }
            }
            Err(error) => {
                report(&error, events)?;
                quiet = Instant::now();
                if !seeks {
                    deadline = deadline.min(quiet + millis(&request["after_error_ms"]));
                    sleep(PAUSE);
                    continue;
                }
                tried = (last + 1).max(tried + 1);
                emit(events, json!({"sought": tried, "why": "error"}))?;
                application.seek(tried);
            }
        }
        if seeks && !jumped && quiet.elapsed() > millis(&request["silence_ms"]) {
            (jumped, quiet) = (true, Instant::now());
            let past = integer(&request["past"]);
            application.seek(past);
            emit(events, json!({"sought": past, "why": "silence"}))?;
        }
    }
    Ok("time")
}

fn report(error: &Error, events: &mut impl Write) -> io::Result<()> {
    let message: String = error.to_string().chars().take(2000).collect();
    emit(events, json!({"error": {"type": "Error", "message": message}}))
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn millis(value: &Value) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or_default())
}
