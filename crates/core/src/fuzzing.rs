//! Private functions for the fuzz targets in `fuzz/`.

pub use crate::process_log::bounded_log;
pub use crate::shell::checkpoint::restore_text;
