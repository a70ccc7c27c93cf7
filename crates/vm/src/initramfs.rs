//! The first root directory of the guest: its init, modules, and settings.

use crate::kernel::Kernel;
use crate::settings::Guest;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// The file with the settings.
pub const SETTINGS: &str = "/settings";
/// The directory with the modules, whose names give their order.
pub const MODULES: &str = "/modules";

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const DEVICE: u32 = 0o020_000;
/// The numbers of `/dev/console`, the standard output of init.
const CONSOLE: (u32, u32) = (5, 1);

/// Makes it, in memory: nothing has to be removed later.
pub fn make(kernel: &Kernel, guest: &Guest) -> io::Result<File> {
    let mut out = BufWriter::new(File::from(memfd_create("initramfs", MemfdFlags::CLOEXEC)?));
    for name in ["dev", "proc", "sys", "low", "layer", "root", &MODULES[1..]] {
        entry(&mut out, name, DIRECTORY | 0o755, (0, 0), &[])?;
    }
    entry(&mut out, "dev/console", DEVICE | 0o600, CONSOLE, &[])?;
    entry(&mut out, "init", FILE | 0o755, (0, 0), &std::fs::read("/proc/self/exe")?)?;
    entry(&mut out, &SETTINGS[1..], FILE | 0o600, (0, 0), &serde_json::to_vec(guest)?)?;
    for (number, path) in kernel.modules.iter().enumerate() {
        let name = format!("{}/{number:03}", &MODULES[1..]);
        entry(&mut out, &name, FILE | 0o600, (0, 0), &Kernel::read_module(path)?)?;
    }
    entry(&mut out, "TRAILER!!!", 0, (0, 0), &[])?;
    Ok(out.into_inner()?)
}

/// An entry of the format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst).
fn entry(out: &mut impl Write, name: &str, mode: u32, (major, minor): (u32, u32), data: &[u8]) -> io::Result<()> {
    let size = u32::try_from(data.len()).map_err(io::Error::other)?;
    let fields = [0, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name.len() as u32 + 1, 0];
    let head: String = fields.iter().map(|field| format!("{field:08X}")).collect();
    let head = format!("070701{head}{name}\0");
    let pad = |length: usize| [0; 3].into_iter().take(length.wrapping_neg() % 4).collect::<Vec<u8>>();
    out.write_all(head.as_bytes())?;
    out.write_all(&pad(head.len()))?;
    out.write_all(data)?;
    out.write_all(&pad(data.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned() {
        let mut out = Vec::new();
        entry(&mut out, "init", FILE | 0o755, (0, 0), b"12345").unwrap();
        assert_eq!(out.len() % 4, 0);
        assert!(out.starts_with(b"07070100000000000081ED"));
        // The name ends where the data begins, after padding.
        assert_eq!(&out[110..124], b"init\0\x0012345\0\0\0");
    }
}
