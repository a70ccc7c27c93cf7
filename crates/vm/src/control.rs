//! By what the program pauses the virtual machine.

use crate::inherit;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::time::SystemTime;

/// The descriptor of the program's socket.
const ORDERS: RawFd = 3;

/// Withholds it from the programs that begin.
///
/// # Errors
/// It is not open.
pub fn withhold() -> io::Result<()> {
    inherit::withhold(ORDERS)
}

/// See the module.
pub struct Control {
    /// Each order is a byte, which is sent back when it is done. lib/engine/link.ts has them, too.
    orders: UnixStream,
    /// The port by which the guest gets the time: its clock may have stood still.
    clock: UnixStream,
}

impl Control {
    /// To be made once.
    pub fn new(clock: UnixStream) -> io::Result<Self> {
        clock.set_nonblocking(true)?;
        // SAFETY: nothing else in this process uses it.
        Ok(Self { orders: unsafe { UnixStream::from_raw_fd(ORDERS) }, clock })
    }

    /// Has something to read when there is an order.
    pub fn orders(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }

    /// Takes an order.
    ///
    /// # Errors
    /// It is of no known kind, or the program has ended.
    pub fn obey(&mut self, vmm: &Child) -> io::Result<()> {
        let mut order = [0];
        self.orders.read_exact(&mut order)?;
        let pid = Pid::from_child(vmm);
        match &order {
            b"p" => {
                kill_process(pid, Signal::STOP)?;
                // All of its threads stand still then.
                waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
            }
            b"r" => {
                kill_process(pid, Signal::CONT)?;
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                // A guest that does not read it keeps its own time.
                let _ = self.clock.write(&(now.as_micros() as u64).to_le_bytes());
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
        self.orders.write_all(&order)
    }
}
