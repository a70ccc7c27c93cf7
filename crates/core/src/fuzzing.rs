//! Private functions for the fuzz targets in `fuzz/`. Not a feature, so that the tests and the build share this crate; the
//! linker leaves them out of the addon.

pub use crate::process_log::bounded_log;
use crate::shell::plain_state::{Report, Scope, Snapshot};

/// The script that restores a dumped state in plain mode; `None` if the dump is incomplete.
pub fn restore_text(dump: &[u8]) -> Option<Vec<u8>> {
    let state = Snapshot::after(Report::parse(dump)?, None, &Scope::default());
    Some([state.restore(), state.options().concat()].concat())
}
