//! Reads the rest of the output of a process that has ended.

use nacre_containment::rest::{Wait, Writers};
use nacre_containment::tree::Tree;
use tokio::time::sleep_until;

/// The output of a process that has ended.
pub trait Source: Send {
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
pub async fn read_rest(tree: Option<Tree>, output: &mut impl Source) {
    let (is_open, Some(tree)) = (output.read_on(), tree) else { return };
    let look = |is_own: &dyn Fn(u64) -> bool| Writers::look(|| tree.members(), |_, _| true, is_own);
    if !is_open {
        return;
    }
    let Some(writers) = look(&|inode| output.is_own(inode)) else { return };
    let mut wait = Wait::begin(output.total(), writers);
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
