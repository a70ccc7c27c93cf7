//! Passes the linker the flags that a Node.js addon needs.
fn main() {
    napi_build::setup();
}
