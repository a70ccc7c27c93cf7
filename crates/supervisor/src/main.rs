//! The supervisor's program. Everything is in the library, which the static program and that of the tests share.

fn main() {
    nacre_supervisor::main();
}
