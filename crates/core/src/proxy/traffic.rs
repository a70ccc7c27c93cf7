//! The bytes that the programs of a session have sent to its proxy, and received from it.
//!
//! The kernel counts them for each connection, so nothing is in the way of the bytes. A connection that has ended leaves its
//! counts behind.

use crate::wanted::PassedBytes;
use nacre_containment::lock::Lock;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use tokio::net::TcpStream;

/// See the module.
#[derive(Debug, Default)]
pub struct Traffic(Lock<Connections>);

#[derive(Debug, Default)]
struct Connections {
    /// Of connections that have ended.
    ended: PassedBytes,
    /// Copies of the proxy's ends of the others.
    open: Vec<Arc<OwnedFd>>,
}

/// A connection that counts. Its end is when this is dropped, which closes it, too.
pub struct CountedConnection<'a>(&'a Traffic, Arc<OwnedFd>);

impl Traffic {
    /// Counts a connection from now on.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn count(&self, client: &TcpStream) -> io::Result<CountedConnection<'_>> {
        let copy = Arc::new(client.as_fd().try_clone_to_owned()?);
        self.0.lock().open.push(Arc::clone(&copy));
        Ok(CountedConnection(self, copy))
    }

    /// All bytes so far. `None` if the kernel does not count them.
    pub fn total(&self) -> Option<PassedBytes> {
        let counts = self.0.lock();
        counts.open.iter().try_fold(counts.ended, |sum, open| Some(plus(sum, bytes_of(open)?)))
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock();
        counts.open.retain(|open| !Arc::ptr_eq(open, &self.1));
        counts.ended = plus(counts.ended, bytes_of(&self.1).unwrap_or_default());
    }
}

fn plus(a: PassedBytes, b: PassedBytes) -> PassedBytes {
    [a[0] + b[0], a[1] + b[1]]
}

/// What the other end of a connection has sent and received: `tcpi_bytes_received` and `tcpi_bytes_acked` of tcp(7), which Linux
/// has since 4.1. `None` for a kernel that does not have them.
///
/// The end of a connection is acknowledged like one more byte, often after its command. Since 4.19, Linux says what was sent without it.
fn bytes_of(socket: &OwnedFd) -> Option<PassedBytes> {
    const ACKED: usize = 120;
    const RECEIVED: usize = 128;
    const SENT: usize = 200;
    const RETRANSMITTED: usize = 208;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, and stores how many.
    let found = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let known = info.get(..length as usize).filter(|_| found == 0)?;
    let number = |at: usize| known.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let sent = number(SENT).zip(number(RETRANSMITTED)).map(|(all, again)| all.saturating_sub(again));
    Some([number(RECEIVED)?, number(ACKED)?.min(sent.unwrap_or(u64::MAX))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn counts_open_and_ended_connections() {
        let (traffic, listener) = (Traffic::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let (mut program, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (program, mut client) = (program.as_mut().unwrap(), accepted.unwrap().0);
        let counted = traffic.count(&client).unwrap();
        program.write_all(&[1; 5000]).await.unwrap();
        client.read_exact(&mut [0; 5000]).await.unwrap();
        client.write_all(&[2; 70_000]).await.unwrap();
        program.read_exact(&mut [0; 70_000]).await.unwrap();
        // The kernel of the receiver acknowledges a little later.
        while traffic.total() != Some([5000, 70_000]) {
            tokio::task::yield_now().await;
        }
        // What the program answers acknowledges the end.
        client.shutdown().await.unwrap();
        assert_eq!(program.read(&mut [0; 1]).await.unwrap(), 0);
        program.write_all(&[3]).await.unwrap();
        client.read_exact(&mut [0; 1]).await.unwrap();
        assert_eq!(traffic.total(), Some([5001, 70_000]));
        drop((counted, client));
        assert_eq!(traffic.total(), Some([5001, 70_000]));
    }
}
