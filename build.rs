//! Passes the linker the flags that a Node.js addon needs, and napi-derive the directory of the boundary's types.

use std::path::PathBuf;

fn main() {
    napi_build::setup();
    // Each compilation of the crate writes a file there, with a line of JSON for each exported item.
    let types = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("boundary");
    std::fs::create_dir_all(&types).unwrap_or_else(|error| panic!("cannot create {}: {error}", types.display()));
    println!("cargo::rustc-env=NAPI_TYPE_DEF_TMP_FOLDER={}", types.display());
}
