use kafka_protocol::records::{Record as Decoded, RecordBatchDecoder};
use kafkaproof_vectors::{cases, run, Filter, Header, Record};

fn record(from: Decoded) -> Record {
    let headers = from.headers.into_iter();
    let headers = headers.map(|(key, value)| Header { key: key.as_bytes().to_vec(), value: value.map(Vec::from) });
    let (key, value) = (from.key.map(Vec::from), from.value.map(Vec::from));
    Record { offset: from.offset, timestamp: from.timestamp, key, value, headers: headers.collect() }
}

pub fn main() {
    let filter = Filter { profiles: &["consumer", "integrity"], magics: &[2], ..Filter::default() };
    let report = run(cases(filter), |data| {
        let sets = RecordBatchDecoder::decode_all(&mut bytes::Bytes::copy_from_slice(data))?;
        Ok::<_, anyhow::Error>(sets.into_iter().flat_map(|set| set.records).map(record).collect())
    });
    println!("{report}");
}
