//! Keeps the number of layers small: neighbours that no checkpoint separates are merged, in a thread of their own.
//!
//! The present mount goes on with the old layers. The next one takes what has been merged in their place.

use crate::history::History;
use crate::layers::{self, Number, Stack};
use crate::merge::merge;
use crate::overlay::Mounter;
use crate::store::Store;
use rustix::io::{Errno, Result};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// So many neighbours are worth merging. Until then, each keeps its own version of a file.
const WORTH: usize = 16;
/// A stack with more layers is merged wherever that is possible.
const MANY: usize = 60;
/// A layer with more entries is merged only if there are many layers: it takes some time.
const LARGE: u64 = 10_000;
/// Between two looks at a thread that is waited for.
const PAUSE: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Default)]
pub struct Merging {
    running: Option<Running>,
    merged: Option<Merged>,
    /// Layers that cannot be merged.
    single: HashSet<Number>,
    /// Merged layers with many entries.
    large: HashSet<Number>,
}

struct Running {
    merged: Merged,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64>>,
}

/// A layer, and those that it takes the place of.
#[derive(Clone)]
struct Merged {
    layer: Number,
    of: Stack,
}

impl Merging {
    /// Puts what has been merged into a history that is about to be mounted.
    pub fn apply(&mut self, history: &mut History) {
        self.look();
        let Some(Merged { layer, of }) = &self.merged else { return };
        // Not if a stack has only some of the layers. A checkpoint that was made meanwhile has all of them.
        let place = |stack: &Stack| stack.windows(of.len()).position(|window| window == of);
        let has_any = |stack: &Stack| stack.iter().any(|layer| of.contains(layer));
        if history.stacks().any(|stack| has_any(stack) && place(stack).is_none()) {
            self.merged = None;
            return;
        }
        for stack in history.stacks_mut() {
            if let Some(at) = place(stack) {
                stack.splice(at..at + of.len(), [*layer]);
            }
        }
    }

    /// Forgets what has been merged: it is in the history, or is never to be.
    pub fn end(&mut self) {
        self.merged = None;
    }

    /// Begins to merge layers of the present stack if that is worth it.
    pub fn begin(&mut self, store: &Store, history: &History, mounter: Mounter) {
        self.look();
        if self.running.is_none() && self.merged.is_none() {
            // Their files are on other mounts, so they cannot get further names.
            self.single.extend(store.layers().shared());
            let plan = self.plan(history);
            // What fails is tried again with the next checkpoint.
            self.running = plan.and_then(|of| start(store, of, mounter).ok());
        }
    }

    /// Waits until layers have been merged. `interrupt` ends that.
    pub fn wait(&self, interrupt: &dyn Fn() -> Result<()>) {
        let is_running = || self.running.as_ref().is_some_and(|running| !running.thread.is_finished());
        while is_running() && interrupt().is_ok() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Stops, and forgets what has been merged: sealed layers are about to change.
    pub fn stop(&mut self) {
        if let Some(Running { stop, thread, .. }) = self.running.take() {
            stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
        self.merged = None;
    }

    /// The layer that is being filled, or is not in the history yet.
    pub fn layer(&self) -> Option<Number> {
        self.running.as_ref().map(|running| running.merged.layer).or(self.merged.as_ref().map(|merged| merged.layer))
    }

    /// Notes what has ended.
    fn look(&mut self) {
        let Some(Running { merged, thread, .. }) = self.running.take_if(|running| running.thread.is_finished()) else {
            return;
        };
        match thread.join() {
            Ok(Ok(entries)) => {
                if entries > LARGE {
                    self.large.insert(merged.layer);
                }
                self.merged = Some(merged);
            }
            Ok(Err(Errno::NOSPC | Errno::DQUOT)) => {}
            Ok(Err(_)) | Err(_) => self.single.extend(merged.of),
        }
    }

    /// The most neighbours of the present stack that are in the same checkpoints.
    fn plan(&self, history: &History) -> Option<Stack> {
        let (_, sealed) = history.stack.split_last()?;
        let is_many = history.stack.len() > MANY;
        let in_common = |other: &Stack| other.iter().zip(sealed).take_while(|(a, b)| a == b).count();
        let ends: HashSet<usize> = history.points.iter().map(|moment| in_common(&moment.stack)).collect();
        let mut runs = vec![Stack::new()];
        for (at, layer) in sealed.iter().enumerate() {
            let is_single = self.single.contains(layer) || (!is_many && self.large.contains(layer));
            if is_single || ends.contains(&at) {
                runs.push(Stack::new());
            }
            if let Some(run) = runs.last_mut().filter(|_| !is_single) {
                run.push(*layer);
            }
        }
        let least = if is_many { 2 } else { WORTH };
        runs.into_iter().filter(|run| run.len() >= least).max_by_key(Vec::len)
    }
}

fn start(store: &Store, of: Stack, mounter: Mounter) -> Result<Running> {
    let place = store.layers().place();
    let from = layers::trees(place, &of)?;
    let layer = store.layers().begin()?;
    let to = layers::tree(place, layer)?;
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = Arc::clone(&stop);
    let work = move || {
        let interrupt = || if is_stopped.load(Ordering::Relaxed) { Err(Errno::CANCELED) } else { Ok(()) };
        merge(&from, &to, mounter.marks(), &interrupt)
    };
    let thread = std::thread::Builder::new().name("merge".into()).spawn(work).map_err(|_| Errno::AGAIN)?;
    Ok(Running { merged: Merged { layer, of }, stop, thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::workspace::Point;

    fn history(stack: std::ops::RangeInclusive<Number>, points: &[&[Number]]) -> History {
        let mut history = History::new(stack.collect());
        for stack in points {
            let point = Point {
                number: 0,
                name: None,
                created_at: 0,
                sessions: Vec::new(),
                command: None,
                runs_in: Vec::new(),
            };
            history.add(point, stack.to_vec());
        }
        history
    }

    fn plan(merging: &Merging, history: &History) -> Option<(Number, Number)> {
        merging.plan(history).map(|run| (run[0], run[run.len() - 1]))
    }

    #[test]
    fn neighbours_between_checkpoints_are_merged_once_they_are_enough() {
        let merging = Merging::default();
        assert_eq!(plan(&merging, &history(1..=16, &[])), None);
        assert_eq!(plan(&merging, &history(1..=17, &[])), Some((1, 16)));
        // The checkpoint keeps 1 to 4; another has nothing of the present stack, and the third left it after 6.
        let points: &[&[Number]] = &[&[1, 2, 3, 4], &[90], &[1, 2, 3, 4, 5, 6, 91]];
        assert_eq!(plan(&merging, &history(1..=17, points)), None);
        assert_eq!(plan(&merging, &history(1..=23, points)), Some((7, 22)));
        // Of many, even two are worth it.
        let each: Vec<Vec<Number>> = (1..=60).filter(|at| *at != 30).map(|at| (1..=at).collect()).collect();
        let each: Vec<&[Number]> = each.iter().map(Vec::as_slice).collect();
        assert_eq!(plan(&merging, &history(1..=60, &each)), None);
        assert_eq!(plan(&merging, &history(1..=61, &each)), Some((30, 31)));
    }

    #[test]
    fn layers_that_cannot_be_merged_stay_and_large_ones_wait() {
        let merging = Merging { single: HashSet::from([20]), large: HashSet::from([1]), ..Merging::default() };
        assert_eq!(plan(&merging, &history(1..=18, &[])), Some((2, 17)));
        assert_eq!(plan(&merging, &history(1..=17, &[])), None);
        assert_eq!(plan(&merging, &history(1..=30, &[])), Some((2, 19)));
        assert_eq!(plan(&merging, &history(1..=61, &[])), Some((21, 60)));
        let merging = Merging { single: HashSet::from([50]), large: HashSet::from([1]), ..Merging::default() };
        assert_eq!(plan(&merging, &history(1..=61, &[])), Some((1, 49)));
    }

    #[test]
    fn every_stack_gets_the_merged_layer_or_none() {
        let merged = || Some(Merged { layer: 50, of: vec![3, 4, 5] });
        let mut merging = Merging { merged: merged(), ..Merging::default() };
        let mut whole = history(1..=8, &[&[1, 2], &[1, 2, 3, 4, 5, 6], &[9]]);
        merging.apply(&mut whole);
        let stacks: Vec<&Stack> = whole.stacks().collect();
        assert_eq!(stacks, [&vec![1, 2], &vec![1, 2, 50, 6], &vec![9], &vec![1, 2, 50, 6, 7, 8]]);
        assert_eq!(merging.layer(), Some(50));
        merging.end();
        assert_eq!(merging.layer(), None);
        let mut merging = Merging { merged: merged(), ..Merging::default() };
        let mut part = history(1..=8, &[&[1, 2, 3]]);
        let before = part.clone();
        merging.apply(&mut part);
        assert_eq!((part, merging.layer()), (before, None));
    }
}
