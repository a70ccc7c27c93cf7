//! Functions of the host that answer requests of programs, and that know values of secrets.

use nacre_egress::Call;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A call of a function.
pub struct FunctionCall {
    /// The session whose program has sent the request.
    pub session: String,
    /// Which function, and what for.
    pub call: Call,
    /// The function's end of a connected socket.
    pub socket: OwnedFd,
}

/// Receives calls, on the thread of the proxies. It must not block.
#[derive(Clone)]
pub struct OnFunction(Arc<dyn Fn(FunctionCall) + Send + Sync>);

impl OnFunction {
    /// Calls this function for each call.
    pub fn new(receive: impl Fn(FunctionCall) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    fn call(&self, call: FunctionCall) {
        (self.0)(call);
    }
}

/// The functions of a session.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    /// Receives their calls.
    pub on_function: OnFunction,
    /// Its id.
    pub session: String,
}

impl Functions {
    /// Calls one, and returns the caller's end of the socket.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn call(&self, call: Call) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.on_function.call(FunctionCall { session: self.session.clone(), call, socket: theirs.into() });
        Ok(ours)
    }
}

/// Closes each connection.
impl Default for OnFunction {
    fn default() -> Self {
        Self::new(drop)
    }
}

impl fmt::Debug for OnFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnFunction")
    }
}
