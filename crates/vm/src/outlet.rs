//! `--vm-outlet`: the guest's only way out, to the proxy of a session of nacre on the machine.
//!
//! The session decides, as for programs of its own. This process carries the guest's connections to its proxy, and is in the
//! session's network namespace, where nothing else listens. It has no rights and no files.

use crate::find::{Unavailable, unavailable};
use crate::streams::{Side, carry};
use nacre_isolation::network::PROXY_PORT;
use nacre_isolation::privileges;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};

/// A process that carries, and the connection by which QEMU reaches it.
pub struct Outlet {
    /// Its end ends the virtual machine.
    pub process: Child,
    /// The other end of its port.
    pub connection: OwnedFd,
}

/// Starts it for a session, of which a process is known.
pub fn start(session: u32) -> Result<Outlet, Unavailable> {
    let failed = |error: io::Error| unavailable("no-namespaces", format!("the proxy cannot be reached: {error}"));
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["--vm-outlet", &session.to_string()]).env_clear();
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    let mut process = command.spawn().map_err(failed)?;
    drop(command);
    // It has printed why it is not ready.
    if let Err(error) = ours.read_exact(&mut [0]) {
        let _ = process.wait();
        return Err(failed(error));
    }
    Ok(Outlet { process, connection: ours.into() })
}

/// Carries until the virtual machine has ended.
pub fn run(session: &OsStr) -> ! {
    let target = SocketAddrV4::new(Ipv4Addr::LOCALHOST, PROXY_PORT);
    let done = prepare(session).and_then(|port| carry(Side::Machine(target), port));
    if let Err(error) = done {
        eprintln!("the network of the virtual machine has ended: {error}");
    }
    exit(1)
}

/// Enters the namespace, and says that it is there.
fn prepare(session: &OsStr) -> io::Result<UnixStream> {
    enter(&Path::new("/proc").join(session).join("ns"))?;
    // It shows the descriptors of this process, which cannot be opened there.
    nix::unistd::chroot("/proc/self/fdinfo")?;
    nix::unistd::chdir("/")?;
    privileges::no_new_privileges()?;
    privileges::drop_capabilities(false)?;
    // A change of rights removes it.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    // If the parent has ended before, so has the other end.
    let mut port = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    port.write_all(b"+")?;
    port.set_nonblocking(true)?;
    Ok(port)
}

/// Enters the network namespace of a session, which must not be this one: others can listen here.
fn enter(namespaces: &Path) -> io::Result<()> {
    for (name, kind) in [("user", CloneFlags::CLONE_NEWUSER), ("net", CloneFlags::CLONE_NEWNET)] {
        let file = File::open(namespaces.join(name))?;
        let [own, other] = [std::fs::metadata(format!("/proc/self/ns/{name}"))?, file.metadata()?];
        match (own.ino() == other.ino(), name) {
            (false, _) => setns(file, kind)?,
            // A session of root has no user namespace.
            (true, "user") => {}
            (true, _) => return Err(io::Error::other("the session has no network namespace")),
        }
    }
    Ok(())
}
