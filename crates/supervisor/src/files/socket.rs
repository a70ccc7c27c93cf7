//! Sockets in the session's network namespace. The host uses them: a socket stays in the namespace it was made in.

use super::connection::Connection;
use super::failure::{Stop, failure};
use nacre_protocol::files::{FilesReply, Reason, Socket};
use std::os::fd::AsFd;

/// Makes a socket and passes it to the host.
pub fn make(connection: &Connection, socket: Socket) -> Result<(), Stop> {
    let made = socket.make().map_err(|errno| failure(Reason::System(errno as i32), b""))?;
    connection.send_with(&FilesReply::Socket, &[made.as_fd()])
}
