//! Tests of the log against a model that keeps everything: random output, limits, cursors and lengths.

use super::store::{BlockStore, NextPart, SHAPE, Shape};
use super::{LogSlice, ProcessLog, StateDirectory};
use crate::exec::OutputStream::{self, Stderr, Stdout};
use std::path::Path;
use std::sync::Arc;

/// A linear congruential generator (Knuth's MMIX): the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    /// A number from 0 up to, but not including, the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Every byte with its stream and arrival time.
#[derive(Default)]
struct Model {
    bytes: Vec<(u8, OutputStream, u64)>,
}

impl Model {
    /// Compares a slice with the expected bytes, except for missing ones. Returns how many are missing.
    fn check(&self, slice: &LogSlice, cursor: u64, most: usize) -> u64 {
        let end = self.bytes.len() as u64;
        let length: usize = slice.pieces.iter().map(|piece| piece.bytes.len()).sum();
        if cursor >= end {
            assert_eq!(*slice, LogSlice { next: end, ..LogSlice::default() });
            return 0;
        }
        assert!(length <= most.max(1));
        assert_eq!(slice.next, cursor + slice.dropped + slice.lost + length as u64);
        assert!(length > 0 || slice.next == end, "there is something, but nothing was given");
        let mut at = cursor + slice.dropped;
        let mut lost = 0;
        for piece in &slice.pieces {
            assert!(piece.cursor >= at && !piece.bytes.is_empty());
            lost += piece.cursor - at;
            for (index, byte) in piece.bytes.iter().enumerate() {
                let (expected, stream, time_ms) = self.bytes[piece.cursor as usize + index];
                assert_eq!((*byte, piece.stream), (expected, stream));
                assert!(piece.time_ms <= time_ms && time_ms <= piece.time_ms + 10);
            }
            at = piece.cursor + piece.bytes.len() as u64;
        }
        assert_eq!(slice.lost, lost + slice.next - at);
        slice.dropped + slice.lost
    }

    fn push(&mut self, store: &mut BlockStore, random: &mut Random, longest: u64, time_ms: u64) {
        let stream = if random.below(3) == 0 { Stderr } else { Stdout };
        let bytes: Vec<u8> = (0..random.below(longest + 1)).map(|_| random.below(256) as u8).collect();
        // The next output may arrive while blocks are being written.
        let batch = if random.below(2) == 0 { store.next_batch() } else { None };
        store.push(stream, &bytes, time_ms);
        if let Some(batch) = batch {
            store.written(batch.write());
        }
        self.bytes.extend(bytes.iter().map(|byte| (*byte, stream, time_ms)));
    }
}

pub fn at(path: &Path) -> Arc<StateDirectory> {
    Arc::new(StateDirectory::new(path.into()))
}

/// Writes what does not fit into memory.
fn settle(store: &mut BlockStore) {
    if let Some(batch) = store.next_batch() {
        store.written(batch.write());
    }
}

fn read(store: &BlockStore, cursor: u64, most: usize) -> LogSlice {
    let mut reading = store.begin(cursor, most);
    loop {
        match store.advance(reading) {
            NextPart::Done(slice) => return slice,
            NextPart::File(fetch) => reading = fetch.run(),
        }
    }
}

#[test]
fn every_read_is_what_the_model_says() {
    let directory = tempfile::tempdir().unwrap();
    for seed in 0..120 {
        let mut random = Random(seed);
        let shape = Shape { block_size: 64 + random.below(400) as usize, memory_blocks: random.below(4) as usize };
        let limit = random.below(3000);
        let longest = 1 + random.below(300);
        let mut store = BlockStore::new(&at(directory.path()), limit, shape);
        let mut model = Model::default();
        let (mut follower, mut time_ms) = (0, 0);
        for _ in 0..200 {
            time_ms += random.below(8);
            model.push(&mut store, &mut random, longest, time_ms);
            let end = model.bytes.len() as u64;
            assert_eq!(store.end(), end);
            let (cursor, most) = (random.below(end + 10), random.below(500) as usize);
            model.check(&read(&store, cursor, most), cursor, most);
            if random.below(4) == 0 {
                let slice = read(&store, follower, most);
                model.check(&slice, follower, most);
                follower = slice.next;
            }
            let all = read(&store, 0, usize::MAX);
            let kept = end - model.check(&all, 0, usize::MAX);
            assert_eq!(all.lost, 0);
            assert!(kept <= limit.min(end), "{kept} bytes kept of {limit}");
            let pieces = all.pieces.len() as u64;
            if shape.block_size >= 256 && pieces * 80 < kept {
                assert_eq!(kept, limit.min(end), "long pieces are kept up to the limit");
            }
        }
    }
}

#[test]
fn without_a_disk_the_newest_is_kept_and_the_rest_is_counted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("in the way/logs");
    std::fs::write(place.path().join("in the way"), "a file").unwrap();
    let shape = Shape { block_size: 128, memory_blocks: 2 };
    let mut store = BlockStore::new(&at(&directory), 100_000, shape);
    let (mut model, mut random) = (Model::default(), Random(1));
    for _ in 0..100 {
        model.push(&mut store, &mut random, 60, 0);
    }
    let full = read(&store, 0, usize::MAX);
    model.check(&full, 0, usize::MAX);
    assert!(full.lost > 0 && full.dropped == 0);
    assert!(model.bytes.len() as u64 - full.lost >= 200);

    // The disk has room again: the gap stays, and nothing after it is lost.
    std::fs::remove_file(place.path().join("in the way")).unwrap();
    for _ in 0..100 {
        model.push(&mut store, &mut random, 60, 0);
    }
    let again = read(&store, 0, usize::MAX);
    model.check(&again, 0, usize::MAX);
    assert_eq!(again.lost, full.lost);
}

#[test]
fn memory_is_bounded_whatever_comes() {
    let directory = tempfile::tempdir().unwrap();
    let chunk = vec![b'x'; 64 * 1024];
    let mut store = BlockStore::new(&at(directory.path()), 8 << 20, SHAPE);
    let mut most = 0;
    for time_ms in 0..400 {
        store.push(Stdout, &chunk, time_ms);
        settle(&mut store);
        most = most.max(store.memory());
    }
    for count in 0..400_000 {
        store.push(if count % 2 == 0 { Stdout } else { Stderr }, b"x", 1000);
        settle(&mut store);
        most = most.max(store.memory());
    }
    assert!(most + SHAPE.block_size <= 1 << 20, "{most} bytes");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn little_output_takes_little_memory_and_no_file() {
    let mut store = BlockStore::new(&at(Path::new("/dev/null/nonexistent")), 64 << 20, SHAPE);
    store.push(Stdout, b"a line\n", 0);
    assert!(store.memory() < 1024);
}

#[test]
fn a_million_tiny_writes_are_few_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = BlockStore::new(&at(directory.path()), 64 << 20, SHAPE);
    for count in 0..1_000_000 {
        store.push(Stdout, b"x", count / 1000);
        settle(&mut store);
    }
    assert!(store.pieces() < 200, "{} pieces", store.pieces());
    let slice = read(&store, 123_456, 100_000);
    assert_eq!((slice.next, slice.dropped, slice.lost), (223_456, 0, 0));
}

#[tokio::test]
async fn readers_that_come_at_any_time_get_all_of_it_once() {
    let directory = tempfile::tempdir().unwrap();
    let log = ProcessLog::with_shape(&at(directory.path()), 1 << 20, Shape { block_size: 512, memory_blocks: 3 });
    let expected: Vec<u8> = (0..200_000u32).map(|number| (number / 7) as u8).collect();
    let writer = {
        let (log, bytes) = (log.clone(), expected.clone());
        tokio::spawn(async move {
            let mut random = Random(7);
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(1 + random.below(300) as usize));
                log.room().await;
                log.push(if random.below(2) == 0 { Stdout } else { Stderr }, now);
                rest = later;
            }
            log.end();
        })
    };
    let readers: Vec<_> = (0..8)
        .map(|number| {
            let log = log.clone();
            tokio::spawn(async move {
                let mut random = Random(number);
                log.wait(number * 20_000).await;
                let (mut all, mut cursor) = (Vec::new(), 0);
                loop {
                    let slice = log.follow(cursor, 1 + random.below(5000) as usize).await;
                    assert_eq!((slice.dropped, slice.lost), (0, 0));
                    slice.pieces.iter().for_each(|piece| all.extend_from_slice(&piece.bytes));
                    cursor = slice.next;
                    if slice.ended {
                        return all;
                    }
                }
            })
        })
        .collect();
    writer.await.unwrap();
    for reader in readers {
        assert!(reader.await.unwrap() == expected);
    }
}

#[test]
fn what_is_being_read_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = BlockStore::new(&at(directory.path()), 1000, Shape { block_size: 128, memory_blocks: 0 });
    let push = |store: &mut BlockStore, byte: u8| {
        store.push(Stdout, &[byte; 1000], 0);
        settle(store);
    };
    push(&mut store, b'a');
    let NextPart::File(fetch) = store.advance(store.begin(0, 1000)) else { panic!("the beginning is in memory") };
    for byte in b'b'..b'z' {
        push(&mut store, byte);
    }
    let NextPart::Done(slice) = store.advance(fetch.run()) else { panic!("it goes on in the file") };
    assert!(!slice.pieces.is_empty());
    assert!(slice.pieces.iter().all(|piece| piece.bytes.iter().all(|byte| *byte == b'a')));
}
