//! Explores the schedules of callers, a session and a dying shell at the session's mailbox.
//!
//! The mailbox is the real one, with the locks of loom. The session is a small one, but it lends, waits and takes back
//! in the order of the real one. With one call of each caller, all schedules are explored, or those that interrupt a running
//! thread at most four times; with two, at most two or three times.

#[path = "../../crates/core/src/session/mailbox.rs"]
mod mailbox;

/// The lock of the mailbox.
mod sync {
    pub use loom::sync::{Mutex, MutexGuard};
}

use loom::sync::Mutex;
use loom::thread::{self, JoinHandle};
use mailbox::{CallerAnswer, Letter, Mailbox, NextMessage, TakenBack};
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

struct Call {
    id: Id,
    kind: Kind,
    /// Its caller waits for the answer.
    waits: bool,
    is_sent: bool,
    /// The shell that it was sent to, until its caller has looked for the answer.
    shell: Option<Arc<Shell>>,
    /// Its caller has seen a part of the answer.
    has_begun: bool,
    is_answered: bool,
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
    type Wait = ();
    type Answer = Id;

    fn send_with(&mut self, shell: Arc<Shell>) -> Option<()> {
        if self.kind != Kind::Command {
            return None;
        }
        shell.send(self.id);
        self.is_sent = true;
        self.shell = Some(shell);
        self.waits.then_some(())
    }

    fn wait((): ()) {
        thread::yield_now();
    }

    fn answer(&mut self) -> CallerAnswer<Self> {
        // The second caller's come in two parts.
        if self.id.0 == 1 && !std::mem::replace(&mut self.has_begun, true) {
            return CallerAnswer::Part(());
        }
        let shell = self.shell.take().unwrap();
        let reply = shell.0.lock().unwrap().replies.pop_front();
        let Some(id) = reply else { return CallerAnswer::Nothing };
        assert_eq!(id, self.id, "the answer to another command");
        self.is_answered = true;
        CallerAnswer::Whole(id, Some(shell))
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
    /// The shell has replied, or is dead.
    Shell,
    Call,
    /// The session has dozed.
    TimePassed,
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
        let mut has_answered = false;
        while session.received.len() < model.closes_after {
            let is_idle = session.running.is_none() && session.queue.is_empty() && !session.is_held;
            let dozes = is_idle && std::mem::take(&mut has_answered);
            if is_idle {
                mailbox.lend(dozes, || Arc::clone(&session.shell));
            }
            let happened = session.wait(&mut mailbox, dozes);
            loop {
                match block_on(mailbox.take_back()) {
                    TakenBack::Loan(shell) => assert!(Arc::ptr_eq(&shell, &session.shell)),
                    TakenBack::Sent(command) => {
                        has_answered |= command.is_answered;
                        session.take(command);
                    }
                    TakenBack::Nothing => break,
                }
            }
            match happened {
                Happened::Shell => session.look(),
                Happened::Call => match mailbox.next() {
                    NextMessage::Message(call) => session.take(call),
                    NextMessage::Nothing => {}
                    NextMessage::Abandoned => break,
                },
                Happened::TimePassed => {}
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
    /// With `dozes`, the shell does not wake it, and the time can be over at once.
    fn wait(&self, mailbox: &mut Mailbox<Call>, dozes: bool) -> Happened {
        block_on(poll_fn(|context| {
            let commands = self.shell.0.lock().unwrap();
            let has_news = !commands.replies.is_empty() || commands.is_dead;
            drop(commands);
            if has_news && !dozes {
                return Poll::Ready(Happened::Shell);
            }
            let call = pin!(mailbox.ready()).poll(context).map(|()| Happened::Call);
            if call.is_pending() && dozes { Poll::Ready(Happened::TimePassed) } else { call }
        }))
    }

    /// Looks for a reply, or the death, of the shell. A caller may have taken the reply that was there.
    fn look(&mut self) {
        let mut commands = self.shell.0.lock().unwrap();
        let (reply, is_dead) = (commands.replies.pop_front(), commands.is_dead);
        drop(commands);
        match reply {
            Some(id) => {
                assert_eq!(self.running.take(), Some(id), "a reply before its command");
                self.ran.push(id);
            }
            None if is_dead => self.restart(),
            None => {}
        }
    }

    fn take(&mut self, call: Call) {
        if call.is_sent {
            assert_eq!((self.running, self.queue.len()), (None, 0), "a sent command is not the next command");
            assert!(!self.is_held, "a command was sent during a hold");
            if call.is_answered {
                self.ran.push(call.id);
            } else {
                self.running = Some(call.id);
            }
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
    /// The callers wait for the answers to their commands.
    waits: bool,
    /// The session closes its mailbox after so many calls.
    closes_after: usize,
    /// Another sender stays, so nothing but a message wakes the session.
    stays: bool,
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
    waits: false,
    closes_after: usize::MAX,
    stays: false,
    is_weak: false,
    preemptions: Some(3),
};

/// Sends a call, or returns it.
type Send = Box<dyn Fn(Call) -> Result<Option<Id>, Call> + std::marker::Send>;

/// Makes calls from a new thread.
fn caller(world: &Arc<World>, send: Send, caller: usize, model: &Model) -> JoinHandle<()> {
    let (calls, waits) = (model.calls[caller], model.waits);
    let world = Arc::clone(world);
    thread::spawn(move || {
        for (number, kind) in calls.iter().copied().enumerate() {
            let made = [0, 1].map(|caller| world.made[caller].load(Ordering::Relaxed));
            let id = (caller, number);
            let call =
                Call { id, kind, waits, is_sent: false, shell: None, has_begun: false, is_answered: false, made };
            match send(call) {
                Ok(answer) => assert!(answer.is_none_or(|answer| answer == id)),
                Err(call) => world.returned.lock().unwrap().push(call),
            }
            world.made[caller].store(number + 1, Ordering::Relaxed);
        }
    })
}

impl Model {
    /// Explores the model. Some schedule must send a command with the loan, and get its answer at once if callers wait.
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

    /// Runs one schedule. Returns how many commands were sent by their callers, and answered if callers wait.
    fn run(&self) -> usize {
        let world = Arc::new(World::default());
        let shell = Arc::new(Shell::default());
        let (sender, mailbox) = mailbox::mailbox();
        let (second, weak) = (sender.clone(), sender.downgrade());
        let _stays = self.stays.then(|| sender.clone());
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
        let mut threads = vec![caller(&world, first, 0, self), caller(&world, second, 1, self)];
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
        received.iter().filter(|call| call.is_sent && (call.is_answered || !self.waits)).count()
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
    TWO_EACH.explore();
    Model { calls: [&[COMMAND, COMMAND], &[COMMAND, COMMAND]], ..TWO_EACH }.explore();
}

#[test]
fn callers_that_wait_get_their_own_answers() {
    for calls in [[&[COMMAND], &[COMMAND]], [&[COMMAND], &[OTHER]]] {
        let calls = calls.map(<[Kind; 1]>::as_slice);
        Model { calls, waits: true, preemptions: Some(4), ..TWO_EACH }.explore();
    }
    let two_each = Model { waits: true, preemptions: Some(2), ..TWO_EACH };
    Model { calls: [&[COMMAND, COMMAND], &[COMMAND]], ..two_each }.explore();
    Model { calls: [&[COMMAND, COMMAND], &[Kind::Hold, Kind::Release]], ..two_each }.explore();
}

#[test]
fn a_shell_that_dies_beside_callers_that_wait_runs_each_command_once() {
    Model { calls: [&[COMMAND, COMMAND], &[OTHER]], dies: true, waits: true, preemptions: Some(2), ..TWO_EACH }
        .explore();
    for closes_after in 1..4 {
        Model { closes_after, waits: true, preemptions: Some(2), ..TWO_EACH }.explore();
    }
    Model { is_weak: true, waits: true, preemptions: Some(2), ..TWO_EACH }.explore();
}

#[test]
fn a_session_whose_callers_have_their_answers_receives_every_call() {
    let two_each = Model { waits: true, stays: true, preemptions: Some(2), ..TWO_EACH };
    Model { calls: [&[COMMAND, COMMAND], &[COMMAND]], closes_after: 3, ..two_each }.explore();
    Model { calls: [&[COMMAND, OTHER], &[COMMAND]], closes_after: 3, ..two_each }.explore();
}

#[test]
fn no_command_is_sent_or_begins_during_a_hold() {
    Model { calls: [&[COMMAND, COMMAND], &[Kind::Hold, Kind::Release]], ..TWO_EACH }.explore();
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
