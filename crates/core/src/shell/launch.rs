//! The arguments of a new shell, and the builtin as a memory file.

use nacre_containment::lock::Lock;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The descriptor number of the channel in a new shell; the builtin's object follows.
pub const FIRST_DESCRIPTOR: i32 = nacre_shell_builtin::CHANNEL_FD;

/// Arguments of a bash that loads the builtin and is driven by it.
pub fn arguments() -> Vec<String> {
    nacre_shell_builtin::ARGUMENTS[1..].iter().map(ToString::to_string).collect()
}

/// The builtin's object. All shells of the process share one sealed file, which none can change.
pub fn object() -> io::Result<Arc<OwnedFd>> {
    static OBJECT: Lock<Option<Arc<OwnedFd>>> = Lock::new(None);
    let mut object = OBJECT.lock();
    if object.is_none() {
        let file = crate::sys::sealable_file()?;
        crate::sys::replace_contents(&file, nacre_shell_builtin::OBJECT)?;
        crate::sys::seal(&file)?;
        *object = Some(Arc::new(file));
    }
    object.clone().ok_or_else(|| io::ErrorKind::NotFound.into())
}
