//! Compiles `builtin/` into one shared object, which `src/lib.rs` embeds.
//!
//! Its undefined symbols are those of the bash that loads it. `-z now` resolves all of them at load time, so a bash
//! without one of them fails immediately instead of in the middle of a command. Code and data share pages (`-z
//! noseparate-code`): each new shell maps the object, and needs fewer mappings.

use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "builtin";

mod descent_mark {
    include!("../containment/src/descent_mark/layout.rs");
}

fn main() {
    println!("cargo::rerun-if-changed={SOURCES}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("nacre.so");
    let compiler = cc::Build::new()
        .std("gnu11")
        .define("_GNU_SOURCE", None)
        .define("DESCENT_MARK_BIT", descent_mark::MARK_BIT.to_string().as_str())
        .define("DESCENT_NAME_BITS", descent_mark::NAME_BITS.to_string().as_str())
        .opt_level(2)
        .debug(false)
        .pic(true)
        .extra_warnings(true)
        .warnings(true)
        .flag("-fvisibility=hidden")
        .get_compiler();
    let mut command: Command = compiler.to_command();
    command.args(["-shared", "-Wl,-z,now", "-Wl,-z,noseparate-code", "-Wl,-s", "-o"]).arg(&out).args(c_files());
    let status = command.status().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(status.success(), "{command:?} failed");
}

fn c_files() -> Vec<PathBuf> {
    let entries = Path::new(SOURCES).read_dir().expect("the sources are readable");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("the sources are readable").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    files
}
