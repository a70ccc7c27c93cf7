//! Lists of hosts and ports: those that programs may reach, and those that they may not.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The destination of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name in lower case without a final dot, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(formatter, "[{}]:{}", self.host, self.port)
        } else {
            write!(formatter, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// Creates a target if the host is plausible. Names contain only letters, digits, `.`, `-` and `_`, because a
    /// resolver could interpret other characters differently.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(Self { host: address.to_canonical().to_string(), port });
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let plausible = !host.is_empty() && host.len() <= 253 && host.bytes().all(is_name) && !is_number(&host);
        (plausible && port > 0).then_some(Self { host, port })
    }

    /// Parses `host:port`; a missing port becomes the scheme's.
    pub fn parse(authority: &str, default_port: Option<u16>) -> Option<Self> {
        let after_host = if authority.starts_with('[') { authority.rfind(']')? + 1 } else { 0 };
        match authority[after_host..].rfind(':').map(|colon| colon + after_host) {
            Some(colon) => Self::new(&authority[..colon], authority[colon + 1..].parse().ok()?),
            None => Self::new(authority, default_port?),
        }
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// True for a spelling of this machine, its link or a metadata service.
    pub fn is_own(&self) -> bool {
        let is_local_name = || self.host == "localhost" || self.host.ends_with(".localhost");
        self.address().map_or_else(is_local_name, is_own)
    }
}

/// Whether a name looks like a number. Resolvers interpret `0x7f.1` and `2130706433` as addresses, so they are not
/// names.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x")
}

#[derive(Debug)]
struct Entry {
    host: String,
    /// `*.example.com`: `host` is `.example.com`.
    is_suffix: bool,
    /// `None` allows every port.
    port: Option<u16>,
}

/// See the module.
#[derive(Debug)]
pub struct HostList(Vec<Entry>);

impl HostList {
    /// Parses entries like `example.com:443`, `*.example.com:*` and `[::1]:80`. Ignores other entries, which admit
    /// nothing.
    pub fn new(entries: &[String]) -> Self {
        Self(entries.iter().filter_map(|entry| Entry::parse(entry)).collect())
    }

    /// The names among the entries, without those of wildcards.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let exact = self.0.iter().filter(|entry| !entry.is_suffix && entry.host.parse::<IpAddr>().is_err());
        exact.map(|entry| entry.host.as_str())
    }

    /// True if an entry covers the target.
    pub fn covers(&self, target: &Target) -> bool {
        self.matching(target).next().is_some()
    }

    /// True if an entry covers the target, or the address to which its packets go in the end.
    pub fn covers_way(&self, target: &Target) -> bool {
        let end = target.address().map(|address| Target { host: reached(address).to_string(), port: target.port });
        self.covers(target) || end.is_some_and(|end| self.covers(&end))
    }

    /// True if the name may resolve to this address. A program's author may control the addresses of a name. A name
    /// other than `localhost` therefore never resolves to this machine or its link, and a name under a wildcard never
    /// to a private network.
    pub fn admits_address(&self, target: &Target, address: IpAddr) -> bool {
        if target.address().is_some() || target.host == "localhost" {
            return true;
        }
        let is_exact = self.matching(target).any(|entry| !entry.is_suffix);
        !is_own(address) && (is_exact || !is_private(address))
    }

    fn matching<'a>(&'a self, target: &'a Target) -> impl Iterator<Item = &'a Entry> {
        self.0.iter().filter(|entry| entry.covers(target))
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = if port == "*" { None } else { Some(port.parse().ok()?) };
        if let Some(suffix) = host.strip_prefix('*') {
            return Some(Self { host: suffix.to_ascii_lowercase(), is_suffix: true, port });
        }
        Some(Self { host: Target::new(host, 1)?.host, is_suffix: false, port })
    }

    fn covers(&self, target: &Target) -> bool {
        let host = if self.is_suffix {
            target.address().is_none() && target.host.ends_with(&self.host) && target.host.len() > self.host.len()
        } else {
            target.host == self.host
        };
        host && self.port.is_none_or(|port| port == target.port)
    }
}

/// The addresses of the metadata services of clouds that are not of the link: Azure, Alibaba, Oracle; AWS and Google by IPv6.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The address to which packets go in the end: some addresses of IPv6 contain one of IPv4, to which a gateway or the kernel
/// translates (RFC 4291, section 2.5.5; RFC 6052, section 2.1; RFC 3056, section 2).
fn reached(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    let IpAddr::V6(v6) = address else { return address };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..]
        | [0, 0, 0, 0, 0, 0, high @ 1..=0xffff, low] => {
            Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
        }
        _ => address,
    }
}

/// True for this machine, its link, or no host at all.
fn is_own(address: IpAddr) -> bool {
    let address = reached(address);
    let is_special = match address {
        IpAddr::V4(v4) => {
            v4.is_loopback() || v4.is_link_local() || v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local(),
    };
    is_special || METADATA.contains(&address)
}

/// True for an address of a private network, also of a provider, a gateway or a test (RFC 6890).
fn is_private(address: IpAddr) -> bool {
    match reached(address) {
        IpAddr::V4(v4) => {
            v4.is_private()
                || matches!(v4.octets(), [100, 64..=127, ..] | [0 | 240.., ..] | [192, 0, 0, _] | [198, 18..=19, ..])
        }
        IpAddr::V6(v6) => {
            v6.is_unique_local() || matches!(v6.segments(), [0xfec0..=0xfeff, ..] | [0x64, 0xff9b, 1, ..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> HostList {
        HostList::new(&entries.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    fn target(text: &str) -> Target {
        Target::parse(text, None).unwrap_or_else(|| panic!("{text} is no target"))
    }

    #[test]
    fn an_entry_covers_its_host_and_port_only() {
        let allowed = list(&["example.com:443", "*.github.com:443", "127.0.0.1:5432", "[::1]:*", "Upper.Case:80"]);
        for yes in [
            "example.com:443",
            "EXAMPLE.com.:443",
            "api.github.com:443",
            "a.b.github.com:443",
            "127.0.0.1:5432",
            "[::1]:9",
            "[0:0::1]:80",
            "upper.case:80",
        ] {
            assert!(allowed.covers(&target(yes)), "{yes}");
        }
        for no in [
            "example.com:80",
            "github.com:443",
            "evilgithub.com:443",
            "example.com.evil:443",
            "127.0.0.2:5432",
            "127.0.0.1:80",
            "[::2]:9",
        ] {
            assert!(!allowed.covers(&target(no)), "{no}");
        }
    }

    #[test]
    fn an_address_is_covered_by_each_way_to_it() {
        let denied = list(&["10.0.0.5:*", "example.com:443"]);
        for yes in ["10.0.0.5:1", "[::ffff:10.0.0.5]:1", "[64:ff9b::a00:5]:1", "[2002:a00:5::]:1", "example.com:443"] {
            assert!(denied.covers_way(&target(yes)), "{yes}");
        }
        for no in ["10.0.0.6:1", "[64:ff9b::a00:6]:1", "example.com:80"] {
            assert!(!denied.covers_way(&target(no)), "{no}");
        }
    }

    #[test]
    fn nothing_is_asked_for_this_machine_its_link_and_metadata() {
        for own in ["localhost:1", "a.localhost:1", "127.0.0.2:1", "[::1]:1", "169.254.169.254:80", "[fd20:ce::254]:80"]
        {
            assert!(target(own).is_own(), "{own}");
        }
        for other in ["localhost.org:1", "10.0.0.1:1", "[fd20:ce::1]:80"] {
            assert!(!target(other).is_own(), "{other}");
        }
    }

    #[test]
    fn odd_spellings_are_no_targets() {
        for text in [
            "",
            ":80",
            "a b:80",
            "2130706433:80",
            "0x7f.0x1:80",
            "127.1:80",
            "a:0",
            "a:65536",
            "a:",
            "a@b:80",
            "exa\u{e9}.com:80",
            "[::1:80",
        ] {
            assert_eq!(Target::parse(text, None), None, "{text}");
        }
        assert_eq!(target("[::ffff:127.0.0.1]:80").host, "127.0.0.1");
    }

    #[test]
    fn a_name_does_not_lead_to_this_machine() {
        let allowed = list(&["exact.org:80", "*.wild.org:80", "localhost:80", "127.0.0.1:80"]);
        let leads = |name: &str, address: &str| allowed.admits_address(&target(name), address.parse().unwrap());
        assert!(leads("exact.org:80", "93.184.216.34") && leads("exact.org:80", "10.0.0.1"));
        assert!(leads("localhost:80", "127.0.0.1") && leads("127.0.0.1:80", "127.0.0.1"));
        for address in [
            "127.0.0.1",
            "169.254.169.254",
            "168.63.129.16",
            "::1",
            "fe80::1",
            "fd00:ec2::254",
            "0.0.0.0",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::169.254.169.254",
            "2002:7f00:1::",
        ] {
            assert!(!leads("exact.org:80", address), "{address}");
        }
        for address in [
            "10.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "198.18.0.1",
            "240.0.0.1",
            "fd00::1",
            "fec0::1",
            "64:ff9b::10.0.0.1",
            "2002:a00:1::",
        ] {
            assert!(!leads("a.wild.org:80", address), "{address}");
        }
    }
}
