//! A kernel for the guest: that of the machine, or another file, and the modules that it needs to mount its files.

use crate::find::{Unavailable, unavailable};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// In the order in which they are loaded, each after those that it depends on. A kernel may have them built in.
const MODULES: [&str; 6] = ["virtio_mmio", "virtio_console", "virtiofs", "overlay", "virtio_balloon", "virtio_rng"];

const MOST_LIST_BYTES: u64 = 16 << 20;
const MOST_MODULE_BYTES: u64 = 32 << 20;

/// A kernel that QEMU can start.
#[derive(Debug)]
pub struct Kernel {
    pub file: File,
    pub modules: Vec<PathBuf>,
}

impl Kernel {
    /// Opens a kernel: by default that of the machine.
    pub fn open(wanted: Option<&Path>) -> Result<Self, Unavailable> {
        let places: Vec<PathBuf> = match wanted {
            Some(file) => vec![file.into()],
            None => {
                let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
                let release = release.trim();
                vec![format!("/boot/vmlinuz-{release}").into(), format!("/lib/modules/{release}/vmlinuz").into()]
            }
        };
        let path = places.iter().find(|path| path.is_file()).unwrap_or(&places[0]);
        Self::read(path).map_err(|problem| {
            let remedy = "install @nacre/kernel-x64, or give the path of a kernel (kernel), like /boot/vmlinuz-VERSION of Debian, Ubuntu or Fedora";
            unavailable(
                "no-kernel",
                format!("{} is no kernel for a virtual machine ({problem}): {remedy}", path.display()),
            )
        })
    }

    fn read(path: &Path) -> io::Result<Self> {
        // To open a FIFO would wait for its writer.
        if !path.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let file = File::open(path)?;
        // An ELF file is a kernel that was built for this, and has no modules.
        let mut start = [0; 4];
        file.read_exact_at(&mut start, 0)?;
        if &start == b"\x7fELF" {
            return Ok(Self { file, modules: Vec::new() });
        }
        let version = version(&file)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let tree = |root: &Path| root.join("lib/modules").join(&version);
        let trees = [tree(&directory.join("..")), tree(Path::new("/")), directory.into()];
        let tree = trees.iter().find(|tree| tree.join("modules.dep").is_file());
        let tree = tree.ok_or_else(|| {
            io::Error::other(format!(
                "its modules are missing in {}, or depmod has not listed them",
                trees[1].display()
            ))
        })?;
        let mut list = String::new();
        File::open(tree.join("modules.dep"))?.take(MOST_LIST_BYTES).read_to_string(&mut list)?;
        Ok(Self { file, modules: modules(&list).iter().map(|name| tree.join(name)).collect() })
    }

    /// The content of a module, possibly compressed.
    pub fn read_module(path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_MODULE_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// The version in the header of a bzImage (boot protocol 2.00).
fn version(file: &File) -> io::Result<String> {
    let mut header = [0; 0x210];
    file.read_exact_at(&mut header, 0)?;
    if &header[0x202..0x206] != b"HdrS" {
        return Err(io::Error::other("it is neither a bzImage nor an ELF file"));
    }
    let place = u64::from(u16::from_le_bytes([header[0x20e], header[0x20f]])) + 0x200;
    let mut text = [0; 256];
    let length = file.read_at(&mut text, place)?;
    let text = String::from_utf8_lossy(&text[..length]);
    let version = text.split([' ', '\0']).next().unwrap_or_default();
    match version.contains('/') || version.is_empty() {
        true => Err(io::Error::other("its version cannot be read")),
        false => Ok(version.into()),
    }
}

/// The files of the modules, those that others depend on first, from the text of `modules.dep`.
fn modules(list: &str) -> Vec<String> {
    let lines = list.lines().filter_map(|line| line.split_once(':'));
    let known: HashMap<String, (&str, &str)> = lines.map(|(file, needs)| (name(file), (file, needs))).collect();
    let mut files: Vec<String> = Vec::new();
    for (file, needs) in MODULES.iter().filter_map(|name| known.get(*name)) {
        // depmod lists the nearest dependency first.
        for file in needs.split_whitespace().rev().chain([*file]) {
            if !files.iter().any(|other| other == file) {
                files.push(file.into());
            }
        }
    }
    files
}

/// The kernel's name of a module file.
fn name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_follow_those_that_they_depend_on() {
        let list = "kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko.xz kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko\n\
                    kernel/fs/fuse/fuse.ko.xz:\n\
                    kernel/drivers/char/hw_random/virtio-rng.ko: kernel/drivers/virtio/virtio.ko\n\
                    kernel/other.ko:\n";
        let found = modules(list);
        let names: Vec<_> = found.iter().map(|file| name(file)).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "fuse", "virtiofs", "virtio_rng"]);
    }

    #[test]
    fn files_that_are_no_kernels_are_refused_with_a_remedy() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("vmlinuz");
        for content in [&b""[..], b"text", &[0; 0x400]] {
            std::fs::write(&file, content).unwrap();
            let refused = Kernel::open(Some(&file)).unwrap_err();
            assert_eq!(refused.reason, "no-kernel");
            assert!(refused.message.contains("kernel)"), "{refused}");
        }
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Kernel::open(Some(&file)).unwrap_err().message.contains("no regular file"));
        std::fs::remove_file(&file).unwrap();
        let mut image = vec![0; 0x1000];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x300_u16.to_le_bytes());
        image[0x500..0x50f].copy_from_slice(b"9.9.9-none (me)");
        std::fs::write(&file, &image).unwrap();
        assert!(Kernel::open(Some(&file)).unwrap_err().message.contains("9.9.9-none"));
        let tree = place.path().join("lib/modules/9.9.9-none");
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join("modules.dep"), "kernel/overlay.ko:\n").unwrap();
        std::fs::create_dir(place.path().join("boot")).unwrap();
        let file = place.path().join("boot/vmlinuz");
        std::fs::write(&file, &image).unwrap();
        let Kernel { modules, .. } = Kernel::open(Some(&file)).unwrap();
        assert_eq!(modules.iter().map(|module| module.exists()).collect::<Vec<_>>(), [false]);
        assert!(modules[0].ends_with("lib/modules/9.9.9-none/kernel/overlay.ko"));
    }
}
