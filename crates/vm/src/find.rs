//! What a virtual machine needs: hardware, programs.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why there is no virtual machine: a word for programs, and a sentence with the remedy.
#[derive(Debug)]
pub struct Unavailable {
    pub reason: &'static str,
    pub message: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.reason, self.message)
    }
}

pub fn unavailable(reason: &'static str, message: impl Into<String>) -> Unavailable {
    Unavailable { reason, message: message.into() }
}

/// Opens the device of the hardware's virtualization. `device` is `/dev/kvm`, `processors` is `/proc/cpuinfo`.
pub fn open_kvm(device: &Path, processors: &Path) -> Result<(), Unavailable> {
    judge(File::options().read(true).write(true).open(device).map(drop), device, processors)
}

fn judge(opened: io::Result<()>, device: &Path, processors: &Path) -> Result<(), Unavailable> {
    match opened {
        Ok(()) if has_virtualization(processors) => Ok(()),
        Ok(()) => Err(unavailable(
            "software-kvm",
            format!(
                "the processor has no hardware virtualization (vmx or svm), so {} cannot run an ordinary kernel: use \
                 another machine, or emulate for tests",
                device.display()
            ),
        )),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(unavailable(
            "no-permission",
            format!("{} is not open to this user: sudo usermod -aG kvm $USER, and log in again", device.display()),
        )),
        Err(error) => Err(unavailable(
            "no-kvm",
            format!(
                "{} cannot be opened ({error}): turn on virtualization in the firmware, or nested virtualization of a \
                 cloud machine; start a container with --device /dev/kvm",
                device.display()
            ),
        )),
    }
}

fn has_virtualization(processors: &Path) -> bool {
    let text = std::fs::read_to_string(processors).unwrap_or_default();
    let mut flags = text.lines().filter(|line| line.starts_with("flags")).flat_map(str::split_whitespace);
    flags.any(|flag| flag == "vmx" || flag == "svm")
}

/// The virtual machine monitor.
pub fn find_vmm(search: &OsStr) -> Result<PathBuf, Unavailable> {
    find(search, "qemu-system-x86_64").ok_or_else(|| {
        unavailable("no-vmm", format!("qemu-system-x86_64 is not installed: {}", install("qemu-system-x86")))
    })
}

/// The first program of a name in the directories of a search path.
pub fn find(search: &OsStr, name: &str) -> Option<PathBuf> {
    let directories = std::env::split_paths(search).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(name)).find(|file| is_program(file))
}

pub fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The command of this distribution that installs a package.
pub fn install(package: &str) -> String {
    let has = |program: &str| is_program(&Path::new("/usr/bin").join(program));
    let name = |others: &str| if package == "virtiofsd" { "virtiofsd".into() } else { others.to_string() };
    if has("dnf") {
        format!("dnf install {}", name("qemu-system-x86-core"))
    } else if has("pacman") {
        format!("pacman -S {}", name("qemu-system-x86"))
    } else if has("zypper") {
        format!("zypper install {}", name("qemu-x86"))
    } else if Path::new("/sbin/apk").exists() {
        format!("apk add {}", name("qemu-system-x86_64"))
    } else {
        // Debian 12 has the file server in the package of QEMU.
        format!("apt install {package}, or qemu-system-x86 alone in Debian 12")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn reason<T: std::fmt::Debug>(found: Result<T, Unavailable>) -> &'static str {
        found.unwrap_err().reason
    }

    #[test]
    fn a_machine_without_usable_virtualization_is_told_apart() {
        let place = tempfile::tempdir().unwrap();
        let (device, processors) = (place.path().join("kvm"), place.path().join("cpuinfo"));
        fs::write(&processors, "flags\t\t: fpu vme\n").unwrap();
        assert_eq!(reason(open_kvm(&device, &processors)), "no-kvm");
        let denied = judge(Err(ErrorKind::PermissionDenied.into()), &device, &processors);
        assert_eq!(reason(denied), "no-permission");
        fs::write(&device, "").unwrap();
        assert_eq!(reason(open_kvm(&device, &processors)), "software-kvm");
        fs::write(&processors, "flags\t\t: fpu vmx vme\n").unwrap();
        open_kvm(&device, &processors).unwrap();
    }

    #[test]
    fn missing_programs_are_named_with_the_command_that_installs_them() {
        let place = tempfile::tempdir().unwrap();
        let missing = find_vmm(place.path().as_os_str()).unwrap_err();
        assert_eq!(missing.reason, "no-vmm");
        assert!(missing.message.contains("install"), "{missing}");
    }
}
