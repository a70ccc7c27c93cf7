use super::*;
use crate::write::title;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

fn file() -> File {
    tempfile::tempfile().unwrap()
}

fn with(bytes: &[u8]) -> File {
    let mut file = file();
    file.write_all(bytes).unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

fn entry(parent: u32, name: &[u8], what: What) -> Entry {
    Entry { parent, name: name.to_vec(), what, mode: 0o644, modified: (1, 2), base: None }
}

fn directory(parent: u32, name: &[u8]) -> Entry {
    entry(parent, name, What::Directory { hides: false, is_real: false })
}

fn written(entries: &[Entry], contents: &[(usize, &[u8])]) -> Result<Vec<u8>, Refused> {
    let mut to = file();
    let about = About { version: "1.2.3".into(), sessions: vec!["default".into()], ..About::default() };
    let open = |number| {
        let content = contents.iter().find(|(of, _)| *of == number);
        content.map(|(_, bytes)| with(bytes)).ok_or_else(|| io::ErrorKind::NotFound.into())
    };
    let length = write(&to, about, b"states", entries, open)?;
    to.seek(SeekFrom::Start(0)).unwrap();
    let mut bytes = Vec::new();
    to.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, length);
    Ok(bytes)
}

/// Everything that an archive has.
type Whole = (About, Vec<u8>, Vec<Entry>, Vec<Vec<u8>>);

fn read(bytes: &[u8], max_bytes: u64) -> Result<Whole, Refused> {
    let mut archive = Archive::open(with(bytes))?;
    let (states, entries) = (archive.states()?, archive.entries(max_bytes)?);
    let mut contents = Vec::new();
    for entry in &entries {
        let What::File(size) = entry.what else { continue };
        let mut content = Vec::new();
        archive.content(size, |piece| {
            content.extend_from_slice(piece);
            Ok(())
        })?;
        contents.push(content);
    }
    let about = archive.about().clone();
    archive.end()?;
    Ok((about, states, entries, contents))
}

fn reason(refused: Result<impl Sized, Refused>) -> String {
    match refused {
        Err(Refused::Because(reason)) => reason,
        Err(Refused::System(error)) => panic!("{error}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// The same archive with the right checksum.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    fuzzing::sealed(&bytes[title().len() + SUM_BYTES..]).unwrap()
}

/// An archive of a stream that no writer makes.
fn forged(about: &About, rest: &[u8]) -> Vec<u8> {
    let about = serde_json::to_vec(about).unwrap();
    fuzzing::forged(&[&(about.len() as u32).to_le_bytes()[..], &about, rest].concat()).unwrap()
}

fn forged_entries(entries: &[Entry]) -> Vec<u8> {
    let encoded: Vec<u8> = entries.iter().flat_map(|entry| nacre_protocol::message::encode(entry).unwrap()).collect();
    let (entries, entry_bytes) = (entries.len() as u64, encoded.len() as u64);
    forged(&About { format: FORMAT, entries, entry_bytes, ..About::default() }, &encoded)
}

fn example() -> (Vec<Entry>, Vec<u8>) {
    let entries = vec![
        directory(0, b""),
        entry(0, b"\xff\n", What::File(200_000)),
        directory(0, b"d"),
        entry(2, b"empty", What::File(0)),
        entry(2, b"same", What::Link(1)),
        entry(2, b"link", What::Symlink(b"/etc/passwd".to_vec())),
        entry(2, b"pipe", What::Fifo),
        Entry { base: Some(Base::File(7, [1; 8])), ..entry(2, b"gone", What::Deleted) },
        entry(2, b"small", What::File(5)),
    ];
    let large: Vec<u8> = (0..200_000_u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let bytes = written(&entries, &[(1, &large), (8, b"small")]).unwrap();
    (entries, bytes)
}

#[test]
fn what_was_written_is_read() {
    let (entries, bytes) = example();
    let (about, states, found, contents) = read(&bytes, 1 << 20).unwrap();
    assert_eq!((&*about.version, about.files, about.bytes), ("1.2.3", 7, 200_005));
    assert_eq!((&states[..], &found), (&b"states"[..], &entries));
    assert_eq!(contents.iter().map(Vec::len).collect::<Vec<_>>(), [200_000, 0, 5]);
    let without_files = read(&written(&[], &[]).unwrap(), 0).unwrap();
    assert_eq!((without_files.0.files, without_files.2.len()), (0, 0));
}

#[test]
fn damage_is_noticed() {
    let (_, bytes) = example();
    let number = title().len() - 2;
    for at in (0..1000).chain((1000..bytes.len()).step_by(997)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let reason = reason(read(&damaged, 1 << 20));
        let expected = match at {
            at if at == number => "another version",
            at if at < title().len() => "no archive",
            _ => "damaged",
        };
        assert!(reason.contains(expected), "byte {at}: {reason}");
        reason_of_cut(&bytes[..at]);
    }
    assert!(reason(read(&[&bytes[..], b"x"].concat(), 1 << 20)).contains("damaged"));
}

fn reason_of_cut(cut: &[u8]) {
    let reason = reason(read(cut, 1 << 20));
    assert!(reason.contains("damaged") || reason.contains("no archive"), "{} bytes: {reason}", cut.len());
}

#[test]
fn what_follows_the_end_is_refused_although_the_checksum_is_right() {
    let (_, bytes) = example();
    assert!(reason(read(&sealed(&[&bytes[..], b"x"].concat()), 1 << 20)).contains("damaged"));
    let about = About { format: FORMAT, ..About::default() };
    read(&forged(&about, b""), 0).unwrap();
    assert!(reason(read(&forged(&about, b"x"), 0)).contains("damaged"));
}

#[test]
fn sizes_are_bounded() {
    let (_, bytes) = example();
    assert!(reason(read(&bytes, 200_004)).contains("maxBytes is 200004"));
    for about in [
        About { state_bytes: MAX_STATE_BYTES + 1, ..About::default() },
        About { state_bytes: 1 << 20, ..About::default() },
        About { entry_bytes: u64::MAX, ..About::default() },
        About { entries: 1, ..About::default() },
        About { entries: u64::MAX, ..About::default() },
        About { format: FORMAT + 1, ..About::default() },
    ] {
        let format = about.format.max(FORMAT);
        assert!(reason(read(&forged(&About { format, ..about.clone() }, b"xy"), 0)).contains("damaged"), "{about:?}");
    }
    let large = vec![directory(0, b""), entry(0, b"a", What::File(u64::MAX)), entry(0, b"b", What::File(2))];
    assert!(reason(read(&forged_entries(&large), u64::MAX)).contains("damaged"));
    // It says more than it has.
    let short = vec![directory(0, b""), entry(0, b"a", What::File(10))];
    assert!(reason(read(&forged_entries(&short), u64::MAX)).contains("damaged"));
    // The length of a name is not believed.
    let about = About { format: FORMAT, entries: 1, entry_bytes: 7, ..About::default() };
    assert!(reason(read(&forged(&about, &[0, 0xff, 0xff, 0xff, 0xff, 0x7f, 0]), 0)).contains("damaged"));
}

#[test]
fn a_stream_that_grows_is_read_no_further_than_it_says() {
    let zeros = vec![0; 64 << 20];
    let about = About { format: FORMAT, state_bytes: 10, ..About::default() };
    let bomb = forged(&about, &zeros);
    assert!(bomb.len() < 1 << 20);
    let mut archive = Archive::open(with(&bomb)).unwrap();
    assert_eq!(archive.states().unwrap().len(), 10);
    assert!(archive.entries(0).unwrap().is_empty());
    assert!(reason(archive.end()).contains("damaged"));
}

#[test]
fn entries_that_cannot_be_are_refused() {
    let root = || directory(0, b"");
    let inside = |entry: Entry| vec![root(), directory(0, b"d"), self::entry(0, b"f", What::File(0)), entry];
    let cases: Vec<(&str, Vec<Entry>)> = vec![
        ("first entry", vec![entry(0, b"f", What::Fifo)]),
        ("first entry", vec![directory(0, b"name")]),
        ("first entry", vec![directory(1, b"")]),
        ("no name", inside(entry(0, b"..", What::Fifo))),
        ("no name", inside(entry(0, b".", What::Fifo))),
        ("no name", inside(entry(0, b"", What::Fifo))),
        ("no name", inside(entry(0, b"/etc", What::Fifo))),
        ("no name", inside(entry(0, b"a/b", What::Fifo))),
        ("no name", inside(entry(0, b"a\0", What::Fifo))),
        ("no name", inside(entry(0, &[b'x'; 256], What::Fifo))),
        ("in no directory", inside(entry(2, b"x", What::Fifo))),
        ("in no directory", inside(entry(3, b"x", What::Fifo))),
        ("in no directory", inside(entry(u32::MAX, b"x", What::Fifo))),
        ("twice", inside(entry(0, b"f", What::Fifo))),
        ("twice", inside(directory(0, b"d"))),
        ("mode", inside(Entry { mode: 0o4755, ..entry(0, b"x", What::Fifo) })),
        ("mode", inside(Entry { mode: 0o2755, ..entry(0, b"x", What::File(0)) })),
        ("mode", inside(Entry { mode: 0o2755, ..directory(0, b"x") })),
        ("mode", inside(Entry { mode: 0o100_644, ..entry(0, b"x", What::Fifo) })),
        ("time", inside(Entry { modified: (0, 1_000_000_000), ..entry(0, b"x", What::Fifo) })),
        ("link to no file", inside(entry(0, b"x", What::Link(1)))),
        ("link to no file", inside(entry(0, b"x", What::Link(3)))),
        ("link to no file", inside(entry(0, b"x", What::Link(u32::MAX)))),
        ("cannot be", inside(entry(0, b"x", What::Symlink(Vec::new())))),
        ("cannot be", inside(entry(0, b"x", What::Symlink(b"a\0b".to_vec())))),
        ("cannot be", inside(entry(0, b"x", What::Symlink(vec![b'x'; 4096])))),
    ];
    for (expected, entries) in cases {
        let reason = reason(read(&forged_entries(&entries), 0));
        assert!(reason.contains(expected), "{expected}: {reason}");
        assert!(matches!(written(&entries, &[]), Err(Refused::Because(_))), "{expected}");
    }
    // An unknown kind.
    let mut encoded = nacre_protocol::message::encode(&root()).unwrap();
    encoded[2] = 77;
    let about = About { format: FORMAT, entries: 1, entry_bytes: encoded.len() as u64, ..About::default() };
    assert!(reason(read(&forged(&about, &encoded), 0)).contains("damaged"));
    let deep: Vec<Entry> =
        (0..40_000_u32).map(|at| directory(at.saturating_sub(1), if at == 0 { b"" } else { b"d" })).collect();
    assert!(reason(read(&forged_entries(&deep), 0)).contains("too deep"));
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let entries = [directory(0, b""), entry(0, b"f", What::File(6))];
    assert!(
        matches!(written(&entries, &[(1, b"short")]), Err(Refused::System(error)) if error.to_string().contains("shorter"))
    );
    // One that becomes longer is cut.
    assert_eq!(read(&written(&entries, &[(1, b"longer")]).unwrap(), 9).unwrap().3, [b"longer"]);
    assert_eq!(read(&written(&entries, &[(1, b"much longer")]).unwrap(), 9).unwrap().3, [b"much l"]);
}

#[test]
fn the_corpus_of_the_fuzz_target_is_an_archive() {
    let content = include_bytes!("../../../fuzz/corpus/archive/every_kind");
    let (about, states, entries, contents) = read(&fuzzing::forged(content).unwrap(), 2).unwrap();
    assert_eq!((about.files, &states[..], entries.len(), contents), (6, &b"abc"[..], 7, vec![b"xy".to_vec()]));
}
