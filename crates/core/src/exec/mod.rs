//! A foreground command: the request and its result.

mod input;
mod kill_policy;
mod killed_by;
pub mod outcome;
mod request;
mod sink;

pub use input::{Chunk, Input, InputWriter};
pub use kill_policy::KillPolicy;
pub use killed_by::{By, KilledBy};
pub use nacre_protocol::shell::{Lost, Usage};
pub use outcome::{Blocker, Outcome};
pub use request::{Command, ExecRequest};
pub use sink::{OutputStream, Sink, SureSink};
