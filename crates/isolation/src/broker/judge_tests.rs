use super::*;
use nacre_protocol::confinement::Filesystem;
use nacre_protocol::confinement::{KnownProgram, KnownPrograms, Namespaces};

fn confinement(network: Network, own: bool) -> Confinement {
    let namespaces = Namespaces { user: false, ipc: true, network: own, processes: false };
    Confinement {
        filesystem: Some(Filesystem {
            write: vec!["/w".into()],
            hide: vec!["/w/hidden".into()],
            ..Filesystem::default()
        }),
        network,
        namespaces: own.then_some(namespaces),
        restricts: true,
        brokered: true,
        redirects: own && network == Network::Proxy,
        proxy_port: Some(3128),
        ..Confinement::open(namespaces, "/w".into(), "/bin/bash".into())
    }
}

fn policy() -> Policy {
    Policy { channel_name: b"c".to_vec(), command_name: Some(b"k".to_vec()), supervisor: 1, user: None, reports: None }
}

fn unix(path: &[u8]) -> Address {
    Address::read(&[&(libc::AF_UNIX as u16).to_ne_bytes(), path].concat())
}

fn v4(address: [u8; 4], port: u16) -> Address {
    let parts = [&(libc::AF_INET as u16).to_ne_bytes()[..], &port.to_be_bytes(), &address, &[0; 8]];
    Address::read(&parts.concat())
}

fn v6(address: &str, port: u16) -> Address {
    let address: Ipv6Addr = address.parse().unwrap();
    let family = (libc::AF_INET6 as u16).to_ne_bytes();
    Address::read(&[&family[..], &port.to_be_bytes(), &[0; 4], &address.octets(), &[0; 4]].concat())
}

#[test]
fn an_address_is_read_to_its_end_and_no_further() {
    assert_eq!(unix(b"/run/docker.sock\0rest"), Address::Path("/run/docker.sock".into()));
    assert_eq!(unix(b"\0name"), Address::Abstract(b"name".to_vec()));
    assert_eq!(v4([127, 0, 0, 1], 80), Address::V4(Ipv4Addr::LOCALHOST, 80));
    assert_eq!(v6("::1", 80), Address::V6(Ipv6Addr::LOCALHOST, 80));
    for odd in [&b""[..], b"\x01", b"\x01\x00", b"\x01\x00\x00", b"\x02\x00\x00", b"\x0a\0\0\x50\0\0\0\0\0\0"] {
        assert_eq!(Address::read(odd), Address::Other, "{odd:?}");
    }
}

#[test]
fn a_unix_socket_is_looked_up_and_an_abstract_one_belongs_to_the_network() {
    let shared = confinement(Network::Open, false);
    let own = confinement(Network::Closed, true);
    assert_eq!(judge(unix(b"/x"), libc::AF_UNIX, &shared, &policy()), Verdict::LookUp("/x".into()));
    assert_eq!(judge(unix(b"\0c"), libc::AF_UNIX, &shared, &policy()), Verdict::Channel);
    for confinement in [&shared, &own] {
        assert_eq!(judge(unix(b"\0k"), libc::AF_UNIX, confinement, &policy()), Verdict::Command);
    }
    assert_eq!(judge(unix(b"\0d"), libc::AF_UNIX, &shared, &policy()), Verdict::Refuse);
    assert_eq!(judge(unix(b"\0d"), libc::AF_UNIX, &own, &policy()), Verdict::Connect);
}

#[test]
fn without_a_network_of_its_own_only_the_proxy_is_reached() {
    let shared = confinement(Network::Proxy, false);
    assert_eq!(judge(v4([127, 0, 0, 1], 3128), libc::AF_INET, &shared, &policy()), Verdict::Connect);
    for (address, port) in [([127, 0, 0, 1], 80), ([127, 0, 0, 2], 3128), ([1, 1, 1, 1], 3128)] {
        assert_eq!(judge(v4(address, port), libc::AF_INET, &shared, &policy()), Verdict::Refuse);
    }
    // Java's sockets are all of IPv6.
    for (address, verdict) in [
        ("::ffff:127.0.0.1", Verdict::Connect),
        ("::ffff:127.0.0.2", Verdict::Refuse),
        ("::ffff:1.1.1.1", Verdict::Refuse),
        ("::1", Verdict::Refuse),
        ("::127.0.0.1", Verdict::Refuse),
    ] {
        assert_eq!(judge(v6(address, 3128), libc::AF_INET6, &shared, &policy()), verdict, "{address}");
    }
    assert_eq!(judge(Address::Other, libc::AF_INET6, &shared, &policy()), Verdict::Refuse);
    let own = confinement(Network::Proxy, true);
    assert_eq!(judge(v4([127, 0, 0, 1], 80), libc::AF_INET, &own, &policy()), Verdict::Connect);
}

#[test]
fn in_a_network_of_its_own_all_but_the_loopback_interface_is_behind_the_proxy() {
    let own = confinement(Network::Proxy, true);
    for (address, domain, destination) in [
        (v4([198, 18, 0, 1], 443), libc::AF_INET, "198.18.0.1:443"),
        (v6("2001:db8::1", 80), libc::AF_INET6, "[2001:db8::1]:80"),
        (v6("::ffff:198.18.0.1", 80), libc::AF_INET6, "198.18.0.1:80"),
    ] {
        assert_eq!(address.internet(domain), Some(destination.parse().unwrap()));
        assert_eq!(judge(address, domain, &own, &policy()), Verdict::Redirect);
    }
    for local in ["::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"] {
        assert_eq!(judge(v6(local, 80), libc::AF_INET6, &own, &policy()), Verdict::Connect, "{local}");
    }
    for local in [[127, 0, 0, 9], [0, 0, 0, 0], [198, 18, 0, 0]] {
        assert_eq!(judge(v4(local, 80), libc::AF_INET, &own, &policy()), Verdict::Connect);
    }
    // The kernel refuses these, or disconnects the socket.
    assert_eq!(judge(v4([1, 1, 1, 1], 80), libc::AF_INET6, &own, &policy()), Verdict::Connect);
    assert_eq!(judge(Address::Other, libc::AF_INET, &own, &policy()), Verdict::Connect);
    let closed = confinement(Network::Closed, true);
    assert_eq!(judge(v4([1, 1, 1, 1], 80), libc::AF_INET, &closed, &policy()), Verdict::Connect);
    let direct = Confinement { redirects: false, ..own };
    assert_eq!(judge(v4([1, 1, 1, 1], 80), libc::AF_INET, &direct, &policy()), Verdict::Connect);
}

#[test]
fn nothing_connects_to_the_ports_of_programs() {
    let own = confinement(Network::Proxy, true);
    let known =
        KnownPrograms { programs: vec![KnownProgram { port: 3129, files: Vec::new() }], changeable: Vec::new() };
    let own = Confinement { programs: Some(known), ..own };
    for local in ["::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::ffff:198.18.0.0"] {
        assert_eq!(judge(v6(local, 3129), libc::AF_INET6, &own, &policy()), Verdict::Refuse, "{local}");
        assert_eq!(judge(v6(local, 3128), libc::AF_INET6, &own, &policy()), Verdict::Connect, "{local}");
    }
    for local in [[127, 0, 0, 1], [127, 0, 0, 9], [0, 0, 0, 0], [198, 18, 0, 0]] {
        assert_eq!(judge(v4(local, 3129), libc::AF_INET, &own, &policy()), Verdict::Refuse, "{local:?}");
    }
    // Another host's port is judged by the proxy.
    assert_eq!(judge(v4([192, 0, 2, 1], 3129), libc::AF_INET, &own, &policy()), Verdict::Redirect);
    let direct = Confinement { redirects: false, ..own };
    assert_eq!(judge(v4([127, 0, 0, 1], 3129), libc::AF_INET, &direct, &policy()), Verdict::Refuse);
}

#[test]
fn a_socket_is_the_sessions_own_where_only_the_session_writes() {
    let confinement = confinement(Network::Open, true);
    for (place, own) in [
        ("/w/a.sock", true),
        ("/tmp/a.sock", true),
        ("/dev/shm/a", true),
        ("/run/docker.sock", false),
        ("/w/hidden/a", false),
        ("/wide/a", false),
    ] {
        assert_eq!(is_own(Path::new(place), &confinement), own, "{place}");
    }
}

#[test]
fn what_is_bound_into_the_private_directory_is_not_the_sessions_own() {
    let mut confinement = confinement(Network::Open, true);
    confinement.cwd = "/tmp/project".into();
    assert!(!is_own(Path::new("/tmp/project/a.sock"), &confinement));
    confinement.filesystem.as_mut().unwrap().write.push("/tmp/project".into());
    assert!(is_own(Path::new("/tmp/project/a.sock"), &confinement));
    confinement.filesystem.as_mut().unwrap().protect.push("/tmp/project/b".into());
    assert!(!is_own(Path::new("/tmp/project/b/a.sock"), &confinement));
}

#[test]
fn what_a_mount_shows_is_the_sessions_own_unless_it_is_protected() {
    let mut confinement = confinement(Network::Open, true);
    let rules = confinement.filesystem.as_mut().unwrap();
    rules.mounts.push(Mount { source: "/srv/own".into(), target: "/home/user".into() });
    // The directory of all sources is hidden, and so is what the machine has at the target.
    rules.hide = vec!["/srv".into(), "/home/user/a".into()];
    rules.protect = vec!["/srv/own/kept".into()];
    for (place, own) in
        [("/home/user/a", true), ("/home/user/kept/a", false), ("/home/b", false), ("/srv/own/a", false)]
    {
        assert_eq!(is_own(Path::new(place), &confinement), own, "{place}");
    }
}
