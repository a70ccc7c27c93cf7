//! A job's command as a program to start.

use super::directory::Refused;
use crate::spawn::{Failure, Plan, Tie, Waiting, c_string};
use crate::standing::Standing;
use nacre_containment::cgroup::Group;
use nacre_isolation::confined::Confined;
use nacre_protocol::job::{JobProgram, JobRefusal, JobRequest};
use nacre_protocol::supervisor::StartStep;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Linux allows 128 KiB for one argument (MAX_ARG_STRLEN); longer text goes through a memory file.
const LONGEST_ARGUMENT: usize = 100 * 1024;

/// The shell's script in that case. It closes the file's descriptor before the text runs; line numbers start at 1.
const RUN_TEXT: &str = r#"builtin eval -- "exec 3<&-;$(</proc/self/fd/3)""#;

/// Forks the child in its control group, and waits until it is ready to execute the command.
pub fn prepare(
    request: &JobRequest,
    group: Option<&Group>,
    confined: Option<&Confined>,
    [input, output]: [BorrowedFd<'_>; 2],
) -> Result<Waiting, Failure> {
    let shell = c_string(request.shell.as_os_str().as_bytes());
    let words = |list: &[&str]| list.iter().map(|word| c_string(word.as_bytes())).collect();
    let mut long_text = None;
    let (programs, argv) = match &request.program {
        JobProgram::Text(text) if text.len() <= LONGEST_ARGUMENT => {
            (vec![shell.clone()], words(&["bash", "-c", "--", text]))
        }
        JobProgram::Text(text) => {
            long_text = Some(memory_file(text).map_err(|error| Failure::new(StartStep::Prepare, &error))?);
            (vec![shell.clone()], words(&["bash", "-c", "--", RUN_TEXT]))
        }
        JobProgram::Argv(list) => {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            (candidates(list.first().copied().unwrap_or_default()), words(&list))
        }
    };
    let plan = Plan {
        programs,
        argv,
        variable: None,
        cwd: &request.cwd,
        anywhere: false,
        group,
        standing: Standing { user: request.user.as_ref(), limits: request.resources, confined },
        descriptors: [input, output, output].into_iter().chain(long_text.as_ref().map(AsFd::as_fd)).collect(),
        tie: Tie::Dependent,
    };
    plan.prepare(&shell)
}

fn memory_file(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"command", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// The possible paths of a program: its own, or those in the directories of PATH.
fn candidates(name: &str) -> Vec<CString> {
    if name.contains('/') {
        return vec![c_string(name.as_bytes())];
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|directory| c_string(directory.join(name).as_os_str().as_bytes())).collect()
}

/// The answer to the starter if the command cannot start in this directory.
pub fn refused(failure: &Failure, cwd: &Path) -> Refused {
    let cwd = cwd.display();
    let (kind, doing) = match failure.step {
        StartStep::Prepare if failure.errno == libc::ETIMEDOUT => {
            let paths = format!("the working directory '{cwd}' or a path of the isolation");
            return (JobRefusal::Spawn, format!("the command cannot start: {paths} does not respond"));
        }
        StartStep::Prepare | StartStep::Exec => (JobRefusal::Spawn, "the command's process cannot be prepared".into()),
        StartStep::Group => (JobRefusal::Spawn, "the control group cannot be joined".into()),
        StartStep::Limits => (JobRefusal::Limit, "the limits (openFiles, pids) cannot be set".into()),
        StartStep::User => (JobRefusal::Spawn, "the command cannot run as that user".into()),
        StartStep::Cwd => (JobRefusal::Cwd, format!("the working directory cannot be entered ('{cwd}')")),
        StartStep::Isolation => (JobRefusal::Isolation, "the command cannot be isolated".into()),
    };
    let reason = match &failure.detail {
        detail if detail.is_empty() => io::Error::from_raw_os_error(failure.errno).to_string(),
        detail => detail.clone(),
    };
    (kind, format!("{doing}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_with_its_kind_and_reason() {
        let of =
            |step, errno, detail: &str| refused(&Failure { step, errno, detail: detail.into() }, Path::new("/missing"));
        let (kind, message) = of(StartStep::Cwd, libc::ENOENT, "");
        let sentence = "the working directory cannot be entered ('/missing'): No such file or directory (os error 2)";
        assert_eq!((kind, message.as_str()), (JobRefusal::Cwd, sentence));
        let (kind, message) = of(StartStep::Isolation, 0, "Landlock: refused");
        assert_eq!(
            (kind, message.as_str()),
            (JobRefusal::Isolation, "the command cannot be isolated: Landlock: refused")
        );
        let (kind, message) = of(StartStep::Prepare, libc::ETIMEDOUT, "");
        assert_eq!(kind, JobRefusal::Spawn);
        assert!(message.contains("'/missing'") && message.ends_with("does not respond"), "{message}");
        assert_eq!(of(StartStep::Limits, libc::EPERM, "").0, JobRefusal::Limit);
        assert_eq!(of(StartStep::User, libc::EPERM, "").0, JobRefusal::Spawn);
    }
}
