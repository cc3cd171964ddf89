//! Reads a log with rskafka's `Records` over and over; decode_bench/peers.py says what it answers.

use std::io::{self, BufRead, Cursor};

use rskafka::protocol::primitives::Records;
use rskafka::protocol::record::ControlBatchOrRecords;
use rskafka::protocol::traits::ReadType;

/// Microseconds of processor time for a sample, at least.
const LEAST: i64 = 50_000;
/// A fetch gives a consumer that much of a partition by default.
const SLICE: usize = 1 << 20;

extern "C" {
    /// The processor time of this process; POSIX has it count microseconds.
    fn clock() -> i64;
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of a log");
    let slices = cut(&std::fs::read(path).expect("a log"));
    let (records, checksum) = read(&slices);
    for line in io::stdin().lock().lines() {
        line.expect("a line");
        let (start, mut passes) = (spent(), 0);
        while passes == 0 || spent() - start < LEAST {
            assert_eq!(read(&slices), (records, checksum));
            passes += 1;
        }
        println!("{records} {} {}", checksum & i64::MAX, (spent() - start) * 1000 / passes);
    }
}

/// Whole batches as they stand in fetch responses: four bytes of size in front of about a slice of them.
fn cut(data: &[u8]) -> Vec<Vec<u8>> {
    let (mut slices, mut start, mut at) = (Vec::new(), 0, 0);
    while at < data.len() {
        let size = data[at + 8..at + 12].try_into().expect("four bytes");
        at += 12 + u32::from_be_bytes(size) as usize;
        if at - start >= SLICE || at == data.len() {
            let mut field = ((at - start) as i32).to_be_bytes().to_vec();
            field.extend(&data[start..at]);
            slices.push(field);
            start = at;
        }
    }
    slices
}

fn read(slices: &[Vec<u8>]) -> (i64, i64) {
    let (mut records, mut checksum) = (0, 0i64);
    for field in slices {
        for batch in Records::read(&mut Cursor::new(field)).expect("batches").0 {
            let ControlBatchOrRecords::Records(all) = batch.records else {
                panic!("a control batch");
            };
            for record in all {
                records += 1;
                let (offset, timestamp) = (record.offset_delta as i64, record.timestamp_delta);
                checksum = checksum.wrapping_add(batch.base_offset + offset + batch.first_timestamp + timestamp);
                checksum += size(&record.key) + size(&record.value);
                for header in &record.headers {
                    checksum += header.key.len() as i64 + header.value.len() as i64;
                }
            }
        }
    }
    (records, checksum)
}

fn size(bytes: &Option<Vec<u8>>) -> i64 {
    bytes.as_ref().map_or(0, |bytes| bytes.len() as i64)
}

fn spent() -> i64 {
    unsafe { clock() }
}
