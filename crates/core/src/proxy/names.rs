//! The addresses that stand for names, for programs that ignore the proxy.

use nacre_protocol::redirect::{ADDRESSES, FIRST_ADDRESS};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum names of a session. The next name takes the place of the one that was used longest ago.
const MAX_NAMES: usize = 4096;

/// The names of a session with their addresses. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<String, Ipv4Addr>,
    names: HashMap<Ipv4Addr, Used>,
    /// How many addresses were given. An address is given again only after all others.
    given: u32,
    /// Counts uses.
    clock: u64,
}

#[derive(Debug)]
struct Used {
    name: String,
    at: u64,
}

impl Names {
    /// The address of a name, which it keeps while it is used.
    pub fn address_of(&self, name: &str) -> Ipv4Addr {
        let mut table = self.table();
        let address = match table.addresses.get(name) {
            Some(address) => *address,
            None => table.add(name),
        };
        table.touch(address);
        address
    }

    /// The name that an address stands for.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<String> {
        let mut table = self.table();
        table.touch(address);
        table.names.get(&address).map(|used| used.name.clone())
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn add(&mut self, name: &str) -> Ipv4Addr {
        if self.names.len() >= MAX_NAMES
            && let Some(oldest) = self.names.iter().min_by_key(|(_, used)| used.at).map(|(address, _)| *address)
            && let Some(dropped) = self.names.remove(&oldest)
        {
            self.addresses.remove(&dropped.name);
        }
        loop {
            // Not the first one, which looks like the name of the whole network.
            self.given = self.given % (ADDRESSES - 1) + 1;
            let address = Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + self.given);
            if !self.names.contains_key(&address) {
                self.names.insert(address, Used { name: name.to_string(), at: 0 });
                self.addresses.insert(name.to_string(), address);
                return address;
            }
        }
    }

    fn touch(&mut self, address: Ipv4Addr) {
        self.clock += 1;
        if let Some(used) = self.names.get_mut(&address) {
            used.at = self.clock;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::redirect::stands_for_name;

    #[test]
    fn a_name_keeps_its_address_while_it_is_used() {
        let names = Names::default();
        let kept = names.address_of("kept.org");
        let first = names.address_of("0.org");
        assert_eq!(kept, Ipv4Addr::new(198, 18, 0, 1));
        // The addresses end after a few more names, and are given anew.
        names.table().given = ADDRESSES - 9;
        for number in 0..2 * MAX_NAMES {
            let address = names.address_of(&format!("{number}.org"));
            assert!(stands_for_name(address.into()) && address != kept, "{address}");
            assert_eq!(names.name_of(kept).as_deref(), Some("kept.org"));
        }
        assert_eq!(names.address_of("kept.org"), kept);
        assert_ne!(names.name_of(first).as_deref(), Some("0.org"));
        assert_eq!(names.table().names.len(), MAX_NAMES);
        assert_eq!(names.table().addresses.len(), MAX_NAMES);
        assert_eq!(names.name_of(Ipv4Addr::LOCALHOST), None);
    }
}
