//! A sandbox as a file, and a sandbox that goes on with one, perhaps on another machine: see [`nacre_archive`].
//!
//! The file is written during a pause, which lasts until the sandbox has ended: nothing happens that is not in it. A process
//! that does nothing else writes and reads it, the keeper of the workspace if there is one.
//!
//! A shell takes what it had from its environment from that of its new place, so an archive has neither that nor any secret of the
//! program that had the sandbox. Sessions begin with the rules of the new sandbox, whatever the archive says.

use super::checkpoint::{KeptSession, prefix, written_down};
use super::{NewSession, Sandbox, WhenBusy};
use crate::blocking::blocking;
use crate::error::{Code, Error};
use crate::session::Saved;
use crate::variables::EnvChange;
use crate::workspace::{self, ArchiveOnDisk, Suspension, bytes};
use nacre_archive::About;
use nacre_protocol::message;
use nacre_protocol::shell::portable::{Move, moved_path};
use nacre_protocol::workspace::Unpacking;
use rustix::fs::AtFlags;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The format of [`Archived`] and of all that it has, down to the items of the engines. Raise it with every change: a version of
/// nacre that has the same number reads what others have written.
const FORMAT: u32 = 1;

/// Maximum number of sessions of an archive.
const MAX_SESSIONS: usize = 10_000;
/// Maximum bytes of an id.
const MAX_ID_BYTES: usize = 128;
/// Maximum number of texts about what is missing.
const MAX_TEXTS: usize = 10_000;

/// What a suspension has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// The bytes of the file.
    pub bytes: u64,
    /// How many files and directories of the workspace it has.
    pub files: u64,
    /// The ids of its sessions.
    pub sessions: Vec<String>,
    /// What it does not have, like `process server` and `job 1: sleep 60`.
    pub missing: Vec<String>,
}

/// How a sandbox goes on with an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeOptions {
    /// Fails if the real directory is not as it was below the files.
    pub rejects: bool,
    /// Maximum bytes of the files.
    pub max_bytes: u64,
}

/// What a sandbox has gone on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// What the archive says about itself.
    pub about: About,
    /// What the sandbox had and does not have now.
    pub missing: Vec<String>,
    /// The paths where the real directory is not as it was below the files.
    pub differing: Vec<Vec<u8>>,
}

/// The sessions of an archive.
#[derive(Serialize, Deserialize)]
struct Archived {
    /// The directory of the sandbox.
    cwd: Vec<u8>,
    /// The directory of its workspace.
    workspace: Option<Vec<u8>>,
    sessions: Vec<ArchivedSession>,
}

#[derive(Serialize, Deserialize)]
struct ArchivedSession {
    id: String,
    cwd: Option<Vec<u8>>,
    env: EnvChange,
    survive_exit: Option<bool>,
    saved: Saved,
    /// The programs that its shell remembers, by their names.
    programs: Vec<(String, PathBuf)>,
}

impl Sandbox {
    /// Writes the sandbox to a file, in the place of an earlier one, and lets nothing begin any more: the caller destroys it then.
    /// Waits as [`Sandbox::pause`] does. `None`, with nothing written, if `given_up` resolves before the pause is in effect.
    ///
    /// # Errors
    /// Those of [`Sandbox::pause`] and [`Pause::check`]; `ISOLATION_UNSUPPORTED` for a session with rules of its own; `ENGINE_ERROR` if
    /// a shell does not write its state down; `FILE_NOT_FOUND`, `PERMISSION_DENIED` and `NO_SPACE`. The sandbox goes on then.
    pub fn suspend<G: Future<Output = ()> + Send>(
        &self,
        path: PathBuf,
        when_busy: WhenBusy,
        given_up: G,
    ) -> impl Future<Output = Result<Option<Suspended>, Error>> + Send + use<G> {
        let pausing = self.pause();
        let sandbox = self.clone();
        async move {
            let pause = tokio::select! {
                biased;
                () = given_up => return Ok(None),
                pause = pausing => pause?,
            };
            pause.check(when_busy, "use busy: 'end'")?;
            sandbox.refuse_own_rules()?;
            let processes = sandbox.inner.processes.living();
            let sessions = sandbox.save(&pause).await?;
            sandbox.deleted_sessions_end().await;
            sandbox.keep_all(&sessions).await;
            let mut missing: Vec<String> = processes.iter().map(|id| format!("process {id}")).collect();
            missing.extend(sessions.iter().flat_map(KeptSession::missing));
            missing.truncate(MAX_TEXTS);
            let suspended = {
                let sandbox = sandbox.clone();
                blocking(move || sandbox.write_archive(&path, sessions, missing)).await?
            };
            *sandbox.inner.suspended.lock() = Some(pause);
            Ok(Some(suspended))
        }
    }

    /// Fails if a session has rules that the sandbox does not have.
    fn refuse_own_rules(&self) -> Result<(), Error> {
        let sessions = self.lock();
        let Some(id) = sessions.open.iter().find_map(|(id, session)| session.new.isolation.as_ref().map(|_| id)) else {
            return Ok(());
        };
        let message = format!(
            "session '{id}' has rules of its own, which no archive has: delete it, or give them to the sandbox"
        );
        Err(Error::new(Code::IsolationUnsupported, message))
    }

    /// The directory in `stateDir` for archives that a server writes and reads, which nobody else can write to.
    ///
    /// # Errors
    /// `STATE_DIR_UNAVAILABLE`.
    pub fn archives(&self) -> Result<PathBuf, Error> {
        self.state_directory("archives")
    }

    fn write_archive(&self, path: &Path, sessions: Vec<KeptSession>, missing: Vec<String>) -> Result<Suspended, Error> {
        let config = &self.inner.config;
        let ids: Vec<String> = sessions.iter().map(|session| session.new.id.clone()).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let about = About {
            version: VERSION.into(),
            state_format: FORMAT,
            architecture: if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" }.into(),
            name: config.keep.clone(),
            created_at: now.as_millis() as i64,
            cwd: config.cwd.to_string_lossy().into_owned(),
            isolated: config.isolation.is_some(),
            sessions: ids.clone(),
            missing,
            ..About::default()
        };
        let sessions = sessions.into_iter().map(|KeptSession { new, saved }| ArchivedSession {
            id: new.id,
            cwd: new.cwd.as_deref().map(bytes),
            env: new.env,
            survive_exit: new.survive_exit,
            programs: saved.programs(),
            saved: saved.portable(),
        });
        let archived = Archived {
            cwd: bytes(&config.cwd),
            workspace: self.inner.workspace.as_ref().map(|workspace| bytes(workspace.path())),
            sessions: sessions.collect(),
        };
        let suspension = Suspension { about, states: written_down(&archived)?, owner: self.owner()? };
        let failed = |error: &io::Error| file_error("write", path, error);
        let new = NewFile::create(path).map_err(|error| failed(&error))?;
        let to = new.file.try_clone().map_err(|error| failed(&error))?.into();
        let ArchiveOnDisk { bytes, files, missing } = match &self.inner.workspace {
            Some(workspace) => workspace.suspend(suspension, to)?,
            None => workspace::write_archive(&config.supervisor, suspension, to)?,
        };
        new.replace(path).map_err(|error| failed(&error))?;
        Ok(Suspended { bytes, files, sessions: ids, missing })
    }

    /// The user and group of its programs, if they are not those of this process.
    fn owner(&self) -> Result<Option<(u32, u32)>, Error> {
        Ok(self.user()?.map(|user| (user.run_as.uid, user.run_as.gid)))
    }

    /// Reads what an archive says about itself, after its checksum has been found right.
    ///
    /// # Errors
    /// `ARCHIVE_REJECTED`, `FILE_NOT_FOUND` and `PERMISSION_DENIED`.
    pub fn read_archive(&self, path: &Path) -> Result<About, Error> {
        workspace::read_archive(&self.inner.config.supervisor, open(path)?).map(|(about, _)| about)
    }

    /// Goes on with an archive, in a sandbox that nothing has used. If that fails, the caller destroys it.
    ///
    /// # Errors
    /// Those of [`Sandbox::read_archive`]; `SANDBOX_IN_USE` if there are sessions; `WORKSPACE_NOT_ENABLED` for files without a workspace;
    /// `ISOLATION_UNSUPPORTED` without rules, if there were some; `WORKSPACE_CONFLICT`, with [`ResumeOptions::rejects`]; those of the
    /// opening of a workspace.
    pub fn resume(
        &self,
        path: PathBuf,
        options: ResumeOptions,
    ) -> impl Future<Output = Result<Resumed, Error>> + Send + use<> {
        let sandbox = self.clone();
        blocking(move || sandbox.resume_now(&path, options))
    }

    fn resume_now(&self, path: &Path, ResumeOptions { rejects, max_bytes }: ResumeOptions) -> Result<Resumed, Error> {
        if self.lock().made > 0 {
            let message =
                "an archive needs a sandbox without sessions: with keep, choose another name, or delete what is kept";
            return Err(Error::new(Code::SandboxInUse, message));
        }
        let file = open(path)?;
        let copy = file.try_clone().map_err(|error| file_error("read", path, &error))?;
        let (about, states) = workspace::read_archive(&self.inner.config.supervisor, copy)?;
        let (sessions, mut missing) = self.sessions_of(&about, &states)?;
        // What every session needs: nothing has been created yet.
        self.shared()?;
        let differing = match (&self.inner.workspace, &about.workspace) {
            (_, None) => Vec::new(),
            (Some(workspace), Some(_)) => {
                workspace.open_archived(file.into(), Unpacking { rejects, max_bytes, owner: self.owner()? })?
            }
            (None, Some(_)) => {
                let message = "the archive has files: resume it with workspace: 'copy-on-write'";
                return Err(Error::new(Code::WorkspaceNotEnabled, message));
            }
        };
        let ids: Vec<String> = sessions.iter().map(|session| session.new.id.clone()).collect();
        self.begin_with(sessions)?;
        // With a name, they are kept before their shells start.
        ids.iter().for_each(|id| self.change_of(id)());
        missing.splice(0..0, about.missing.iter().cloned());
        missing.truncate(MAX_TEXTS);
        Ok(Resumed { about, missing, differing })
    }

    /// The sessions of an archive, and the programs of its shells that are not here.
    fn sessions_of(&self, about: &About, states: &[u8]) -> Result<(Vec<KeptSession>, Vec<String>), Error> {
        let config = &self.inner.config;
        if about.state_format != FORMAT {
            let version = about.version.chars().take(40).collect::<String>().escape_debug().to_string();
            return Err(rejected(&format!(
                "nacre {version} has written it, in a format that nacre {VERSION} does not read: resume it with a version that does"
            )));
        }
        if about.isolated && config.isolation.is_none() {
            let message = "the sandbox had rules when it was suspended: resume it with isolation";
            return Err(Error::new(Code::IsolationUnsupported, message));
        }
        let damaged = || rejected("it is damaged or incomplete");
        let Archived { cwd, workspace, sessions } = message::decode(states).map_err(|_| damaged())?;
        let mut ids = HashSet::new();
        if sessions.len() > MAX_SESSIONS
            || !sessions.iter().all(|session| ids.insert(session.id.clone()) && session.is_whole())
        {
            return Err(damaged());
        }
        let mut moves: Vec<Move> = vec![(cwd.clone(), bytes(&config.cwd))];
        let root = self.inner.workspace.as_ref().map_or(&*config.cwd, |workspace| workspace.path());
        moves.push((workspace.unwrap_or(cwd), bytes(root)));
        moves.retain(|(from, to)| from != to && from != b"/" && from.starts_with(b"/"));
        let mut missing = Vec::new();
        let sessions = sessions.into_iter().map(|session| {
            let of = prefix(&session.id);
            let absent = session.programs.iter().filter(|program| !self.has_program(program, &moves));
            missing.extend(absent.map(|(name, path)| format!("{of}program {name}: {}", path.display())));
            session.moved(&moves)
        });
        let sessions = sessions.collect();
        missing.truncate(MAX_TEXTS);
        Ok((sessions, missing))
    }

    /// Whether a program is at its place, or in a directory of PATH.
    fn has_program(&self, (name, path): &(String, PathBuf), moves: &[Move]) -> bool {
        let place = moved_path(path.as_os_str().as_bytes(), moves).map(OsString::from_vec);
        let is_there = |path: &Path| fs::metadata(path).is_ok_and(|found| found.is_file());
        let variable = self.inner.config.env.iter().rfind(|(name, _)| name == "PATH");
        // A shell finds what is in the workspace there, unless it is missing in the archive, too.
        place.is_some()
            || is_there(path)
            || variable.is_some_and(|(_, dirs)| {
                !name.contains('/') && std::env::split_paths(dirs).any(|directory| is_there(&directory.join(name)))
            })
    }
}

impl ArchivedSession {
    /// Whether a sandbox can have it: the archive may be hostile.
    fn is_whole(&self) -> bool {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        let is_path = |path: &Vec<u8>| path.starts_with(b"/") && !path.contains(&0);
        (1..=MAX_ID_BYTES).contains(&self.id.len())
            && self.id.bytes().all(is_id)
            && self.cwd.as_ref().is_none_or(is_path)
            && self
                .env
                .iter()
                .all(|(name, value)| is_name(name) && value.as_ref().is_none_or(|value| !value.contains('\0')))
            && self.saved.is_whole()
    }

    fn moved(self, moves: &[Move]) -> KeptSession {
        let cwd = self.cwd.map(|cwd| PathBuf::from(OsString::from_vec(moved_path(&cwd, moves).unwrap_or(cwd))));
        let Self { id, env, survive_exit, saved, .. } = self;
        let new = NewSession { id, cwd, env, survive_exit, ..NewSession::default() };
        KeptSession { new, saved: saved.moved(moves) }
    }
}

fn rejected(reason: &str) -> Error {
    Error::new(Code::ArchiveRejected, format!("the archive cannot be used: {reason}"))
}

/// Opens an archive.
fn open(path: &Path) -> Result<File, Error> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = opened.map_err(|error| file_error("read", path, &error))?;
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) => Err(rejected("it is no file")),
        Err(error) => Err(file_error("read", path, &error)),
    }
}

fn file_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    let code = match error.raw_os_error() {
        Some(libc::ENOENT) => Code::FileNotFound,
        Some(libc::ENOTDIR) => Code::NotADirectory,
        Some(libc::EISDIR) => Code::IsADirectory,
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => Code::PermissionDenied,
        Some(libc::ENOSPC | libc::EDQUOT) => Code::NoSpace,
        _ => Code::EngineError,
    };
    Error::new(code, format!("cannot {doing} {}: {error}; name a file in a directory of yours", path.display()))
}

/// A file that is being written, and takes its place when it is whole. It has no name before, where the file system allows that:
/// nothing is left of it then if this program is killed.
struct NewFile {
    file: File,
    /// Its name beside its place, for a moment or until it is whole.
    path: PathBuf,
}

impl NewFile {
    fn create(place: &Path) -> io::Result<Self> {
        let name = place.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        if fs::metadata(place).is_ok_and(|found| found.is_dir()) {
            return Err(io::Error::from_raw_os_error(libc::EISDIR));
        }
        let mut new = OsString::from(".");
        new.push(name);
        new.push(format!(".{}.new", std::process::id()));
        let path = place.with_file_name(new);
        // What a program of this pid has left behind, which has ended.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).read(true).mode(0o600);
        let file = match options.clone().custom_flags(libc::O_TMPFILE).open(directory_of(place)) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => {
                options.create_new(true).open(&path)?
            }
            unnamed => unnamed?,
        };
        Ok(Self { file, path })
    }

    /// Gives it its name, on the disk.
    fn replace(self, place: &Path) -> io::Result<()> {
        let has_name = self.file.metadata()?.nlink() > 0;
        let link = |to: &Path| {
            let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            rustix::fs::linkat(rustix::fs::CWD, file, rustix::fs::CWD, to, AtFlags::SYMLINK_FOLLOW)
        };
        if has_name || link(place).is_err() {
            if !has_name {
                link(&self.path)?;
            }
            fs::rename(&self.path, place)?;
        }
        File::open(directory_of(place))?.sync_all()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It has another name if it is whole.
        let _ = fs::remove_file(&self.path);
    }
}

fn directory_of(place: &Path) -> &Path {
    place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha1::{Digest, Sha1};

    fn saved(bytes: &[u8]) -> Saved {
        message::decode(bytes).unwrap()
    }

    #[test]
    fn another_version_reads_what_this_one_has_written() {
        let session = ArchivedSession {
            id: "id".into(),
            cwd: Some(b"/cwd".into()),
            env: vec![("NAME".into(), Some("value".into())), ("UNSET".into(), None)],
            survive_exit: Some(true),
            saved: Saved::of_items(b"items".to_vec()),
            programs: vec![("git".into(), "/usr/bin/git".into())],
        };
        let archived = Archived { cwd: b"/cwd".into(), workspace: Some(b"/cwd".into()), sessions: vec![session] };
        let digest = Sha1::digest(message::encode(&archived).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = (1, "1e749f146e6d443df576aa0d4c48fa65976c36ab");
        assert_eq!((FORMAT, &*digest), expected, "raise FORMAT if the text has another form now");
    }

    fn session(id: &str) -> ArchivedSession {
        let saved = saved(&[0, 0, 0, 0]);
        ArchivedSession { id: id.into(), cwd: None, env: Vec::new(), survive_exit: None, saved, programs: Vec::new() }
    }

    #[test]
    fn sessions_that_no_sandbox_has_are_refused() {
        assert!(session("a.b-c_1").is_whole());
        for id in ["", "a/b", "../x", "a b", "a\n", "ä", &"x".repeat(129)] {
            assert!(!session(id).is_whole(), "{id}");
        }
        let env = |name: &str, value: &str| ArchivedSession {
            env: vec![("A".into(), None), (name.into(), Some(value.into()))],
            ..session("a")
        };
        assert!(env("B", "=\n").is_whole());
        assert!(!env("", "1").is_whole() && !env("A=B", "1").is_whole() && !env("A", "1\0B=2").is_whole());
        let cwd = |path: &[u8]| ArchivedSession { cwd: Some(path.to_vec()), ..session("a") };
        assert!(cwd(b"/a").is_whole() && !cwd(b"a").is_whole() && !cwd(b"/a\0").is_whole());
        // A list of items without its end, and a state of plain mode without sections.
        for state in [&[1, 0, 3, b'a', b'b', b'c', 0, 0, 0][..], &[1, 1, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(!ArchivedSession { saved: saved(state), ..session("a") }.is_whole());
        }
    }

    #[test]
    fn a_new_file_takes_its_place_or_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("archive");
        let names = || fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        let first = NewFile::create(&path).unwrap();
        assert!(names().is_empty());
        first.replace(&path).unwrap();
        assert_eq!(names(), ["archive"]);
        fs::write(&path, "old").unwrap();
        drop(NewFile::create(&path).unwrap());
        assert_eq!((names(), fs::read_to_string(&path).unwrap()), (vec!["archive".into()], "old".to_string()));
        let new = NewFile::create(&path).unwrap();
        io::Write::write_all(&mut &new.file, b"new").unwrap();
        new.replace(&path).unwrap();
        assert_eq!((names(), fs::read_to_string(&path).unwrap()), (vec!["archive".into()], "new".to_string()));
        fs::create_dir(place.path().join("d")).unwrap();
        assert!(NewFile::create(&place.path().join("d")).is_err());
    }
}
