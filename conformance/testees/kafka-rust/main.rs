//! The Consumer of the crate kafka, with its default options.

mod requests;

use kafka::client::FetchOffset;
use kafka::consumer::Consumer;
use kafka::error::{Error, KafkaCode};
use requests::{serve, Asked, Delivered, Refused};
use serde_json::json;

const VERSION: &str = "0.10.0";

fn main() -> std::io::Result<()> {
    // It fetches with version 0 only.
    serve("kafka-rust", VERSION, &[0], &["none", "gzip", "snappy"], |asked, found| {
        consume(asked, found).map_err(refused)
    })
}

/// Each request has a consumer of its own, without a group.
fn consume(asked: &Asked, found: &mut Delivered) -> Result<(), Error> {
    let mut consumer = Consumer::from_hosts(vec![asked.bootstrap.clone()])
        .with_topic_partitions(asked.topic.clone(), &[0])
        .with_fallback_offset(FetchOffset::Earliest)
        .create()?;
    loop {
        for set in consumer.poll()?.iter() {
            for message in set.messages() {
                if found.add(Some(message.key), Some(message.value), json!({ "offset": message.offset })) {
                    return Ok(());
                }
            }
        }
    }
}

/// Its errors of decoding; an IO error is one of a library below it, that it does not explain.
fn refused(error: Error) -> Refused {
    let kind = match error {
        Error::Kafka(KafkaCode::CorruptMessage) => "corrupt",
        Error::UnsupportedProtocol => "unsupported_magic",
        Error::UnsupportedCompression => "unsupported_compression",
        Error::InvalidSnappy(_) => "decompression",
        Error::UnexpectedEOF => "truncated",
        Error::CodecError | Error::StringDecodeError | Error::Kafka(_) => "malformed",
        _ => "other",
    };
    (kind, format!("{error:?}"))
}
