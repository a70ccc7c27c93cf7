//! `--vm-init`: the first process of the guest. Mounts the machine's files, and starts the server.

use crate::forget;
use crate::initramfs::{MODULES, SETTINGS};
use crate::machine;
use crate::settings::{Guest, Server};
use crate::streams::{Side, carry};
use nacre_isolation::network;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The machine's files, and the guest's root directory, in the initramfs.
const LOW: &str = "/low";
const LAYER: &str = "/layer";
const ROOT: &str = "/root";

/// What the guest is called.
const NAME: &str = "nacre";

/// Flags of finit_module(2): the kernel unpacks the file.
const COMPRESSED: libc::c_int = 4;
const MOST_SETTINGS: u64 = 1 << 20;
const MOST_BYTES: usize = 128 << 10;

const QUIET: MsFlags = MsFlags::MS_NOSUID.union(MsFlags::MS_NODEV).union(MsFlags::MS_NOEXEC);

/// Runs the guest, and turns it off when the server has ended. Exits with 2 for bad use.
pub fn run() -> ! {
    if std::process::id() != 1 || !Path::new(SETTINGS).exists() {
        eprintln!("nacre-supervisor: --vm-init is for a virtual machine");
        std::process::exit(2);
    }
    // lib/engine/vm.ts reads this line.
    match serve() {
        Ok(code) => println!("\nnacre: the server has ended with exit code {code}"),
        Err(error) => println!("\nnacre: the guest cannot start: {error}"),
    }
    let _ = io::stdout().flush();
    // With the option reboot=t, QEMU ends.
    // SAFETY: no pointer is passed.
    unsafe { libc::reboot(libc::RB_AUTOBOOT) };
    std::process::exit(1)
}

fn serve() -> io::Result<i32> {
    put("devtmpfs", "/dev", "devtmpfs", MsFlags::MS_NOSUID, "")?;
    put("proc", "/proc", "proc", QUIET, "")?;
    put("sysfs", "/sys", "sysfs", QUIET, "")?;
    load_modules()?;
    let mut text = Vec::new();
    File::open(SETTINGS)?.take(MOST_SETTINGS).read_to_end(&mut text)?;
    let Guest { places, server, has_outlet, descriptors } = serde_json::from_slice(&text)?;
    mount_root()?;
    let port = open_port(machine::PORT, 0)?;
    let clock = open_port(machine::CLOCK, 0)?;
    let outlet = has_outlet.then(|| open_port(machine::OUTLET, libc::O_NONBLOCK)).transpose()?;
    mount_own()?;
    mount_places(&places)?;
    enter_root()?;
    network::start_loopback()?;
    std::thread::spawn(move || follow(clock));
    std::thread::spawn(move || forget::run(descriptors));
    outlet.map(serve_outlet).transpose()?;
    // SAFETY: the name outlives the call.
    unsafe { libc::sethostname(NAME.as_ptr().cast(), NAME.len()) };
    run_server(&server, port)
}

fn put(source: &str, target: impl AsRef<Path>, kind: &str, flags: MsFlags, data: &str) -> io::Result<()> {
    let target = target.as_ref();
    let problem = |error| io::Error::other(format!("{kind} at {}: {error}", target.display()));
    mount(Some(source), target, Some(kind), flags, Some(data)).map_err(problem)
}

fn load_modules() -> io::Result<()> {
    let mut files: Vec<PathBuf> = fs::read_dir(MODULES)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.sort();
    for path in files {
        let mut file = File::open(&path)?;
        let mut start = [0; 4];
        file.read_exact(&mut start)?;
        let flags = if &start == b"\x7fELF" { 0 } else { COMPRESSED };
        // SAFETY: the text ends with 0, and outlives the call.
        let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), flags) };
        let error = io::Error::last_os_error();
        // It may be built in. What is missing otherwise shows at its use.
        if done != 0 && error.raw_os_error() != Some(libc::EEXIST) {
            println!("nacre: a module cannot be loaded ({}): {error}", path.display());
        }
    }
    Ok(())
}

/// The machine's root directory, with a layer in memory above it.
fn mount_root() -> io::Result<()> {
    put(machine::ROOT, LOW, "virtiofs", MsFlags::MS_RDONLY, "")?;
    put("layer", LAYER, "tmpfs", MsFlags::empty(), "size=75%,mode=755")?;
    let (upper, work) = (format!("{LAYER}/upper"), format!("{LAYER}/work"));
    fs::create_dir(&upper)?;
    fs::create_dir(&work)?;
    // For an ordinary user, the programs of root have another owner. With its rights, mount(8) could mount nothing.
    let (low, flags) = match fs::metadata(LOW)?.uid() {
        0 => (LOW.into(), MsFlags::empty()),
        _ => (readable_by_others()?, MsFlags::MS_NOSUID),
    };
    put("root", ROOT, "overlay", flags, &format!("lowerdir={low},upperdir={upper},workdir={work}"))?;
    // Programs look up the address of their machine.
    let mut hosts = File::options();
    let hosts = hosts.append(true).custom_flags(libc::O_NOFOLLOW).open(format!("{ROOT}/etc/hosts"));
    let _ = hosts.and_then(|mut hosts| writeln!(hosts, "\n127.0.0.1\t{NAME}"));
    Ok(())
}

/// An overlay opens files with `O_NOATIME` if its mounter may, and root of the guest may for every file. The file server of an
/// ordinary user may only for that user's files: for those of root, open(2) fails with EPERM. So another overlay is in between,
/// which is mounted without that right.
fn readable_by_others() -> io::Result<String> {
    let (low, none) = (format!("{LAYER}/low"), format!("{LAYER}/none"));
    fs::create_dir(&low)?;
    fs::create_dir(&none)?;
    let all = capabilities(None)?;
    let fewer = CapabilitySets { effective: all.effective - CapabilitySet::FOWNER, ..all };
    set_capabilities(None, fewer)?;
    put("low", &low, "overlay", MsFlags::MS_RDONLY, &format!("lowerdir={none}:{LOW}"))?;
    set_capabilities(None, all)?;
    Ok(low)
}

/// What the guest has itself.
fn mount_own() -> io::Result<()> {
    let at = |path: &str| format!("{ROOT}{path}");
    put("devtmpfs", at("/dev"), "devtmpfs", MsFlags::MS_NOSUID, "")?;
    fs::create_dir_all(at("/dev/pts"))?;
    put("devpts", at("/dev/pts"), "devpts", MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC, "ptmxmode=0666,mode=0620,gid=5")?;
    // The layers of workspaces cannot lie on an overlay.
    for (name, place, mode) in [
        ("tmp", "/tmp", 0o1777),
        ("run", "/run", 0o755),
        ("nacre", "/var/lib/nacre", 0o755),
        ("shm", "/dev/shm", 0o1777),
    ] {
        let directory = format!("{LAYER}/{name}");
        fs::create_dir(&directory)?;
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode))?;
        fs::create_dir_all(at(place))?;
        bind(&directory, &at(place), MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?;
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), at(&format!("/dev/{name}")))?;
    }
    put("proc", at("/proc"), "proc", QUIET, "")?;
    put("sysfs", at("/sys"), "sysfs", QUIET, "")?;
    put("cgroup", at("/sys/fs/cgroup"), "cgroup2", QUIET, "")?;
    // Limits are for the groups below. Without a controller, the capabilities of the sandbox show that.
    for controller in ["+cpu", "+memory", "+pids"] {
        let _ = fs::write(at("/sys/fs/cgroup/cgroup.subtree_control"), controller);
    }
    Ok(())
}

/// Mounts a directory at another place. With a file system of their own, all together could take more memory than there is.
fn bind(source: &str, target: &str, flags: MsFlags) -> io::Result<()> {
    let nothing = None::<&str>;
    let problem = |error| io::Error::other(format!("{target}: {error}"));
    mount(Some(source), target, nothing, MsFlags::MS_BIND, nothing).map_err(problem)?;
    mount(nothing, target, nothing, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, nothing).map_err(problem)
}

/// The project and what else the machine shares.
fn mount_places(places: &[PathBuf]) -> io::Result<()> {
    let share = format!("{ROOT}/run/nacre-places");
    fs::create_dir(&share)?;
    put(machine::PLACES, &share, "virtiofs", MsFlags::MS_NOSUID | MsFlags::MS_NODEV, "")?;
    for (number, place) in places.iter().enumerate() {
        let source = Path::new(&share).join(number.to_string());
        let target = Path::new(ROOT).join(place.strip_prefix("/").unwrap_or(place));
        let problem = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", place.display()));
        if source.is_dir() {
            fs::create_dir_all(&target).map_err(problem)?;
        } else if !target.exists() {
            fs::create_dir_all(target.parent().unwrap_or(Path::new(ROOT))).map_err(problem)?;
            File::create(&target).map_err(problem)?;
        }
        mount(Some(&source), &target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .map_err(|error| problem(error.into()))?;
    }
    nix::mount::umount2(share.as_str(), nix::mount::MntFlags::MNT_DETACH)?;
    fs::remove_dir(&share)
}

fn enter_root() -> io::Result<()> {
    std::env::set_current_dir(ROOT)?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
    nix::unistd::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Opens a connection to the machine.
fn open_port(wanted: &str, flags: i32) -> io::Result<File> {
    const ATTEMPTS: u32 = 2000;
    for _ in 0..ATTEMPTS {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim_end() == wanted {
                let device = Path::new("/dev").join(entry.file_name());
                return File::options().read(true).write(true).custom_flags(flags).open(device);
            }
        }
        // The device reports its ports when its driver is there.
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other(format!("there is no port called {wanted}")))
}

/// Sets the clock to the time of the machine, which is sent after a pause: microseconds since 1970.
fn follow(mut port: impl Read) {
    let mut bytes = [0; 8];
    while port.read_exact(&mut bytes).is_ok() {
        let time = Duration::from_micros(u64::from_le_bytes(bytes));
        let time = nix::sys::time::TimeSpec::from_duration(time);
        if let Err(error) = nix::time::clock_settime(nix::time::ClockId::CLOCK_REALTIME, time) {
            println!("nacre: the clock cannot be set: {error}");
        }
    }
}

/// Listens where programs expect the proxy of the machine, and carries their connections.
fn serve_outlet(port: File) -> io::Result<()> {
    let listener = TcpListener::from(network::listen_on_loopback(network::PROXY_PORT)?);
    std::thread::spawn(move || {
        let hangup = || poll(&mut [PollFd::new(port.as_fd(), PollFlags::empty())], PollTimeout::ZERO);
        // The machine's end reports itself shortly after the port.
        while hangup().is_ok_and(|ready| ready > 0) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let end = carry(Side::Guest(listener), port);
        println!("nacre: the network has ended: {end:?}");
    });
    Ok(())
}

/// Runs the server, and passes on what it and the machine say. Returns its exit code.
fn run_server(server: &Server, port: File) -> io::Result<i32> {
    // Node.js reads a device in its few threads for files, but not a socket.
    let (ours, theirs) = UnixStream::pair()?;
    let [program, arguments @ ..] = &server.argv[..] else { return Err(io::Error::other("there is no server")) };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&server.env).current_dir("/").process_group(0);
    command.stdin(OwnedFd::from(theirs.try_clone()?)).stdout(OwnedFd::from(theirs)).stderr(Stdio::inherit());
    let child = command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    drop(command);
    let (mut port_in, mut port_out) = (port.try_clone()?, port);
    let (mut server_in, mut server_out) = (ours.try_clone()?, ours);
    std::thread::spawn(move || {
        pass(&mut port_in, &mut server_in);
        // The machine's side has ended.
        let _ = server_in.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || pass(&mut server_out, &mut port_out));
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        match wait() {
            Ok(WaitStatus::Exited(ended, code)) if ended == pid => return Ok(code),
            Ok(WaitStatus::Signaled(ended, signal, _)) if ended == pid => return Ok(128 + signal as i32),
            Err(nix::errno::Errno::ECHILD) => return Err(io::Error::other("the server is lost")),
            _ => {}
        }
    }
}

fn pass(from: &mut impl Read, to: &mut impl Write) {
    let mut bytes = vec![0; MOST_BYTES];
    loop {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(length) if to.write_all(&bytes[..length]).is_err() => return,
            Ok(_) => {}
        }
    }
}
