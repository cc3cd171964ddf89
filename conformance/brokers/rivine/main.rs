//! rivine with one node: `rivine PORT FOLDER`.  Its own program takes these from a file of settings only.

use anyhow::{Context, Result};
use rivine::{Broker, BrokerConfig};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments.next().context("no port")?.parse()?;
    let folder = arguments.next().context("no folder")?;
    Broker::new(BrokerConfig { port, log_dirs: vec![folder], ..BrokerConfig::default() })
        .run()
        .await?;
    Ok(())
}
