//! Compiles `loop/` into a shared object, which `src/lib.rs` then holds.
//!
//! Its undefined symbols are those of the bash that loads it. They are all looked up when it is loaded (`-z now`), so a
//! bash that lacks one refuses it at once instead of failing in the middle of a command. Code and data share pages
//! (`-z noseparate-code`): each new shell maps the object, and has fewer mappings to make.

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "loop/loop.c";

fn main() {
    println!("cargo::rerun-if-changed=loop");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("loop.so");
    let compiler = cc::Build::new()
        .std("gnu11")
        .opt_level(2)
        .debug(false)
        .pic(true)
        .extra_warnings(true)
        .warnings(true)
        .flag("-fvisibility=hidden")
        .get_compiler();
    let mut command: Command = compiler.to_command();
    command.args(["-shared", "-Wl,-z,now", "-Wl,-z,noseparate-code", "-Wl,-s", "-o"]).arg(&out).arg(SOURCE);
    let status = command.status().unwrap_or_else(|error| panic!("{command:?} can not be run: {error}"));
    assert!(status.success(), "{command:?} failed");
}
