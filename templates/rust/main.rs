//! A testee for Kafkaproof. Call your codec in decode, and describe it in hello: name, version, formats.
use base64::{engine::general_purpose::STANDARD, Engine};
use serde_json::{json, Value};

fn hello() -> Value {
    json!({"protocol": 1, "name": "my-codec", "version": "0.1", "language": "rust",
        "decode": {"magics": [2], "compressions": ["none"]}, "encode": {"magics": [], "compressions": []}})
}

// ======== Your codec goes here: pushes the batches in `data`, and gives the kind of its error, if there is one. ========
// This small one reads uncompressed v2 batches. What your codec does not expose is left out of the JSON.
fn decode(mut data: &[u8], batches: &mut Vec<Value>) -> Result<(), &'static str> {
    while data.len() >= 17 {
        let size = 12 + i64::from(i32::from_be_bytes(data[8..12].try_into().unwrap()));
        match (data[16], size > data.len() as i64) {
            (2, false) => batches.push(read_batch(bytes(&mut data, size)?)?),
            (2, true) => break, // a partial batch at the end is dropped
            _ => return Err("unsupported_magic"),
        }
    }
    Ok(())
}

fn read_batch(data: &[u8]) -> Result<Value, &'static str> {
    let (mut rest, mut records) = (data.get(61..).ok_or("malformed")?, vec![]);
    let number = |at: usize| i64::from_be_bytes(data[at..at + 8].try_into().unwrap());
    (crc32c::crc32c(&data[21..]) == (number(17) >> 32) as u32).then_some(()).ok_or("corrupt")?;
    for _ in 0..number(53) as i32 {
        (varint(&mut rest)?, bytes(&mut rest, 1)?); // the record's length and attributes
        let (timestamp, offset) =
            (number(27).wrapping_add(varint(&mut rest)?), number(0).wrapping_add(varint(&mut rest)?));
        let (key, value, mut headers) = (text(&mut rest)?, text(&mut rest)?, vec![]);
        for _ in 0..varint(&mut rest)? {
            headers.push([text(&mut rest)?, text(&mut rest)?]);
        }
        records.push(json!({"offset": offset, "timestamp": timestamp, "key": key, "value": value, "headers": headers}));
    }
    Ok(json!({"magic": 2, "base_offset": number(0), "compression": "none", "records": records}))
}

fn bytes<'a>(rest: &mut &'a [u8], size: i64) -> Result<&'a [u8], &'static str> {
    let (found, after) = rest.split_at_checked(size as usize).ok_or("malformed")?;
    *rest = after;
    Ok(found)
}

fn varint(rest: &mut &[u8]) -> Result<i64, &'static str> {
    let mut number = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = u64::from(bytes(rest, 1)?[0]);
        number |= (byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((number >> 1) as i64 ^ -((number & 1) as i64)); // zig-zag
        }
    }
    Err("malformed")
}

fn text(rest: &mut &[u8]) -> Result<Option<String>, &'static str> {
    let size = varint(rest)?;
    (size >= 0).then(|| bytes(rest, size).map(|found| STANDARD.encode(found))).transpose()
}

// ======== From here on nothing has to be changed. ========
fn main() {
    for line in std::io::stdin().lines() {
        let (request, mut batches): (Value, _) = (serde_json::from_str(&line.unwrap()).unwrap_or_default(), vec![]);
        let (id, data) = (&request["id"], STANDARD.decode(request["data"].as_str().unwrap_or_default()).unwrap());
        let reply = match request["op"].as_str().unwrap_or_default() {
            "hello" => hello(),
            "decode" => match decode(&data, &mut batches) {
                Ok(()) => json!({"id": id, "batches": batches}),
                Err(kind) => json!({"id": id, "batches": batches, "error": {"kind": kind}}),
            },
            other => json!({"id": id, "skipped": format!("no {other} here")}),
        };
        println!("{reply}");
    }
}
