//! `--vm`: runs a virtual machine until its input ends, or one of its programs.

use crate::control::{self, Control};
use crate::file_server::{self, FileServer};
use crate::find::{self, Unavailable, unavailable};
use crate::forget;
use crate::initramfs;
use crate::kernel::Kernel;
use crate::machine::{self, Parts};
use crate::outlet::{self, Outlet};
use crate::settings::{Guest, Settings, VARIABLE};
use crate::view;
use nacre_containment::fork::{fork, kill, wait};
use nacre_containment::user_namespace::{map_ids, own_ids};
use nacre_protocol::confinement::Namespaces;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, exit};

/// The exit code when there cannot be a virtual machine. The last line of the errors has the reason. lib/engine/vm.ts has it, too.
const UNAVAILABLE: i32 = 74;
/// The exit code when it has ended.
const ENDED: i32 = 75;

/// The other side has closed its end, or a half of it.
const HANGUP: PollFlags = PollFlags::from_bits_retain(libc::POLLRDHUP);

/// What was found on the machine.
struct Found {
    vmm: PathBuf,
    server: FileServer,
    kernel: Kernel,
}

/// Runs a virtual machine with the settings of the variable. Exits with 2 for bad use.
pub fn run() -> ! {
    let settings = std::env::var(VARIABLE).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(settings) = settings else {
        eprintln!("nacre-supervisor: --vm is for openSandbox");
        exit(2);
    };
    if let Err(error) = control::withhold() {
        eprintln!("nacre-supervisor: --vm needs the socket of its program: {error}");
        exit(2);
    }
    let code = find(&settings).and_then(|found| start(&settings, found)).unwrap_or_else(|problem| {
        eprintln!("{problem}");
        UNAVAILABLE
    });
    exit(code)
}

fn find(settings: &Settings) -> Result<Found, Unavailable> {
    if !settings.emulate {
        find::open_kvm(Path::new(view::KVM), Path::new("/proc/cpuinfo"))?;
    }
    let vmm = find::find_vmm(settings.path.as_ref())?;
    let server = file_server::find_file_server(settings.path.as_ref())?;
    let kernel = Kernel::open(settings.kernel.as_deref())?;
    Ok(Found { vmm, server, kernel })
}

/// Starts everything in namespaces, and waits. Returns the exit code.
fn start(settings: &Settings, found: Found) -> Result<i32, Unavailable> {
    let failed = |error: io::Error| unavailable("boot-failed", error.to_string());
    let guest = Guest {
        places: settings.places.iter().map(|place| place.path.clone()).collect(),
        server: settings.server.clone(),
        has_outlet: settings.outlet.is_some(),
        descriptors: forget::raise_limit().map_err(failed)?,
    };
    // It is in namespaces of another sandbox.
    let outlet = settings.outlet.map(outlet::start).transpose()?;
    let (mut carrier, outlet) = outlet.map(|Outlet { process, connection }| (process, connection)).unzip();
    let initramfs = initramfs::make(&found.kernel, &guest).map_err(failed)?;
    let kinds = enter_namespaces().map_err(|error| {
        unavailable(
            "no-namespaces",
            format!("programs cannot have namespaces of their own here ({error}): see nacre doctor, as for isolation"),
        )
    })?;
    let (parent, own) = UnixStream::pair().map_err(failed)?;
    let (init, _) = fork(0, None).map_err(failed)?;
    if init == 0 {
        drop(own);
        let code = in_namespaces(settings, found, initramfs, outlet, kinds, &parent).unwrap_or_else(|error| {
            eprintln!("{}", unavailable("boot-failed", error.to_string()));
            UNAVAILABLE
        });
        exit(code);
    }
    drop((parent, found, initramfs, outlet));
    let watch = |process: Pid| pidfd_open(process, PidfdFlags::empty()).map_err(io::Error::from).map_err(failed);
    let watched = watch(Pid::from_raw(init).expect("a child"))?;
    let carrying = carrier.as_ref().map(|process| watch(Pid::from_child(process))).transpose()?;
    let (input, ended) = (io::stdin(), PollFlags::POLLIN);
    // What is there to read is for the guest. The program ends with its side of the connection, or closes it.
    let mut events = vec![PollFd::new(input.as_fd(), HANGUP), PollFd::new(watched.as_fd(), ended)];
    events.extend(carrying.as_ref().map(|process| PollFd::new(process.as_fd(), ended)));
    while matches!(poll(&mut events, PollTimeout::NONE), Err(nix::errno::Errno::EINTR)) {}
    // The kernel kills everything in the namespace with its init.
    kill(init);
    let code = wait(init);
    if let Some(carrier) = &mut carrier {
        let _ = carrier.kill().and_then(|()| carrier.wait());
    }
    drop(own);
    Ok(code.unwrap_or(ENDED))
}

/// Namespaces for mounts, processes, network and System V objects. An ordinary user becomes root in a user namespace.
fn enter_namespaces() -> io::Result<Namespaces> {
    let flags =
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    let own = own_ids();
    let is_user = unshare(flags).is_err();
    if is_user {
        unshare(flags | CloneFlags::CLONE_NEWUSER)?;
        map_ids("self", (0, 0), own)?;
    }
    Ok(Namespaces { user: is_user, ipc: true, network: true, processes: true })
}

/// The init of the pid namespace.
fn in_namespaces(
    settings: &Settings,
    found: Found,
    initramfs: File,
    outlet: Option<OwnedFd>,
    kinds: Namespaces,
    parent: &UnixStream,
) -> io::Result<i32> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // It may have ended before.
    if poll(&mut [PollFd::new(parent.as_fd(), HANGUP)], PollTimeout::ZERO)? > 0 {
        return Ok(ENDED);
    }
    // SAFETY: this process has one thread.
    unsafe { std::env::remove_var(VARIABLE) };
    view::make(settings, kinds)?;
    let (root_server, root) = file_server::serve(&found.server, view::ROOT, kinds.user)?;
    let (places_server, places) = file_server::serve(&found.server, view::PLACES, kinds.user)?;
    let (console, theirs) = UnixStream::pair()?;
    let (clock, clock_port) = UnixStream::pair()?;
    let (kernel, initramfs) = (found.kernel.file.into(), initramfs.into());
    let (console_port, clock_port) = (theirs.into(), clock_port.into());
    let parts = Parts { kernel, initramfs, root, places, console: console_port, clock: clock_port, outlet };
    let vmm = machine::run_machine(&found.vmm, settings, parts)?;
    let children = [
        ("QEMU", vmm),
        ("the file server of the root", root_server),
        ("the file server of the project", places_server),
    ];
    watch(children.into(), console, Control::new(clock)?)?;
    Ok(ENDED)
}

/// Shows what the guest prints, and obeys the program, until one of the children ends. The first is QEMU.
fn watch(mut children: Vec<(&str, Child)>, mut console: UnixStream, mut control: Control) -> io::Result<()> {
    let open = |(_, child): &(&str, Child)| pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let ends: Vec<OwnedFd> = children.iter().map(open).collect::<Result<_, _>>()?;
    console.set_nonblocking(true)?;
    let mut is_open = true;
    loop {
        let watched = ends.iter().map(AsFd::as_fd).chain([control.orders()]);
        let mut events: Vec<_> = watched.map(|end| PollFd::new(end, PollFlags::POLLIN)).collect();
        events.extend(is_open.then(|| PollFd::new(console.as_fd(), PollFlags::POLLIN)));
        match poll(&mut events, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            ready => ready?,
        };
        let is_ready: Vec<bool> = events.iter().map(|event| event.any().unwrap_or(true)).collect();
        let has_ended = is_ready[..ends.len()].contains(&true);
        is_open = is_open && show(&mut console);
        if has_ended {
            for (name, child) in &mut children {
                if let Some(status) = child.try_wait()? {
                    eprintln!("{name} has ended: {status}");
                }
            }
            return Ok(());
        }
        if is_ready[ends.len()] {
            control.obey(&children[0].1)?;
        }
    }
}

/// Shows what waits, without what could control a terminal. Whether there may be more.
fn show(console: &mut UnixStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match console.read(&mut bytes) {
            Ok(0) => return false,
            Ok(length) => {
                let shown = |byte: &u8| *byte == b'\n' || !byte.is_ascii_control();
                let text: Vec<u8> = bytes[..length].iter().copied().filter(shown).collect();
                let _ = io::stderr().write_all(&text);
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
