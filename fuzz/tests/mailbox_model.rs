//! Explores the schedules of callers, a session and a dying shell at the session's mailbox.
//!
//! The mailbox is the real one, with the locks of loom. The session is a small one, but it lends, waits and takes back
//! in the order of the real one. With one call of each caller, all schedules are explored; with two, all schedules that
//! interrupt a running thread at most two or three times.

#[path = "../../crates/core/src/session/mailbox.rs"]
mod mailbox;

/// The lock of the mailbox.
mod sync {
    pub use loom::sync::{Mutex, MutexGuard};
}

use loom::sync::Mutex;
use loom::thread::{self, JoinHandle};
use mailbox::{Letter, Mailbox, TakenBack};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as Record};
use std::task::{Context, Poll, Wake, Waker};

/// The caller of a call, and its number among the calls of this caller.
type Id = (usize, usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Command,
    Other,
    /// Until the release that the same caller makes later, no command begins.
    Hold,
    Release,
}

#[derive(Debug)]
struct Call {
    id: Id,
    kind: Kind,
    is_sent: bool,
    /// How many calls each caller had made before this one began.
    made: [usize; 2],
}

/// A shell, which handles a command as soon as it is sent.
#[derive(Default)]
struct Shell(Mutex<Commands>);

#[derive(Default)]
struct Commands {
    /// Replies that the session has not read.
    replies: VecDeque<Id>,
    is_dead: bool,
    /// Sent to the dead shell.
    unread: Vec<Id>,
}

impl Shell {
    fn send(&self, id: Id) {
        let mut commands = self.0.lock().unwrap();
        if commands.is_dead { commands.unread.push(id) } else { commands.replies.push_back(id) }
    }
}

impl Letter for Call {
    type Loan = Arc<Shell>;

    fn send_with(&mut self, shell: Arc<Shell>) {
        if self.kind == Kind::Command {
            shell.send(self.id);
            self.is_sent = true;
        }
    }

    fn is_sent(&self) -> bool {
        self.is_sent
    }
}

/// What the callers record.
#[derive(Default)]
struct World {
    /// How many calls each caller has made.
    made: [AtomicUsize; 2],
    /// The calls that the closed mailbox returned.
    returned: Record<Vec<Call>>,
}

enum Happened {
    Reply(Id),
    Death,
    Call(Option<Call>),
}

/// The loop of a session.
struct Session {
    shell: Arc<Shell>,
    running: Option<Id>,
    /// Commands and holds.
    queue: VecDeque<(Kind, Id)>,
    /// A hold is in effect.
    is_held: bool,
    /// The commands in the order in which they ran.
    ran: Vec<Id>,
    received: Vec<Call>,
}

impl Session {
    /// Runs until every sender is dropped, or closes the mailbox after some calls. Returns the calls that it received.
    fn run(shell: Arc<Shell>, mut mailbox: Mailbox<Call>, model: &Model) -> Vec<Call> {
        let mut session = Self {
            shell,
            running: None,
            queue: VecDeque::new(),
            is_held: false,
            ran: Vec::new(),
            received: Vec::new(),
        };
        while session.received.len() < model.closes_after {
            if session.running.is_none() && session.queue.is_empty() && !session.is_held {
                mailbox.lend(|| Arc::clone(&session.shell));
            }
            let happened = session.wait(&mut mailbox, model.polls);
            match mailbox.take_back() {
                TakenBack::Loan(shell) => assert!(Arc::ptr_eq(&shell, &session.shell)),
                TakenBack::Sent(command) => session.take(command),
                TakenBack::Nothing => {}
            }
            match happened {
                Happened::Reply(id) => {
                    assert_eq!(session.running.take(), Some(id), "a reply before its command");
                    session.ran.push(id);
                }
                Happened::Death => session.restart(),
                Happened::Call(Some(call)) => session.take(call),
                Happened::Call(None) => break,
            }
            session.run_next();
        }
        for call in mailbox.close() {
            session.take(call);
        }
        let mut commands = session.received.iter().filter(|call| call.kind == Kind::Command).map(|call| call.id);
        assert!(session.ran.iter().all(|id| commands.next() == Some(*id)), "commands ran in another order");
        session.received
    }

    /// Waits for the shell and for a call, like the real session: the shell first.
    fn wait(&self, mailbox: &mut Mailbox<Call>, polls: bool) -> Happened {
        if polls && let Some(call) = mailbox.try_receive() {
            return Happened::Call(Some(call));
        }
        block_on(poll_fn(|context| {
            let mut commands = self.shell.0.lock().unwrap();
            if let Some(id) = commands.replies.pop_front() {
                return Poll::Ready(Happened::Reply(id));
            }
            if commands.is_dead {
                return Poll::Ready(Happened::Death);
            }
            drop(commands);
            pin!(mailbox.receive()).poll(context).map(Happened::Call)
        }))
    }

    fn take(&mut self, call: Call) {
        if call.is_sent {
            assert_eq!((self.running, self.queue.len()), (None, 0), "a sent command is not the next command");
            assert!(!self.is_held, "a command was sent during a hold");
            self.running = Some(call.id);
        } else {
            match call.kind {
                Kind::Command | Kind::Hold => self.queue.push_back((call.kind, call.id)),
                Kind::Release => self.release(call.id.0),
                Kind::Other => {}
            }
        }
        self.received.push(call);
        self.run_next();
    }

    fn run_next(&mut self) {
        if self.running.is_none() && !self.is_held {
            match self.queue.pop_front() {
                Some((Kind::Hold, _)) => self.is_held = true,
                next => self.running = next.map(|(_, id)| id),
            }
            self.running.iter().for_each(|id| self.shell.send(*id));
        }
    }

    /// Ends the hold of a caller, which waits or is in effect.
    fn release(&mut self, caller: usize) {
        let waiting = self.queue.iter().position(|(kind, id)| *kind == Kind::Hold && id.0 == caller);
        match waiting {
            Some(at) => drop(self.queue.remove(at)),
            None => self.is_held = false,
        }
    }

    /// Replaces the dead shell. A command that it did not read is sent again.
    fn restart(&mut self) {
        let dead = std::mem::take(&mut self.shell);
        let unread = std::mem::take(&mut dead.0.lock().unwrap().unread);
        assert_eq!(unread, Vec::from_iter(self.running), "the dead shell has a command that the session does not run");
        self.running.iter().for_each(|id| self.shell.send(*id));
    }
}

/// Wakes a thread that waits in [`block_on`].
#[derive(Default)]
struct Alarm(AtomicBool);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future. If it is not woken, this waits until loom stops the test.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        while !alarm.0.swap(false, Ordering::Relaxed) {
            thread::yield_now();
        }
    }
}

/// What is explored: two callers with their calls, and what ends the shell and the session.
struct Model {
    calls: [&'static [Kind]; 2],
    /// The shell dies at any time.
    dies: bool,
    /// The session polls for a call before it waits.
    polls: bool,
    /// The session closes its mailbox after so many calls.
    closes_after: usize,
    /// The second caller has only a weak sender.
    is_weak: bool,
    /// How often a schedule interrupts a thread that could continue; `None`: any number of times.
    preemptions: Option<usize>,
}

const COMMAND: Kind = Kind::Command;
const OTHER: Kind = Kind::Other;

const TWO_EACH: Model = Model {
    calls: [&[COMMAND, OTHER], &[OTHER, COMMAND]],
    dies: false,
    polls: false,
    closes_after: usize::MAX,
    is_weak: false,
    preemptions: Some(3),
};

/// Sends a call, or returns it.
type Send = Box<dyn Fn(Call) -> Result<(), Call> + std::marker::Send>;

/// Makes calls from a new thread.
fn caller(world: &Arc<World>, send: Send, caller: usize, calls: &'static [Kind]) -> JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        for (number, kind) in calls.iter().copied().enumerate() {
            let made = [0, 1].map(|caller| world.made[caller].load(Ordering::Relaxed));
            let call = Call { id: (caller, number), kind, is_sent: false, made };
            if let Err(call) = send(call) {
                world.returned.lock().unwrap().push(call);
            }
            world.made[caller].store(number + 1, Ordering::Relaxed);
        }
    })
}

impl Model {
    /// Explores the model. Some schedule must send a command with the loan.
    fn explore(self) {
        let sent = Arc::new(AtomicUsize::new(0));
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = self.preemptions;
        let all_sent = Arc::clone(&sent);
        builder.check(move || {
            all_sent.fetch_add(self.run(), Ordering::Relaxed);
        });
        assert!(sent.load(Ordering::Relaxed) > 0, "no caller has used the loan");
    }

    /// Runs one schedule. Returns how many commands were sent by their callers.
    fn run(&self) -> usize {
        let world = Arc::new(World::default());
        let shell = Arc::new(Shell::default());
        let (sender, mailbox) = mailbox::mailbox();
        let (second, weak) = (sender.clone(), sender.downgrade());
        let second: Send = if self.is_weak {
            drop(second);
            Box::new(move |call| match weak.upgrade() {
                Some(sender) => sender.send(call),
                None => Err(call),
            })
        } else {
            Box::new(move |call| second.send(call))
        };
        let first = Box::new(move |call| sender.send(call));
        let mut threads = vec![caller(&world, first, 0, self.calls[0]), caller(&world, second, 1, self.calls[1])];
        if self.dies {
            let shell = Arc::clone(&shell);
            threads.push(thread::spawn(move || shell.0.lock().unwrap().is_dead = true));
        }
        let received = Session::run(shell, mailbox, self);
        threads.into_iter().for_each(|thread| thread.join().unwrap());

        let returned = world.returned.lock().unwrap();
        let mut ids: Vec<Id> = received.iter().chain(returned.iter()).map(|call| call.id).collect();
        ids.sort_unstable();
        let made = (0..2).flat_map(|caller| (0..self.calls[caller].len()).map(move |number| (caller, number)));
        assert_eq!(ids, Vec::from_iter(made), "each call is received or returned, once");
        for (at, call) in received.iter().enumerate() {
            let mut earlier = received[at + 1..].iter().map(|later| later.id).filter(|id| id.1 < call.made[id.0]);
            assert_eq!(earlier.next(), None, "{:?} has overtaken an earlier call", call.id);
        }
        received.iter().filter(|call| call.is_sent).count()
    }
}

#[test]
fn calls_keep_their_order_in_every_schedule() {
    for calls in [[&[COMMAND], &[COMMAND]], [&[COMMAND], &[OTHER]]] {
        Model { calls: calls.map(<[Kind; 1]>::as_slice), preemptions: None, ..TWO_EACH }.explore();
    }
}

#[test]
fn two_calls_of_each_caller_keep_their_order() {
    Model { polls: true, ..TWO_EACH }.explore();
    Model { calls: [&[COMMAND, COMMAND], &[COMMAND, COMMAND]], ..TWO_EACH }.explore();
}

#[test]
fn no_command_is_sent_or_begins_during_a_hold() {
    Model { calls: [&[COMMAND, COMMAND], &[Kind::Hold, Kind::Release]], ..TWO_EACH }.explore();
    Model { calls: [&[COMMAND], &[Kind::Hold, Kind::Release]], polls: true, ..TWO_EACH }.explore();
}

#[test]
fn a_command_sent_to_a_dying_shell_runs_once_and_first() {
    Model { dies: true, preemptions: Some(2), ..TWO_EACH }.explore();
}

#[test]
fn a_closed_mailbox_returns_the_calls_that_it_does_not_deliver() {
    for closes_after in 1..4 {
        Model { closes_after, ..TWO_EACH }.explore();
    }
}

#[test]
fn a_session_with_only_weak_senders_ends() {
    Model { is_weak: true, ..TWO_EACH }.explore();
}
