//! The Consumer of the crate samsa, with its default options.

mod requests;

use requests::{serve, Asked, Delivered, Refused};
use samsa::prelude::{BrokerAddress, ConsumerBuilder, Error, TcpConnection, TopicPartitionsBuilder};
use serde_json::json;

const VERSION: &str = "0.1.8";

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    serve("samsa", VERSION, &[2], &["none", "gzip", "snappy", "lz4", "zstd"], |asked, found| {
        runtime.block_on(consume(asked, found)).map_err(refused)
    })
}

/// Each request has a consumer of its own.
async fn consume(asked: &Asked, found: &mut Delivered) -> Result<(), Error> {
    let (host, port) = asked.bootstrap.split_once(':').unwrap_or_default();
    let brokers = vec![BrokerAddress { host: host.into(), port: port.parse().unwrap_or_default() }];
    let assignment = TopicPartitionsBuilder::new().assign(asked.topic.clone(), vec![0]).build();
    let mut builder = ConsumerBuilder::<TcpConnection>::new(brokers, assignment).await?;
    if asked.committed {
        builder = builder.isolation_level(1);
    }
    let mut consumer = builder.build();
    loop {
        let (messages, _) = consumer.next_batch().await?;
        for each in messages {
            // It shows no headers.
            let record = json!({ "offset": each.offset, "timestamp": each.timestamp });
            if found.add(Some(&each.key), Some(&each.value), record) {
                return Ok(());
            }
        }
    }
}

/// Its own errors; a panic ends the process.
fn refused(error: Error) -> Refused {
    let kind = match &error {
        Error::ParsingError(_) | Error::DecodingUtf8Error | Error::MissingData(_) => "malformed",
        _ => "other",
    };
    let message = match &error {
        Error::ParsingError(bytes) => format!("ParsingError({} bytes)", bytes.len()),
        other => format!("{other:?}"),
    };
    (kind, message)
}
