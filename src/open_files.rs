//! Objects that file calls have opened for JavaScript, by number, until JavaScript closes them.

use nacre_containment::lock::Lock;
use nacre_core::error::{Code, Error};
use nacre_core::files::{FileReader, Placed, Watcher, Writer};
use std::collections::HashMap;
use std::sync::Arc;

/// An open object.
#[derive(Clone)]
pub enum Open {
    /// A file open for reading.
    Reader(Arc<FileReader>),
    /// A file open for writing.
    Writer(Arc<Writer>),
    /// The rest of a list.
    List(Arc<Lock<std::vec::IntoIter<Placed>>>),
    /// A watch.
    Watcher(Arc<Watcher>),
}

/// See the module.
#[derive(Default)]
pub struct OpenFiles(Lock<(u32, HashMap<u32, Open>)>);

impl OpenFiles {
    /// Adds an object and returns its number.
    pub fn add(&self, open: Open) -> u32 {
        let mut all = self.0.lock();
        loop {
            all.0 = all.0.wrapping_add(1);
            let number = all.0;
            if let std::collections::hash_map::Entry::Vacant(place) = all.1.entry(number) {
                place.insert(open);
                return number;
            }
        }
    }

    /// Finds an open object.
    ///
    /// # Errors
    /// It has been closed.
    pub fn get(&self, number: u32) -> Result<Open, Error> {
        let found = self.0.lock().1.get(&number).cloned();
        found.ok_or_else(|| Error::new(Code::EngineError, "the file was closed"))
    }

    /// Closes an object. A write that was not committed is reverted once the calls that use it have ended.
    pub fn close(&self, number: u32) {
        let closed = self.0.lock().1.remove(&number);
        drop(closed);
    }

    /// Closes everything. Otherwise, a caller whose source stalls would keep its file open.
    pub fn close_all(&self) {
        let closed = std::mem::take(&mut self.0.lock().1);
        drop(closed);
    }
}
