//! The addresses that stand for names, for programs that ignore the proxy.

use nacre_protocol::redirect::FIRST_ADDRESS;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum names of a session. Later names have no address: one that was given again would lead programs that remember it to
/// another host.
const MAX_NAMES: usize = 16_384;

/// The names of a session with their addresses. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    addresses: HashMap<String, Ipv4Addr>,
    /// In the order of their addresses.
    names: Vec<String>,
}

impl Names {
    /// The address of a name, which it keeps; `None` when there are too many names.
    pub fn address_of(&self, name: &str) -> Option<Ipv4Addr> {
        let mut table = self.table();
        if let Some(address) = table.addresses.get(name) {
            return Some(*address);
        }
        if table.names.len() == MAX_NAMES {
            return None;
        }
        table.names.push(name.to_string());
        // Not the first address, which looks like the name of the whole network.
        let number = u32::try_from(table.names.len()).ok()?;
        let address = Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + number);
        table.addresses.insert(name.to_string(), address);
        Some(address)
    }

    /// The name that an address stands for.
    pub fn name_of(&self, address: Ipv4Addr) -> Option<String> {
        let number = address.to_bits().checked_sub(FIRST_ADDRESS.to_bits())?.checked_sub(1)?;
        self.table().names.get(usize::try_from(number).ok()?).cloned()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_protocol::redirect::stands_for_name;

    #[test]
    fn a_name_keeps_its_address_and_no_address_has_two_names() {
        let names = Names::default();
        for number in 0..MAX_NAMES {
            let name = format!("{number}.org");
            let address = names.address_of(&name).unwrap();
            assert!(stands_for_name(address.into()), "{address}");
            assert_eq!(names.name_of(address), Some(name));
        }
        assert_eq!(names.address_of("another.org"), None);
        assert_eq!(names.address_of("0.org"), Some(Ipv4Addr::new(198, 18, 0, 1)));
        for other in [Ipv4Addr::LOCALHOST, FIRST_ADDRESS, Ipv4Addr::new(198, 19, 0, 0)] {
            assert_eq!(names.name_of(other), None);
        }
    }
}
