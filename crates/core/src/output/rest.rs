//! Reads the rest of the output of a process that has ended.

use nacre_containment::rest::{RestWait, Writers};
use nacre_containment::tree::Tree;
use tokio::time::sleep_until;

/// The output of a process that has ended.
pub trait OutputSource: Send {
    /// Reads what is there. Returns false at the end of both streams.
    fn read_on(&mut self) -> bool;
    /// Whether a process may still write.
    fn is_open(&self) -> bool;
    /// Whether this is the inode of one of its pipes.
    fn is_own(&self, inode: u64) -> bool;
    /// The bytes that were read.
    fn total(&self) -> u64;
    /// Waits for output and reads it. Cancel-safe.
    fn step(&mut self) -> impl Future<Output = ()> + Send;
}

/// Reads the rest of the output of a process that has ended.
pub async fn read_rest(tree: Option<Tree>, output: &mut impl OutputSource) {
    if let (true, Some(tree)) = (output.read_on(), tree) {
        await_writers(&tree, output).await;
        // A process that no look has found can have written after the last read, and ended before the look.
        output.read_on();
    }
}

async fn await_writers(tree: &Tree, output: &mut impl OutputSource) {
    let look = |is_own: &dyn Fn(u64) -> bool| Writers::look(|| tree.members(), |_, _| true, is_own);
    let Some(writers) = look(&|inode| output.is_own(inode)) else { return };
    let mut wait = RestWait::begin(output.total(), writers);
    let mut next = wait.next().into();
    while output.is_open() {
        tokio::select! {
            () = output.step() => {}
            () = sleep_until(next) => {
                let found = look(&|inode| output.is_own(inode));
                if !wait.goes_on(output.total(), found) {
                    return;
                }
                next = wait.next().into();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_containment::pid::Pid;
    use nacre_containment::proc_table::Stat;
    use std::io::{self, Read, Write};

    /// A pipe, into which a process writes and ends once it has been read.
    struct Late {
        pipe: io::PipeReader,
        writer: Option<io::PipeWriter>,
        read: String,
    }

    impl OutputSource for Late {
        fn read_on(&mut self) -> bool {
            match self.writer.take() {
                Some(mut writer) => writer.write_all(b"late\n").is_ok(),
                None => self.pipe.read_to_string(&mut self.read).is_err(),
            }
        }
        fn is_open(&self) -> bool {
            true
        }
        fn is_own(&self, _: u64) -> bool {
            false
        }
        fn total(&self) -> u64 {
            self.read.len() as u64
        }
        async fn step(&mut self) {}
    }

    #[tokio::test]
    async fn reads_what_a_process_wrote_that_ended_before_the_first_look() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let root = Stat::read(Pid::new(child.id() as i32).unwrap()).unwrap().identity;
        child.kill().unwrap();
        child.wait().unwrap();
        let tree = Tree { root, group: None, mark: String::new(), guardian: root.pid, spare: Vec::new() };
        let (pipe, writer) = io::pipe().unwrap();
        let mut output = Late { pipe, writer: Some(writer), read: String::new() };
        read_rest(Some(tree), &mut output).await;
        assert_eq!(output.read, "late\n");
    }
}
