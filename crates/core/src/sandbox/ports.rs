//! The ports of the sessions, and connections to them.

use super::{DEFAULT_SESSION, Sandbox};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::session::{Handle, Port};
use nacre_containment::tree::Tree;
use std::os::fd::OwnedFd;

/// A port on which a program of the sandbox listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Where, and the program.
    pub port: Port,
    /// The id of the session.
    pub session: String,
    /// The id of the background process that the program belongs to.
    pub process: Option<String>,
}

impl Sandbox {
    /// Lists the ports of a session, or of all.
    pub fn ports(&self, session: Option<&str>) -> impl Future<Output = Result<Vec<OpenPort>, Error>> + Send + use<> {
        let (handles, sandbox) = (self.handles(session), self.clone());
        let is_sum = session.is_none();
        async move {
            let mut all = Vec::new();
            for handle in handles? {
                match sandbox.ports_of(&handle).await {
                    Ok(ports) => all.extend(ports),
                    // The session has just ended.
                    Err(error) if is_sum && error.code != Code::EngineError => {}
                    Err(error) => return Err(error),
                }
            }
            all.sort_by_key(|open| open.port.address.port());
            Ok(all)
        }
    }

    async fn ports_of(&self, handle: &Handle) -> Result<Vec<OpenPort>, Error> {
        let Some(network) = handle.network().await? else { return Ok(Vec::new()) };
        let ports = network.ports().await?;
        if ports.is_empty() {
            return Ok(Vec::new());
        }
        let processes = self.processes().all().into_iter().filter(|process| process.session.id() == handle.id());
        let trees: Vec<(String, Tree)> = processes
            .filter_map(|process| {
                let life = process.life();
                life.birth.filter(|_| life.end.is_none()).map(|birth| (process.id.clone(), birth.tree))
            })
            .collect();
        let session = handle.id().to_string();
        blocking(move || {
            let mut all: Vec<OpenPort> =
                ports.into_iter().map(|port| OpenPort { port, session: session.clone(), process: None }).collect();
            for (id, tree) in trees {
                let members = tree.members().unwrap_or_default();
                let is_of =
                    |open: &&mut OpenPort| members.iter().any(|stat| stat.identity == open.port.process.identity);
                all.iter_mut().filter(is_of).for_each(|open| open.process = Some(id.clone()));
            }
            Ok(all)
        })
        .await
    }

    /// Connects to a port of a session. Without one, to that of the first session that listens: the default session, then the
    /// others by their ids.
    pub fn connect(
        &self,
        session: Option<&str>,
        port: u16,
    ) -> impl Future<Output = Result<OwnedFd, Error>> + Send + use<> {
        let (handles, sandbox) = (self.handles(session), self.clone());
        let is_any = session.is_none();
        async move {
            let mut handles = handles?;
            handles.sort_by_key(|handle| (handle.id() != DEFAULT_SESSION, handle.id().to_string()));
            let mut failure = Error::port_closed(port);
            for handle in handles {
                match sandbox.connect_in(&handle, port).await {
                    Ok(connected) => return Ok(connected),
                    Err(error) if error.code == Code::PortClosed => {}
                    // The session has just ended, for example.
                    Err(error) if is_any && error.code != Code::EngineError => {}
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        }
    }

    async fn connect_in(&self, handle: &Handle, port: u16) -> Result<OwnedFd, Error> {
        let closed = || Error::new(Code::PortClosed, "nothing runs in the session");
        let network = handle.network().await?.ok_or_else(closed)?;
        let is_own = network.is_own();
        network
            .connect(port, |socket| async move {
                if is_own {
                    return self.files(handle.id(), |access| async move { access.socket(socket).await }).await;
                }
                socket.make().map_err(|errno| Error::new(Code::EngineError, format!("cannot make a socket: {errno}")))
            })
            .await
    }
}
