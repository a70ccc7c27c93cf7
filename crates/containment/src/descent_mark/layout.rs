// The bits of a mark. The build of the builtin includes this file, too, for its C (crates/shell-builtin/build.rs).

/// The highest bit of all marks.
pub const MARK_BIT: u32 = 61;
/// How many lower bits tell the marks of one supervisor apart. The builtin changes them for each standby (`fork.c`).
pub const NAME_BITS: u32 = 39;
