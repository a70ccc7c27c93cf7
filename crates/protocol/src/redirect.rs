//! A connection of a program that ignores its session's proxy, which the broker redirects to the proxy.
//!
//! The broker connects the program's socket to the proxy, and sends a [`Redirect`] before the program can send. The proxy
//! answers with one byte, which the broker takes from the socket: 0, or the errno that connect(2) gives the program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first byte of a redirect. Requests of HTTP and SOCKS begin with other bytes.
pub const MARK: u8 = 1;
/// The length of a redirect.
pub const BYTES: usize = 20;

/// The addresses that the resolver of a session gives to names: a range for benchmarks, which no network routes (RFC
/// 2544).
pub const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// The number of these addresses.
pub const ADDRESSES: u32 = 1 << 17;

/// True for an address that the resolver of a session may have given to a name.
pub fn stands_for_name(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if v4.to_bits().wrapping_sub(FIRST_ADDRESS.to_bits()) < ADDRESSES)
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Where the program wanted to connect to.
    pub destination: SocketAddr,
    /// Whether the program waits for its connection. Otherwise the proxy answers before it connects.
    pub waits: bool,
}

impl Redirect {
    /// The bytes of a redirect: the mark, whether the program waits, the address as IPv6, the port.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let address = match self.destination.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        (bytes[0], bytes[1]) = (MARK, self.waits.into());
        bytes[2..18].copy_from_slice(&address.octets());
        bytes[18..].copy_from_slice(&self.destination.port().to_be_bytes());
        bytes
    }

    /// Reads a redirect; `None` without its mark. An IPv4 address is one again.
    pub fn decode([mark, waits, rest @ ..]: [u8; BYTES]) -> Option<Self> {
        let (address, port) = rest.split_first_chunk::<16>()?;
        let address = IpAddr::V6(Ipv6Addr::from(*address)).to_canonical();
        let destination = SocketAddr::new(address, u16::from_be_bytes(*port.first_chunk()?));
        (mark == MARK).then_some(Self { destination, waits: waits != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_survives_its_encoding() {
        for destination in ["198.18.0.1:443", "[2001:db8::1]:80", "0.0.0.0:0"] {
            for waits in [false, true] {
                let redirect = Redirect { destination: destination.parse().unwrap(), waits };
                assert_eq!(Redirect::decode(redirect.encode()), Some(redirect));
            }
        }
        assert_eq!(Redirect::decode([b'G'; BYTES]), None);
    }

    #[test]
    fn the_range_of_names_ends_where_it_is_reserved() {
        for yes in ["198.18.0.0", "198.18.0.1", "198.19.255.255"] {
            assert!(stands_for_name(yes.parse().unwrap()), "{yes}");
        }
        for no in ["198.17.255.255", "198.20.0.0", "0.0.0.0", "::ffff:198.18.0.1", "::1"] {
            assert!(!stands_for_name(no.parse().unwrap()), "{no}");
        }
    }
}
