//! Whether programs wait for input, from `/proc` alone: in which system call each thread is, and on which descriptors.
//!
//! What a program prints says nothing about it. Nothing is stopped or traced, but looking needs the right to trace (`ptrace(2)`:
//! same user and dumpable, or CAP_SYS_PTRACE). One look shows where threads are; two tell a program that waits from one that
//! passes by, see [`compare`].

use crate::pid::{Identity, Pid};
use crate::proc_table::{self, Stat};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;

/// Maximum threads of one look: a program can have any number of them.
const MAX_THREADS: usize = 1024;
/// Maximum descriptors of a system call that are looked up. A call with more of them waits for more than input.
const MAX_DESCRIPTORS: usize = 256;
/// Maximum bytes of the list of an epoll descriptor: about 50 for each.
const MAX_LIST: u64 = 64 * 1024;
/// The device number of `/dev/tty` (devices.txt of the kernel).
const OWN_TERMINAL: (u32, u32) = (5, 0);

/// A thread that waits for input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Its process.
    pub process: Identity,
    /// The name of the program, as the kernel cuts it.
    pub program: String,
    /// Where the input comes from.
    pub source: Source,
    /// Whether the call ends after a time.
    pub is_timed: bool,
    /// Whether it also waits for something that is not its own: a socket, a file, another terminal.
    pub has_others: bool,
    thread: i32,
    call: i64,
    /// How often the thread has slept, and the processor time of the process.
    progress: (u64, u64),
}

/// Where the input of a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// Its terminal, whose foreground group it belongs to.
    Terminal,
    /// The pipe that was given to it as standard input.
    Pipe,
    /// It belongs to the foreground group of its terminal, and cannot be looked at: a set-user-ID program.
    Hidden,
}

/// What two looks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits for input and for nothing else.
    Reading,
    /// It waits for input and for something else, or has woken up between the looks.
    Listening,
    /// It cannot be looked at.
    Hidden,
}

/// The threads of these processes that wait for input now. `input` is the inode of the pipe that was given to them as standard
/// input.
///
/// # Errors
/// `EMFILE` and the like: this process cannot look.
pub fn look(processes: &[Stat], input: Option<u64>) -> io::Result<Vec<Wait>> {
    let mut found = Vec::new();
    let mut left = MAX_THREADS;
    for stat in processes.iter().filter(|stat| stat.state == b'S') {
        for thread in threads(stat.identity.pid)? {
            if left == 0 {
                return Ok(found);
            }
            left -= 1;
            found.extend(look_at(&Thread { stat, id: thread, input })?);
        }
    }
    Ok(found)
}

/// What two looks show together, about half a second apart: a thread that is in the same call, and has not run in
/// between. The most certain state, with its thread in the second look; `None` if nothing waits for input.
pub fn compare<'a>(first: &[Wait], second: &'a [Wait]) -> Option<(State, &'a Wait)> {
    let has_slept = |wait: &&Wait| first.contains(wait);
    let is_visible = |wait: &&Wait| wait.source != Source::Hidden;
    let alone = || second.iter().filter(has_slept).filter(is_visible).filter(|wait| !wait.has_others);
    // Node, vim and top wake up from time to time, so a limit of the call says little.
    let reading = alone().find(|wait| !wait.is_timed).or_else(|| alone().next());
    let listening = || second.iter().find(is_visible).map(|wait| (State::Listening, wait));
    let hidden = || second.iter().find(has_slept).map(|wait| (State::Hidden, wait));
    reading.map(|wait| (State::Reading, wait)).or_else(listening).or_else(hidden)
}

/// A thread to look at.
struct Thread<'a> {
    stat: &'a Stat,
    id: i32,
    input: Option<u64>,
}

/// What a thread waits on.
#[derive(Default)]
struct Call {
    descriptors: Vec<u32>,
    is_timed: bool,
    /// Whether there are more descriptors than are listed here.
    has_more: bool,
}

/// What a descriptor is for the program that waits on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Input(Source),
    /// It wakes the program's own threads.
    Own,
    Other,
}

fn look_at(thread: &Thread<'_>) -> io::Result<Option<Wait>> {
    let Thread { stat, id, .. } = *thread;
    let pid = stat.identity.pid;
    let is_in_front = stat.terminal != 0 && stat.group == stat.foreground_group;
    let (call, arguments) = match system_call(pid, id) {
        Ok(Some(call)) => call,
        Ok(None) => return Ok(None),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) && is_in_front => {
            return Ok(wait(thread, -1, Source::Hidden, false, false));
        }
        Err(error) => return unless_gone(error),
    };
    let Some(waits_on) = waits_on(pid, call, &arguments) else { return Ok(None) };
    let mut source = None;
    let mut has_others = waits_on.has_more;
    for descriptor in &waits_on.descriptors {
        match kind(thread, *descriptor, is_in_front) {
            Ok(Kind::Input(found)) => source = source.or(Some(found)),
            Ok(Kind::Own) => {}
            Ok(Kind::Other) => has_others = true,
            Err(error) => return unless_gone(error),
        }
    }
    Ok(source.and_then(|source| wait(thread, call, source, waits_on.is_timed, has_others)))
}

fn wait(thread: &Thread<'_>, call: i64, source: Source, is_timed: bool, has_others: bool) -> Option<Wait> {
    let Thread { stat, id, .. } = *thread;
    let name = stat.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Wait {
        process: stat.identity,
        program: String::from_utf8_lossy(name).into_owned(),
        source,
        is_timed,
        has_others,
        thread: id,
        call,
        progress: (sleeps(stat.identity.pid, id)?, stat.cpu_ticks),
    })
}

/// `None` for a process that has ended, or that hides itself meanwhile.
fn unless_gone<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => Err(error),
        _ => Ok(None),
    }
}

fn threads(pid: Pid) -> io::Result<Vec<i32>> {
    let listed = fs::read_dir(format!("/proc/{pid}/task"));
    let Some(listed) = listed.map(Some).or_else(unless_gone)? else { return Ok(Vec::new()) };
    let id = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(listed.take(MAX_THREADS).filter_map(id).collect())
}

/// The system call that a thread sleeps in, and its arguments. `None` if it is running.
fn system_call(pid: Pid, thread: i32) -> io::Result<Option<(i64, [u64; 6])>> {
    let text = proc_table::read_file(format!("/proc/{pid}/task/{thread}/syscall"))?;
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split_ascii_whitespace();
    let Some(call) = words.next().and_then(|word| word.parse().ok()) else { return Ok(None) };
    let mut arguments = [0; 6];
    for (argument, word) in arguments.iter_mut().zip(words) {
        *argument = word.strip_prefix("0x").and_then(|word| u64::from_str_radix(word, 16).ok()).unwrap_or(0);
    }
    Ok(Some((call, arguments)))
}

/// What a call waits on, for the calls that wait for input.
fn waits_on(pid: Pid, call: i64, arguments: &[u64; 6]) -> Option<Call> {
    let [first, second, third, fourth, fifth, _] = *arguments;
    let one = |descriptor: u64| Call { descriptors: vec![descriptor as u32], ..Call::default() };
    // An argument of 32 bits has anything in its upper half.
    let is_limited = |milliseconds: u64| milliseconds as i32 >= 0;
    #[cfg(target_arch = "x86_64")]
    match call {
        libc::SYS_poll => return Some(Call { is_timed: is_limited(third), ..polled(pid, first, second)? }),
        libc::SYS_select => return Some(Call { is_timed: fifth != 0, ..selected(pid, first, second)? }),
        libc::SYS_epoll_wait => return Some(Call { is_timed: is_limited(fourth), ..listed(pid, first)? }),
        _ => {}
    }
    match call {
        libc::SYS_read | libc::SYS_readv | libc::SYS_recvfrom | libc::SYS_recvmsg => Some(one(first)),
        libc::SYS_ppoll => Some(Call { is_timed: third != 0, ..polled(pid, first, second)? }),
        libc::SYS_pselect6 => Some(Call { is_timed: fifth != 0, ..selected(pid, first, second)? }),
        libc::SYS_epoll_pwait => Some(Call { is_timed: is_limited(fourth), ..listed(pid, first)? }),
        libc::SYS_epoll_pwait2 => Some(Call { is_timed: fourth != 0, ..listed(pid, first)? }),
        _ => None,
    }
}

/// The descriptors of poll(2): `struct pollfd` has 8 bytes.
fn polled(pid: Pid, at: u64, count: u64) -> Option<Call> {
    let counted = (count as u32 as usize).min(MAX_DESCRIPTORS);
    let mut list = vec![0; counted * 8];
    memory(pid, at, &mut list)?;
    let mut call = Call { has_more: count as u32 as usize > counted, ..Call::default() };
    for entry in list.as_chunks::<8>().0 {
        let [a, b, c, d, events @ ..] = *entry;
        let descriptor = i32::from_ne_bytes([a, b, c, d]);
        let events = i16::from_ne_bytes([events[0], events[1]]);
        if descriptor >= 0 && events & libc::POLLIN != 0 {
            call.descriptors.push(descriptor as u32);
        }
    }
    Some(call)
}

/// The descriptors of select(2): a bit for each.
fn selected(pid: Pid, count: u64, at: u64) -> Option<Call> {
    if at == 0 {
        return Some(Call::default());
    }
    let count = (count as u32 as usize).min(libc::FD_SETSIZE);
    let mut set = vec![0; count.div_ceil(64) * 8];
    memory(pid, at, &mut set)?;
    let is_set = |descriptor: &u32| set[*descriptor as usize / 8] & (1 << (descriptor % 8)) != 0;
    let descriptors: Vec<u32> = (0..count as u32).filter(is_set).take(MAX_DESCRIPTORS + 1).collect();
    Some(Call { has_more: descriptors.len() > MAX_DESCRIPTORS, descriptors, is_timed: false })
}

/// The descriptors of an epoll descriptor: lines with `tfd:` in its file (proc(5)).
fn listed(pid: Pid, epoll: u64) -> Option<Call> {
    let file = File::open(format!("/proc/{pid}/fdinfo/{}", epoll as u32)).ok()?;
    let mut list = Vec::new();
    file.take(MAX_LIST).read_to_end(&mut list).ok()?;
    let mut call = Call { has_more: list.len() as u64 == MAX_LIST, ..Call::default() };
    for line in String::from_utf8_lossy(&list).lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("tfd:") {
            continue;
        }
        let descriptor: Option<u32> = words.next().and_then(|word| word.parse().ok());
        let events = words.nth(1).and_then(|word| u32::from_str_radix(word, 16).ok());
        let (Some(descriptor), Some(events)) = (descriptor, events) else { continue };
        if events & libc::EPOLLIN as u32 != 0 {
            call.descriptors.push(descriptor);
        }
    }
    call.has_more |= call.descriptors.len() > MAX_DESCRIPTORS;
    call.descriptors.truncate(MAX_DESCRIPTORS);
    Some(call)
}

fn memory(pid: Pid, at: u64, bytes: &mut [u8]) -> Option<()> {
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(bytes, at).ok()
}

fn kind(thread: &Thread<'_>, descriptor: u32, is_in_front: bool) -> io::Result<Kind> {
    let Thread { stat, input, .. } = *thread;
    let pid = stat.identity.pid;
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let target = fs::read_link(&path)?.into_os_string().into_vec();
    if let Some(pipe) = inode(&target, b"pipe:[") {
        let is_input = input == Some(pipe);
        return Ok(if is_input { Kind::Input(Source::Pipe) } else { of_pipe(pid, &target)? });
    }
    if target.starts_with(b"anon_inode:") {
        let own = [&b"[eventfd]"[..], b"[signalfd]", b"[eventpoll]", b"[io_uring]", b"[timerfd]"];
        return Ok(if own.iter().any(|name| target.ends_with(name)) { Kind::Own } else { Kind::Other });
    }
    if !target.starts_with(b"/") {
        return Ok(Kind::Other);
    }
    // A file system that does not respond must not hold this process up.
    let flags = AtFlags::STATX_DONT_SYNC;
    let found = statx(CWD, &path, flags, StatxFlags::TYPE)?;
    let device = (found.stx_rdev_major, found.stx_rdev_minor);
    let is_terminal = FileType::from_raw_mode(found.stx_mode.into()) == FileType::CharacterDevice
        && (device == OWN_TERMINAL || device == stat.terminal_device());
    Ok(if is_terminal && is_in_front { Kind::Input(Source::Terminal) } else { Kind::Other })
}

/// A pipe with both ends in one process wakes that process.
fn of_pipe(pid: Pid, pipe: &[u8]) -> io::Result<Kind> {
    let mut ends = 0;
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.take(MAX_THREADS) {
        let target = entry.and_then(|entry| fs::read_link(entry.path()));
        ends += usize::from(target.is_ok_and(|target| target.into_os_string().into_vec() == pipe));
    }
    Ok(if ends > 1 { Kind::Own } else { Kind::Other })
}

/// The number in a name like `pipe:[7]`.
fn inode(target: &[u8], kind: &[u8]) -> Option<u64> {
    let number = target.strip_prefix(kind)?.strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// How often a thread has gone to sleep.
fn sleeps(pid: Pid, thread: i32) -> Option<u64> {
    let status = proc_table::read_file(format!("/proc/{pid}/task/{thread}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::os::fd::AsFd;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// A program whose standard input is a pipe.
    struct Program {
        child: Child,
        input: u64,
    }

    impl Program {
        fn run(program: &str, arguments: &[&str]) -> Self {
            let mut command = Command::new(program);
            let child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            let pipe = child.stdin.as_ref().unwrap();
            let input = rustix::fs::fstat(pipe.as_fd()).unwrap().st_ino;
            Self { child, input }
        }

        fn look(&self) -> Vec<Wait> {
            let pid = Pid::new(self.child.id() as i32).unwrap();
            let mut all = proc_table::descendants(&[pid], &HashSet::new()).unwrap();
            all.extend(Stat::read(pid));
            look(&all, Some(self.input)).unwrap()
        }

        /// Compares looks until they show something.
        fn waits_for(&self, wanted: impl Fn(&(State, &Wait)) -> bool) -> bool {
            (0..1000).any(|_| {
                let first = self.look();
                std::thread::sleep(Duration::from_millis(20));
                let second = self.look();
                compare(&first, &second).is_some_and(|found| wanted(&found))
            })
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let pid = Pid::new(self.child.id() as i32).unwrap();
            for stat in proc_table::descendants(&[pid], &HashSet::new()).unwrap() {
                let _ = crate::signal::send_to(stat.identity, libc::SIGKILL);
            }
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
    }

    const SELECT: &str = "import select, sys, socket
a, b = socket.socketpair()
select.select([sys.stdin, *([a] if sys.argv[1] == 'socket' else [])], [], [], 600 if sys.argv[1] == 'timed' else None)";

    #[test]
    fn programs_that_read_their_input_are_seen() {
        for (program, arguments, is_timed) in [
            ("cat", &[][..], false),
            ("bash", &["-c", "read -r line"], false),
            ("bash", &["-c", "(sleep 0; cat); true"], false),
            ("python3", &["-c", SELECT, "alone"], false),
            ("python3", &["-c", SELECT, "timed"], true),
            ("python3", &["-c", "import select; p = select.poll(); p.register(0, 1); p.poll()"], false),
            ("python3", &["-c", "import select; p = select.epoll(); p.register(0, 1); p.poll()"], false),
            ("node", &["-e", "process.stdin.on('data', () => {})"], false),
        ] {
            let running = Program::run(program, arguments);
            let is_seen = running.waits_for(|(state, wait)| {
                (*state, wait.source, wait.is_timed) == (State::Reading, Source::Pipe, is_timed)
            });
            assert!(is_seen, "{program} {arguments:?}: {:?}", running.look());
        }
    }

    #[test]
    fn a_program_that_waits_for_a_socket_too_is_listening() {
        let program = Program::run("python3", &["-c", SELECT, "socket"]);
        assert!(program.waits_for(|(state, _)| *state == State::Listening));
    }

    /// Like a set-user-ID program for a user without rights.
    const HIDDEN: &str =
        "script -qc 'exec python3 -c \"import ctypes; ctypes.CDLL(None).prctl(4, 0); input()\"' /dev/null";

    #[test]
    fn a_program_that_cannot_be_looked_at_is_hidden() {
        let program = Program::run("bash", &["-c", HIDDEN]);
        // The rights of a thread are its own.
        let look = std::thread::spawn(move || {
            let mut rights = rustix::thread::capabilities(None).unwrap();
            rights.effective.remove(rustix::thread::CapabilitySet::SYS_PTRACE);
            rustix::thread::set_capabilities(None, rights).unwrap();
            program.waits_for(|(state, wait)| (*state, &wait.program[..]) == (State::Hidden, "python3"))
        });
        assert!(look.join().unwrap());
    }

    #[test]
    fn programs_that_do_something_else_do_not_wait_for_input() {
        for (program, arguments) in [
            ("sleep", &["60"][..]),
            ("bash", &["-c", "sleep 60 | cat"]),
            ("bash", &["-c", "while :; do :; done"]),
            ("bash", &["-c", "exec < <(sleep 60); read -r line"]),
            ("python3", &["-c", "import signal; signal.pause()"]),
        ] {
            let running = Program::run(program, arguments);
            let pid = Pid::new(running.child.id() as i32).unwrap();
            // Until it runs the program that is meant.
            while Stat::read(pid).is_some_and(|stat| stat.cpu_ticks == 0 && stat.state == b'R') {}
            for _ in 0..10 {
                let first = running.look();
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(compare(&first, &running.look()), None, "{program} {arguments:?}");
            }
        }
    }
}
