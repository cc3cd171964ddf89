//! nisshi's own command line, as in its `nisshi` crate, with the storage in memory and no client errors explained.

use std::process::ExitCode;

use nisshi_cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::run().await {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
