//! `meta.json`: the description of a job.
//!
//! The first eight fields are shared with an existing package. The others are nacre's and may be missing when read.

use super::{file, layout};
use crate::limits::Limits;
use crate::pid::{Identity, Pid};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The version of the format that is written here.
pub const VERSION: u32 = 1;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The name of the directory.
    pub job_id: String,
    /// The process group that receives signals: the supervisor's, which passes SIGTERM on to the whole tree.
    pub pgid: Pid,
    /// As given at the start, for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_name: Option<String>,
    /// Absolute.
    pub output_file: PathBuf,
    /// Absolute.
    pub exit_file: PathBuf,
    /// Absolute.
    pub dir: PathBuf,
    /// ISO 8601.
    #[serde(default)]
    pub created_at: String,
    /// A number in files of nacre; other writers may use other types.
    #[serde(default)]
    pub version: serde_json::Value,
    /// The fields of nacre.
    #[serde(flatten)]
    pub own: Option<Own>,
}

/// The fields that only nacre writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Own {
    /// The supervisor.
    pub pid: Pid,
    /// Its start in clock ticks since boot.
    pub start_time: u64,
    /// Which boot.
    pub boot_id: String,
    /// The pid namespace of the pids.
    pub pid_namespace: String,
    /// The command itself, a child of the supervisor.
    pub command_pid: Pid,
    /// Marks the processes of a script's job in their environment. A native supervisor has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Directory of the control group, when one is used.
    pub cgroup: Option<PathBuf>,
    /// As shown.
    pub command: String,
    /// Absolute.
    pub cwd: PathBuf,
    /// Milliseconds.
    pub timeout_ms: Option<u64>,
    /// Milliseconds between SIGTERM and SIGKILL, unless a cancel overrides it.
    pub grace_ms: u64,
    /// Limits of the control group.
    pub limits: Limits,
    /// Descriptors of each process.
    pub open_files: Option<u64>,
}

impl Meta {
    /// Parses the file's text. `None` for a truncated file, or that of another directory: the file is written as a
    /// whole and renamed into place.
    pub fn parse(text: &[u8], id: &str) -> Option<Self> {
        let meta: Self = serde_json::from_slice(text).ok()?;
        (meta.job_id == id).then_some(meta)
    }

    /// Reads the file from the directory of the job `id`. `None` when it is missing or damaged.
    ///
    /// # Errors
    /// See [`file::Unreadable`].
    pub fn read(directory: &File, id: &str) -> Result<Option<Self>, file::Unreadable> {
        let text = file::read(directory, layout::META, file::MOST_META_BYTES)?;
        Ok(text.and_then(|text| Self::parse(&text, id)))
    }
}

impl Own {
    /// The identity of the supervisor.
    pub fn identity(&self) -> Identity {
        Identity { pid: self.pid, start_ticks: self.start_time }
    }

    /// True when the pids were assigned since this system booted.
    ///
    /// # Errors
    /// See [`boot_id`].
    pub fn is_of_this_boot(&self) -> io::Result<bool> {
        Ok(self.boot_id == boot_id()?)
    }

    /// True when the pids are valid in this process's pid namespace.
    pub fn is_of_this_namespace(&self) -> bool {
        self.pid_namespace == pid_namespace()
    }
}

/// Identifies this boot of the system (random(4)); empty where the system has no such file.
///
/// # Errors
/// It cannot be read now, for example without a descriptor.
pub fn boot_id() -> io::Result<&'static str> {
    static ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = ID.get() {
        return Ok(id);
    }
    let text = match std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            String::new()
        }
        text => text?,
    };
    Ok(ID.get_or_init(|| text.trim().into()))
}

/// Identifies the pid namespace of this process (namespaces(7)), for example `pid:[4026531836]`.
pub fn pid_namespace() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let place = "/proc/self/ns/pid";
        let name = std::fs::read_link(place).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // gVisor before August 2023 shows a new number to each process: there, the name of the container has to do.
        let is_real = std::fs::metadata(place).is_ok_and(|file| name == format!("pid:[{}]", file.ino()));
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_string();
        if is_real || name.is_empty() { name } else { host() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Meta {
        Meta {
            job_id: "j".into(),
            pgid: Pid::new(40).unwrap(),
            process_name: Some("build".into()),
            output_file: "/r/j/output.log".into(),
            exit_file: "/r/j/exit".into(),
            dir: "/r/j".into(),
            created_at: "2024-01-01T00:00:00.000Z".into(),
            version: VERSION.into(),
            own: Some(Own {
                pid: Pid::new(40).unwrap(),
                start_time: 7,
                boot_id: boot_id().unwrap().into(),
                pid_namespace: pid_namespace().into(),
                command_pid: Pid::new(41).unwrap(),
                mark: None,
                cgroup: None,
                command: "make".into(),
                cwd: "/".into(),
                timeout_ms: None,
                grace_ms: 5000,
                limits: Limits::default(),
                open_files: None,
            }),
        }
    }

    #[test]
    fn the_shared_fields_have_the_shared_names() {
        let text = serde_json::to_string(&sample()).unwrap();
        for name in ["jobId", "pgid", "processName", "outputFile", "exitFile", "dir", "createdAt", "version", "bootId"]
        {
            assert!(text.contains(&format!("\"{name}\":")), "{name} in {text}");
        }
        assert_eq!(Meta::parse(text.as_bytes(), "j"), Some(sample()));
        assert!(sample().own.unwrap().is_of_this_boot().unwrap());
    }

    #[test]
    fn a_file_without_fields_of_ours_is_readable() {
        let text = br#"{"jobId":"j","pgid":7,"processName":"p","outputFile":"/r/j/output.log","exitFile":"/r/j/exit",
            "dir":"/r/j","createdAt":"2024-01-01T00:00:00.000Z","version":"1.2"}"#;
        let meta = Meta::parse(text, "j").unwrap();
        assert_eq!((meta.pgid.raw(), meta.own), (7, None));
    }

    #[test]
    fn what_was_cut_off_or_names_a_process_that_must_not_be_signalled_is_none() {
        let whole = serde_json::to_vec(&sample()).unwrap();
        for length in 0..whole.len() {
            assert_eq!(Meta::parse(&whole[..length], "j"), None);
        }
        assert_eq!(Meta::parse(&whole, "another"), None);
        for pgid in ["0", "1", "-1", "-5", "1e9", "\"7\"", "4294967297"] {
            let text = format!(r#"{{"jobId":"j","pgid":{pgid},"outputFile":"o","exitFile":"e","dir":"d"}}"#);
            assert_eq!(Meta::parse(text.as_bytes(), "j"), None, "{pgid}");
        }
    }
}
