//! The addresses that stand for names, for programs that ignore the proxy.

use nacre_containment::lock::Lock;
use nacre_protocol::redirect::FIRST_ADDRESS;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a program may keep an answer, in seconds.
pub const TIME_TO_LIVE: u32 = 60;
/// Maximum names of a session at the same time.
const MAX_NAMES: usize = 16_384;
/// How long a name keeps its address after a program has looked it up: twice as long as the answer may be remembered.
const AFTER_LOOKUP: Duration = Duration::from_secs(2 * TIME_TO_LIVE as u64);
/// How long it keeps its address after a connection: some programs remember addresses, whatever the answer says. An address
/// that is given again leads them to another host.
const AFTER_CONNECTION: Duration = Duration::from_secs(3600);
/// Longer than any session.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The names of a session with their addresses. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<Lock<NameTable>>);

#[derive(Debug, Default)]
struct NameTable {
    /// Indexes of `kept`.
    indexes: HashMap<String, usize>,
    /// In the order of their addresses.
    kept: Vec<KeptName>,
    /// Before, no address is free.
    full_until: Option<Instant>,
}

#[derive(Debug)]
struct KeptName {
    name: String,
    until: Instant,
}

impl Names {
    /// The address of a name; `None` when there are too many names.
    pub fn address_of(&self, name: &str) -> Option<Ipv4Addr> {
        self.0.lock().address_of(name, Instant::now())
    }

    /// Gives a name an address for as long as the session lives.
    pub fn keep(&self, name: &str) {
        let mut table = self.0.lock();
        let now = Instant::now();
        table.address_of(name, now);
        if let Some(index) = table.indexes.get(name).copied() {
            table.kept[index].until = now + FOREVER;
        }
    }

    /// The name that an address stands for.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<String> {
        self.0.lock().name_of(address, Instant::now())
    }
}

impl NameTable {
    fn address_of(&mut self, name: &str, now: Instant) -> Option<Ipv4Addr> {
        if let Some(index) = self.indexes.get(name).copied() {
            let kept = self.kept.get_mut(index)?;
            kept.until = kept.until.max(now + AFTER_LOOKUP);
            return address(index);
        }
        let kept = KeptName { name: name.to_string(), until: now + AFTER_LOOKUP };
        let index = if self.kept.len() < MAX_NAMES {
            self.kept.push(kept);
            self.kept.len() - 1
        } else {
            let index = self.free(now)?;
            let old = std::mem::replace(&mut self.kept[index], kept);
            self.indexes.remove(&old.name);
            index
        };
        self.indexes.insert(name.to_string(), index);
        address(index)
    }

    fn name_of(&mut self, address: Ipv4Addr, now: Instant) -> Option<String> {
        let number = address.to_bits().checked_sub(FIRST_ADDRESS.to_bits())?.checked_sub(1)?;
        let kept = self.kept.get_mut(usize::try_from(number).ok()?)?;
        kept.until = kept.until.max(now + AFTER_CONNECTION);
        Some(kept.name.clone())
    }

    /// The address that may be given again for the longest time. Looks through all only when one may be free.
    fn free(&mut self, now: Instant) -> Option<usize> {
        if self.full_until.is_some_and(|until| now < until) {
            return None;
        }
        let (index, kept) = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.until)?;
        self.full_until = Some(kept.until);
        (kept.until <= now).then_some(index)
    }
}

/// Not the first address, which looks like the name of the whole network.
fn address(index: usize) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + u32::try_from(index).ok()? + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::redirect::stands_for_name;

    #[test]
    fn a_name_keeps_its_address_while_it_is_in_use_and_no_address_has_two_names() {
        let mut names = NameTable::default();
        let begin = Instant::now();
        for number in 0..MAX_NAMES {
            let name = format!("{number}.org");
            let address = names.address_of(&name, begin).unwrap();
            assert!(stands_for_name(address.into()), "{address}");
            assert_eq!(names.kept[number].name, name);
        }
        let first = Ipv4Addr::new(198, 18, 0, 1);
        for other in [Ipv4Addr::LOCALHOST, FIRST_ADDRESS, Ipv4Addr::new(198, 19, 0, 0)] {
            assert_eq!(names.name_of(other, begin), None);
        }
        assert_eq!(names.address_of("another.org", begin), None);
        assert_eq!(names.name_of(first, begin).as_deref(), Some("0.org"));
        let soon = begin + AFTER_LOOKUP / 2;
        assert_eq!(names.address_of("1.org", soon), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(names.address_of("another.org", soon), None);
        // What was looked up at first is free; what was looked up again, or connected to, is not.
        let later = begin + AFTER_LOOKUP;
        for number in 2..MAX_NAMES {
            let address = names.address_of(&format!("{number}.net"), later).unwrap();
            assert_eq!(names.name_of(address, begin), Some(format!("{number}.net")));
        }
        assert_eq!(names.address_of("another.org", later), None);
        assert_eq!(names.address_of("2.org", later), None);
        assert_eq!(names.address_of("0.org", later), Some(first));
        assert_eq!(names.address_of("another.org", soon + AFTER_LOOKUP), Some(Ipv4Addr::new(198, 18, 0, 2)));
        assert_eq!(names.address_of("0.org", begin + AFTER_CONNECTION * 2), Some(first));
        assert_eq!(names.indexes.len(), MAX_NAMES);
    }

    #[test]
    fn names_without_end_cost_no_look_at_all_of_them_each() {
        let mut names = NameTable::default();
        let begin = Instant::now();
        for number in 0..MAX_NAMES {
            names.address_of(&format!("{number}.org"), begin);
        }
        assert_eq!(names.address_of("another.org", begin), None);
        assert_eq!(names.full_until, Some(begin + AFTER_LOOKUP));
    }
}
