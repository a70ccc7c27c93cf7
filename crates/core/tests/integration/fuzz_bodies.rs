//! Runs the bodies of the fuzz targets on their corpora and on random bytes, without a fuzzer.

#[path = "../../../../fuzz/src/bodies.rs"]
mod bodies;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each body gets random input.
const TIME: Duration = Duration::from_secs(1);

/// Runs a body on its corpus, on changed copies of it and on what `strategy` makes.
fn run(name: &str, body: fn(&[u8]), strategy: impl Strategy<Value = Vec<u8>>) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let corpus: Vec<Vec<u8>> =
        std::fs::read_dir(directory).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| body(input));
    let mut runner = TestRunner::deterministic();
    let changes = (any::<prop::sample::Index>(), vec((any::<prop::sample::Index>(), any::<u8>()), 0..8), any::<bool>());
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        body(&strategy.new_tree(&mut runner).unwrap().current());
        let (which, bytes, cut) = changes.new_tree(&mut runner).unwrap().current();
        let mut input = which.get(&corpus).clone();
        for (at, byte) in bytes {
            if !input.is_empty() {
                let at = at.index(input.len());
                if cut { input.truncate(at) } else { input[at] = byte }
            }
        }
        body(&input);
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..600)
}

#[test]
fn replies_of_any_bytes_are_decoded_or_refused() {
    run("reply", bodies::reply, (0..9u32, bytes()).prop_map(|(kind, rest)| [&kind.to_ne_bytes()[..], &rest].concat()));
}

#[test]
fn messages_of_any_bytes_are_decoded_or_refused() {
    run("supervisor", bodies::supervisor, bytes());
    run("files", bodies::files, bytes());
}

#[test]
fn archives_of_any_content_are_read_or_refused() {
    run("archive", bodies::archive, bytes());
}

#[test]
fn plain_states_of_any_bytes_are_restored_or_refused() {
    let section = prop_oneof![
        vec(any::<u8>(), 0..80).prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != 0).collect()),
        "(declare -[-xrainAl]{1,3} [a-z]{1,5}=[\"'($)a-z \\\\\n]{0,20}\n?){0,5}".prop_map(String::into_bytes),
        "(trap -- '[a-z' \\\\\n]{0,9}' (EXIT|DEBUG|SIGUSR1)\n){0,3}".prop_map(String::into_bytes),
        "('[^'\\x00]{0,9}' ?){0,4}".prop_map(String::into_bytes),
    ];
    // 15 sections, and a name and a definition.
    let dump = vec(section, 17).prop_map(|sections: Vec<Vec<u8>>| {
        let parts = sections.into_iter().flat_map(|section| [section, vec![0]].concat());
        b"BEGIN\0".iter().copied().chain(parts).chain(*b"END\0").collect::<Vec<u8>>()
    });
    run("plain_state", bodies::plain_state, dump);
}

#[test]
fn logs_keep_what_was_written_last() {
    run("log", bodies::log, bytes());
}
