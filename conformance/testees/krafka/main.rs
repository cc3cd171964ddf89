//! The Consumer of the crate krafka, with its default options.

mod requests;

use std::time::Duration;

use krafka::consumer::{AutoOffsetReset, IsolationLevel};
use krafka::error::{KrafkaError, ProtocolErrorKind};
use krafka::Kafka;
use requests::{serve, text, Asked, Delivered, Refused};
use serde_json::json;

const VERSION: &str = "0.28.1";

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    serve("krafka", VERSION, &[2], &["none", "gzip", "snappy", "lz4", "zstd"], |asked, found| {
        runtime.block_on(consume(asked, found)).map_err(refused)
    })
}

/// Each request has a client and a consumer of its own, without a group.
async fn consume(asked: &Asked, found: &mut Delivered) -> Result<(), KrafkaError> {
    let kafka = Kafka::builder(asked.bootstrap.clone()).connect().await?;
    let mut builder = kafka.consumer_without_group().auto_offset_reset(AutoOffsetReset::Earliest);
    if asked.committed {
        builder = builder.isolation_level(IsolationLevel::ReadCommitted);
    }
    let consumer = builder.build().await?;
    consumer.assign(&asked.topic, vec![0]).await?;
    consumer.seek(&asked.topic, 0, asked.offset).await?;
    loop {
        for each in consumer.poll(Duration::from_secs(1)).await? {
            let headers = each.headers.iter();
            let headers: Vec<_> = headers.map(|(key, value)| [text(Some(key.as_bytes())), text(value.as_deref())]).collect();
            let record = json!({ "offset": each.offset, "timestamp": each.timestamp, "headers": headers });
            if found.add(each.key.as_deref(), each.value.as_deref(), record) {
                return Ok(());
            }
        }
    }
}

/// Its own classes of errors.
fn refused(error: KrafkaError) -> Refused {
    let kind = match &error {
        KrafkaError::Protocol { kind, .. } => match kind {
            ProtocolErrorKind::CrcMismatch => "corrupt",
            ProtocolErrorKind::UnsupportedMagic => "unsupported_magic",
            ProtocolErrorKind::TruncatedFrame => "truncated",
            ProtocolErrorKind::FrameTooLarge => "limit",
            _ => "malformed",
        },
        KrafkaError::Compression { .. } => "decompression",
        _ => "other",
    };
    (kind, error.to_string())
}
