//! The native class's method for functions that send requests on.

use crate::sandbox::NativeSandbox;
use crate::socket::Socket;
use napi::bindgen_prelude::{Error, Result};
use napi_derive::napi;
use std::os::unix::net::UnixStream;

#[napi]
impl NativeSandbox {
    /// Connects to what sends a request of a function on, as long as the request that it answers lasts. Returns a connected socket,
    /// which belongs to JavaScript from now on.
    #[napi(catch_unwind, ts_return_type = "number")]
    pub fn forward_request(&self, request: u32) -> Result<Socket> {
        let ended = || Error::from_reason("the request has ended");
        let forwarder = self.requests.find(request).ok_or_else(ended)?;
        let failed = |error: std::io::Error| Error::from_reason(error.to_string());
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        forwarder.forward(ours);
        Ok(Socket(theirs.into()))
    }
}
