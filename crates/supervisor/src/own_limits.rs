//! The limits of a supervisor, which a command can change.
//!
//! A command without isolation has the rights of its supervisor's user, and can change its limits (prlimit(2)): then the
//! supervisor opens no file, or writes none. So the supervisor restores them where the kernel lets it: raising a hard limit
//! again needs CAP_SYS_RESOURCE.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// The limits that keep a supervisor from working or kill it.
const RESOURCES: [Resource; 6] = [
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_AS,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_RTTIME,
];

/// Resource limits as they were: soft and hard.
pub struct Limits(Vec<(Resource, rlim_t, rlim_t)>);

impl Limits {
    /// The current limits of this process.
    pub fn current() -> Self {
        let read = |resource| getrlimit(resource).ok().map(|(soft, hard)| (resource, soft, hard));
        Self(RESOURCES.into_iter().filter_map(read).collect())
    }

    /// Whether a limit has changed.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|&(resource, soft, hard)| getrlimit(resource).is_ok_and(|found| found != (soft, hard)))
    }

    /// Sets every limit that has changed back, as far as this process may. True if all are as they were.
    pub fn restore(&self) -> bool {
        let mut restored = true;
        for (resource, soft, hard) in self.0.iter().copied() {
            let Ok((found_soft, found_hard)) = getrlimit(resource) else { continue };
            if (found_soft, found_hard) == (soft, hard) || setrlimit(resource, soft, hard).is_ok() {
                continue;
            }
            restored = false;
            let _ = setrlimit(resource, soft.min(found_hard), found_hard);
        }
        restored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_limits_are_restored() {
        let limits = Limits::current();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, soft / 2, hard).unwrap();
        assert!(limits.have_changed());
        assert!(limits.restore());
        assert!(!limits.have_changed());
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (soft, hard));
    }
}
