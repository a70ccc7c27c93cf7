//! QEMU, and what it has in common with the guest.

use crate::inherit;
use crate::settings::Settings;
use nacre_isolation::privileges;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// The share of the machine's root directory.
pub const ROOT: &str = "root";
/// The share of the project and its mounts.
pub const PLACES: &str = "places";
/// The port of the guest's server.
pub const PORT: &str = "nacre";
/// The port by which the guest gets the time.
pub const CLOCK: &str = "clock";
/// The port of the proxy.
pub const OUTLET: &str = "outlet";

/// What QEMU gets from this process.
pub struct Parts {
    pub kernel: OwnedFd,
    pub initramfs: OwnedFd,
    pub root: OwnedFd,
    pub places: OwnedFd,
    /// What the guest's kernel and init print.
    pub console: OwnedFd,
    pub clock: OwnedFd,
    /// What carries the guest's connections, if it has a network.
    pub outlet: Option<OwnedFd>,
}

/// Starts QEMU. Its standard input and output are those of this process: the connection to the server.
pub fn run_machine(vmm: &Path, settings: &Settings, parts: Parts) -> io::Result<Child> {
    let descriptors = [&parts.kernel, &parts.initramfs, &parts.root, &parts.places, &parts.console, &parts.clock];
    let descriptors = descriptors.into_iter().chain(&parts.outlet);
    let numbers: Vec<RawFd> = descriptors.map(AsRawFd::as_raw_fd).collect();
    let [kernel, initramfs, root, places, console, ports @ ..] = &numbers[..] else { unreachable!("there are six") };
    let (machine, accelerator, processor, words) = match settings.emulate {
        false => ("pit=off,pic=off", "kvm", "host", ""),
        true => ("pit=on,pic=on", "tcg,thread=multi", "max", "tsc_early_khz=2000000 lpj=4000000 no_timer_check "),
    };
    let memory = settings.memory;
    let mut command = Command::new(vmm);
    command
        .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
        .args(["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"])
        .args(["-M", &format!("microvm,acpi=on,rtc=on,isa-serial=on,{machine},memory-backend=memory")])
        // File servers know only the present version of the protocol.
        .args(["-global", "virtio-mmio.force-legacy=false"])
        .args(["-accel", accelerator, "-cpu", processor])
        .args(["-smp", &settings.cpus.to_string(), "-m", &memory.to_string()])
        .args(["-object", &format!("memory-backend-memfd,id=memory,size={memory}M,share=on")])
        .args(["-kernel", &format!("/proc/self/fd/{kernel}"), "-initrd", &format!("/proc/self/fd/{initramfs}")])
        .args(["-append", &format!("{words}console=ttyS0 quiet loglevel=4 reboot=t panic=-1 -- --vm-init")])
        .args(["-chardev", &format!("socket,id=console,fd={console}"), "-serial", "chardev:console"])
        .args(["-chardev", "stdio,id=server,signal=off", "-device", "virtio-serial-device"])
        .args(["-device", &format!("virtserialport,chardev=server,name={PORT}")])
        // Memory that the guest does not use any more is the machine's again.
        .args(["-device", "virtio-balloon-device,free-page-reporting=on", "-device", "virtio-rng-device"]);
    for (name, number) in [CLOCK, OUTLET].into_iter().zip(ports) {
        command
            .args(["-chardev", &format!("socket,id={name},fd={number}")])
            .args(["-device", &format!("virtserialport,chardev={name},name={name}")]);
    }
    for (tag, number) in [(ROOT, root), (PLACES, places)] {
        command
            .args(["-chardev", &format!("socket,id={tag},fd={number}")])
            .args(["-device", &format!("vhost-user-fs-device,chardev={tag},tag={tag},queue-size=512")]);
    }
    let prepare = move || {
        privileges::no_new_privileges()?;
        privileges::drop_capabilities(false)?;
        inherit::keep(&numbers)
    };
    // SAFETY: this process has one thread.
    let child = unsafe { command.pre_exec(prepare) }.spawn()?;
    drop(parts);
    Ok(child)
}
