//! The requests of kafka_conformance/process/client_testee.py, for consumers in Rust.  It is compiled into each testee.

use std::io::{self, BufRead, Write};

use base64::{engine::general_purpose::STANDARD, Engine};
use serde_json::{json, Value};

/// So many bytes of records are shown: of a flood the first, while the consumer reads on to its end.
const MOST_SHOWN: usize = 12 << 20;

/// What a consumer is asked for.
pub struct Asked {
    pub bootstrap: String,
    pub topic: String,
    pub offset: i64,
    pub committed: bool,
}

/// The records that a consumer delivers, up to the end record.
pub struct Delivered {
    end: Vec<u8>,
    records: Vec<Value>,
    size: usize,
}

impl Delivered {
    /// Takes a record with its key, value and other fields; says whether it is the end record.
    pub fn add(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, mut record: Value) -> bool {
        if key == Some(&self.end) {
            return true;
        }
        self.size += 100 + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
        if self.size < MOST_SHOWN {
            record["key"] = text(key);
            record["value"] = text(value);
            self.records.push(record);
        }
        false
    }
}

/// Bytes as base64; null for none.
pub fn text(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| STANDARD.encode(bytes).into())
}

/// An error of the library: its kind by the protocol's names, and its message.
pub type Refused = (&'static str, String);

/// Answers until there are no more requests.
pub fn serve(
    name: &str,
    version: &str,
    magics: &[u8],
    compressions: &[&str],
    mut consume: impl FnMut(&Asked, &mut Delivered) -> Result<(), Refused>,
) -> io::Result<()> {
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let reply = match request["op"].as_str() {
            Some("hello") => json!({
                "protocol": 1, "name": name, "version": version, "language": "rust", "runtime": "rust, release profile",
                "decode": {"magics": magics, "compressions": compressions},
                "encode": {"magics": [], "compressions": []},
            }),
            Some("consume") => {
                let end = request["end"].as_str().unwrap_or_default().into();
                let mut found = Delivered { end, records: Vec::new(), size: 0 };
                let asked = Asked {
                    bootstrap: request["bootstrap"].as_str().unwrap_or_default().into(),
                    topic: request["topic"].as_str().unwrap_or_default().into(),
                    offset: request["offset"].as_i64().unwrap_or_default(),
                    committed: request["committed"].as_bool().unwrap_or_default(),
                };
                match consume(&asked, &mut found) {
                    Ok(()) => json!({ "records": found.records }),
                    Err((kind, message)) => {
                        let message: String = message.chars().take(400).collect();
                        json!({"records": found.records, "error": {"kind": kind, "message": message}})
                    }
                }
            }
            op => json!({ "skipped": format!("no operation {op:?}") }),
        };
        serde_json::to_writer(&mut replies, &reply)?;
        replies.write_all(b"\n")?;
        replies.flush()?;
    }
    Ok(())
}
