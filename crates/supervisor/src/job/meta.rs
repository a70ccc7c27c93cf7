//! The content of `meta.json`.

use super::directory::Directory;
use nacre_containment::cgroup::Group;
use nacre_containment::job::clock;
use nacre_containment::job::layout::{EXIT, OUTPUT};
use nacre_containment::job::meta::{Meta, Own, VERSION, boot_id, pid_namespace};
use nacre_containment::pid::Pid;
use nacre_containment::proc_table::Stat;
use nacre_protocol::job::JobRequest;
use std::io;

/// Maximum bytes of the command in `meta.json`. JSON needs at most six bytes for each.
const MOST_SHOWN_BYTES: usize = 1024 * 1024;

/// Describes a job that is ready to run: `group` is its control group, `command_pid` the child that waits for its
/// program.
///
/// # Errors
/// This process cannot be described.
pub fn of(
    request: &JobRequest,
    own: Pid,
    group: Option<&Group>,
    command_pid: Pid,
    directory: &Directory,
) -> io::Result<Meta> {
    let place = directory.place();
    Ok(Meta {
        job_id: request.id.clone(),
        pgid: own,
        process_name: request.process_name.clone(),
        output_file: place.join(OUTPUT),
        exit_file: place.join(EXIT),
        dir: place.into(),
        created_at: clock::now(),
        version: VERSION.into(),
        own: Some(Own {
            pid: own,
            start_time: Stat::read(own).map_or(0, |stat| stat.identity.start_ticks),
            boot_id: boot_id()?.into(),
            pid_namespace: pid_namespace().into(),
            command_pid,
            mark: None,
            cgroup: group.map(|group| group.path().to_path_buf()),
            command: shown(&request.command),
            cwd: request.cwd.clone(),
            timeout_ms: request.timeout_ms,
            grace_ms: request.grace_ms,
            limits: request.limits.clone(),
            open_files: request.resources.open_files,
        }),
    })
}

/// The command as stored in `meta.json`: complete, unless that exceeds the length that readers accept.
fn shown(command: &str) -> String {
    if command.len() <= MOST_SHOWN_BYTES {
        return command.into();
    }
    let end = (0..=MOST_SHOWN_BYTES).rev().find(|end| command.is_char_boundary(*end)).unwrap_or_default();
    format!("{}…", &command[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shortened_between_two_characters() {
        assert_eq!(shown("make"), "make");
        let long = format!("x{}", "ä".repeat(MOST_SHOWN_BYTES));
        let short = shown(&long);
        assert!(short.len() < MOST_SHOWN_BYTES + 4 && short.ends_with("ä…"));
    }
}
