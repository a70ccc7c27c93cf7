use super::*;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// The port of both sides, as QEMU and a device connect them.
fn port() -> (UnixStream, UnixStream) {
    let (machine, guest) = UnixStream::pair().unwrap();
    machine.set_nonblocking(true).unwrap();
    (machine, guest)
}

fn listen() -> (TcpListener, SocketAddrV4) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!("it is one of IPv4") };
    (listener, address)
}

fn machine(port: UnixStream, target: SocketAddrV4) -> JoinHandle<io::Result<()>> {
    spawn(move || carry(Side::Machine(target), port))
}

/// Both sides. Returns where programs of the guest connect to, and the server that they reach.
fn both() -> (SocketAddrV4, TcpListener) {
    let (server, target) = listen();
    let (listener, entry) = listen();
    let (ours, theirs) = port();
    theirs.set_nonblocking(true).unwrap();
    listener.set_nonblocking(true).unwrap();
    machine(ours, target);
    spawn(move || carry(Side::Guest(listener), theirs));
    (entry, server)
}

fn pattern(start: usize, length: usize) -> Vec<u8> {
    (start..start + length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn read_all(mut socket: &TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map(|_| bytes)
}

#[test]
fn large_transfers_arrive_intact_both_ways_at_once() {
    const LENGTH: usize = 20_000_000;
    let (entry, server) = both();
    let exchange = |socket: TcpStream, own: usize, other: usize| {
        let mut writer = socket.try_clone().unwrap();
        let writing = spawn(move || {
            writer.write_all(&pattern(own, LENGTH)).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        assert!(read_all(&socket).unwrap() == pattern(other, LENGTH));
        writing.join().unwrap();
    };
    let serving = spawn(move || exchange(server.accept().unwrap().0, 7, 100));
    exchange(TcpStream::connect(entry).unwrap(), 100, 7);
    serving.join().unwrap();
}

#[test]
fn a_program_that_has_sent_its_end_still_gets_the_answer() {
    let (entry, server) = both();
    let mut client = TcpStream::connect(entry).unwrap();
    client.write_all(b"request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut other = server.accept().unwrap().0;
    assert_eq!(read_all(&other).unwrap(), b"request");
    other.write_all(b"answer").unwrap();
    drop(other);
    assert_eq!(read_all(&client).unwrap(), b"answer");
}

#[test]
fn a_program_that_reads_nothing_delays_no_other() {
    let (entry, server) = both();
    let mut frozen = TcpStream::connect(entry).unwrap();
    frozen.write_all(b"x").unwrap();
    let mut sender = server.accept().unwrap().0;
    sender.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    // Until nothing on the way takes more.
    while sender.write(&[0; 65536]).is_ok() {}
    for round in 0..20 {
        let mut client = TcpStream::connect(entry).unwrap();
        client.write_all(&[round; 100_000]).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&server.accept().unwrap().0).unwrap(), [round; 100_000]);
    }
}

#[test]
fn more_connections_than_numbers_wait_for_their_turn() {
    const COUNT: usize = MOST_STREAMS + 50;
    let (entry, server) = both();
    let echo = spawn(move || {
        for _ in 0..COUNT {
            let (mut socket, _) = server.accept().unwrap();
            spawn(move || {
                let bytes = read_all(&socket).unwrap();
                socket.write_all(&bytes).unwrap();
            });
        }
    });
    let mut clients: Vec<TcpStream> = (0..COUNT).map(|_| TcpStream::connect(entry).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(&pattern(number, 5000)).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    for (number, client) in clients.iter().enumerate() {
        assert!(read_all(client).unwrap() == pattern(number, 5000), "{number}");
    }
    echo.join().unwrap();
}

#[test]
fn resets_pass_both_ways_and_free_the_number() {
    let (entry, server) = both();
    let reset = |socket: TcpStream| {
        setsockopt(&socket, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    };
    for round in 0..2 * MOST_STREAMS {
        let mut client = TcpStream::connect(entry).unwrap();
        client.write_all(b"x").unwrap();
        let mut other = server.accept().unwrap().0;
        other.read_exact(&mut [0]).unwrap();
        let (first, second) = if round % 2 == 0 { (client, other) } else { (other, client) };
        reset(first);
        assert_eq!(read_all(&second).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_server_that_is_missing_resets_the_connection() {
    let (entry, server) = both();
    drop(server);
    for _ in 0..2 * MOST_STREAMS {
        let client = TcpStream::connect(entry).unwrap();
        assert_eq!(read_all(&client).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_guest_that_breaks_a_rule_loses_its_network() {
    let frame = |kind: u8, number: u8, length: u16, data: usize| {
        let [high, low] = length.to_be_bytes();
        [&[kind, number, high, low][..], &vec![0; data]].concat()
    };
    let open = frame(OPEN, 0, 0, 0);
    let most = frame(DATA, 0, MOST_DATA as u16, MOST_DATA);
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("no known kind", vec![open.clone(), frame(0, 0, 0, 0)]),
        ("no known kind", vec![open.clone(), frame(255, 0, 9, 0)]),
        ("for no connection", vec![b"GET / HTTP/1.1\r\n\r\n".to_vec()]),
        ("for no connection", vec![frame(DATA, 9, 1, 1)]),
        ("for no connection", vec![frame(CLOSE, 9, 0, 0)]),
        ("cannot be opened", vec![open.clone(), open.clone()]),
        ("too long", vec![open.clone(), frame(DATA, 0, MOST_DATA as u16 + 1, 0)]),
        ("too much data", [vec![open.clone()], vec![most; 2000]].concat()),
        ("too much data", vec![open.clone(), frame(END, 0, 0, 0), frame(DATA, 0, 1, 1)]),
        ("too much credit", vec![open.clone(), frame(CREDIT, 0, 1, 0)]),
        ("ends twice", vec![open.clone(), frame(END, 0, 0, 0), frame(END, 0, 0, 0)]),
    ];
    for (rule, frames) in cases {
        // It reads nothing.
        let (_server, target) = listen();
        let (ours, mut theirs) = port();
        let carrying = machine(ours, target);
        // The last of them may find no reader.
        let _ = theirs.write_all(&frames.concat());
        let error = carrying.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains(rule), "{error} is not: {rule}");
    }
}

#[test]
fn a_guest_that_opens_without_end_and_reads_nothing_is_not_read() {
    const FLOOD: usize = 100_000_000;
    let (_server, target) = listen();
    let (ours, mut theirs) = port();
    let carrying = machine(ours, target);
    theirs.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let frames: Vec<u8> = [[OPEN, 0, 0, 0], [CLOSE, 0, 0, 0]].concat().into_iter().cycle().take(64 << 10).collect();
    let mut written = 0;
    while written < FLOOD {
        match theirs.write(&frames[written % 8..]) {
            Ok(length) => written += length,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(written < FLOOD / 10, "{written} bytes were taken, and their answers kept");
    drop(theirs);
    let _ = carrying.join().unwrap();
}
