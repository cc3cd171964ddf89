//! Reads a log with `RecordBatchDecoder` over and over; decode_bench/peers.py says what it answers.

use std::io::{self, BufRead};

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;

/// Microseconds of processor time for a sample, at least.
const LEAST: i64 = 50_000;

extern "C" {
    /// The processor time of this process; POSIX has it count microseconds.
    fn clock() -> i64;
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a log");
    let data = Bytes::from(std::fs::read(path).expect("a log"));
    let (records, checksum) = read(&data);
    for line in io::stdin().lock().lines() {
        line.expect("a line");
        let (start, mut passes) = (spent(), 0);
        while passes == 0 || spent() - start < LEAST {
            assert_eq!(read(&data), (records, checksum));
            passes += 1;
        }
        println!("{records} {} {}", checksum & i64::MAX, (spent() - start) * 1000 / passes);
    }
}

fn read(data: &Bytes) -> (i64, i64) {
    let (mut left, mut records, mut checksum) = (data.clone(), 0, 0i64);
    while !left.is_empty() {
        for record in RecordBatchDecoder::decode(&mut left).expect("a batch").records {
            records += 1;
            checksum = checksum.wrapping_add(record.offset + record.timestamp);
            checksum += size(&record.key) + size(&record.value);
            for (key, value) in &record.headers {
                checksum += key.len() as i64 + size(value);
            }
        }
    }
    (records, checksum)
}

fn size(bytes: &Option<Bytes>) -> i64 {
    bytes.as_ref().map_or(0, |bytes| bytes.len() as i64)
}

fn spent() -> i64 {
    unsafe { clock() }
}
