//! Table tests of single transitions, and property tests against a world that answers actions in any order, and where
//! anything may die at any time.

use super::event::*;
use super::state::*;
use super::step::MAX_ATTEMPTS;
use super::transition::step;
use proptest::prelude::*;
use std::collections::HashMap;

fn run_all(mut state: State, events: impl IntoIterator<Item = Event>) -> (State, Vec<Action>) {
    let mut actions = Vec::new();
    for event in events {
        let (next, done) = step(state, event);
        (state, actions) = (next, done);
    }
    (state, actions)
}

fn idle() -> State {
    use Event::*;
    run_all(State::new(true), [Submit(1, Work::Open), Hello, SetUp]).0
}

fn running() -> State {
    run_all(idle(), [Event::Submit(2, Work::Command)]).0
}

const DONE: Event = Event::Done { ticket: 2, status: 3, exited: true, state_kept: false, forked: false };

fn ended(end: End, kill: Option<Kill>, restarted: bool) -> Action {
    Action::Answer(2, Answer::Ended { end, kill, restarted })
}

#[test]
fn the_first_call_starts_a_session() {
    let (state, actions) = step(State::new(true), Event::Submit(1, Work::Open));
    assert_eq!((state.shell, actions), (Shell::Starting, vec![Action::StartSession]));
    let (state, actions) = run_all(state, [Event::Hello, Event::SetUp]);
    assert_eq!((state.shell, actions), (Shell::Idle, vec![Action::Answer(1, Answer::Ready)]));
}

#[test]
fn a_command_runs_behind_a_fork_of_the_state_before_it() {
    let (state, actions) = step(idle(), Event::Submit(2, Work::Command));
    assert_eq!(actions, [Action::ForkStandby { command_follows: true }, Action::Run(2)]);
    let (state, actions) = run_all(state, [Event::StandbyForked, DONE]);
    assert_eq!(actions, [ended(End::Done { status: 3, exited: true }, None, false)]);
    assert!(!state.standby.fresh && state.standby.ready);
}

#[test]
fn a_command_that_kept_the_state_needs_no_new_standby() {
    let kept = Event::Done { ticket: 2, status: 0, exited: false, state_kept: true, forked: false };
    let (state, _) = run_all(running(), [Event::StandbyForked, kept]);
    let (_, actions) = step(state, Event::Submit(3, Work::Command));
    assert_eq!(actions, [Action::Run(3)]);
}

#[test]
fn processes_start_from_the_shell_when_it_is_idle_and_from_the_standby_beside_a_command() {
    let (_, actions) = step(idle(), Event::Submit(5, Work::Start));
    assert_eq!(actions, [Action::ForkProcess(5, Source::Shell)]);
    let (state, actions) = step(running(), Event::Submit(5, Work::Start));
    assert_eq!(actions, [], "the standby is still being forked");
    let (state, actions) = step(state, Event::StandbyForked);
    assert_eq!(actions, [Action::ForkProcess(5, Source::Standby)]);
    let (_, actions) = run_all(state, [Event::StandbyDied, Event::Submit(6, Work::Start)]);
    assert_eq!(actions, [Action::Answer(6, Answer::Refused(Refusal::StandbyDied))]);
}

#[test]
fn a_restart_is_reported_by_the_first_command_that_has_a_result() {
    let (state, _) = run_all(idle(), [Event::ShellDied { unread: false }, Event::Hello, Event::SetUp]);
    let kept = Event::Done { ticket: 5, status: 0, exited: false, state_kept: true, forked: false };
    let (state, _) = run_all(state, [Event::Submit(5, Work::SetEnv), kept]);
    let (state, _) = run_all(state, [Event::Submit(6, Work::Command), Event::Refused(6)]);
    let (state, actions) = run_all(state, [Event::Submit(2, Work::Command), DONE]);
    assert_eq!(actions, [ended(End::Done { status: 3, exited: true }, None, true)]);
    assert!(!state.restarted);
}

#[test]
fn a_process_without_a_standby_waits_for_the_end_of_a_command_that_is_ending() {
    let start = [Event::StandbyDied, Event::Submit(5, Work::Start)];
    let (state, actions) = run_all(running(), [Event::StandbyForked, Event::TimeUp(2), DONE].into_iter().chain(start));
    assert_eq!(actions, []);
    let (_, actions) = step(state, Event::TreeGone { ticket: 2, escalated: true });
    assert_eq!(actions.last(), Some(&Action::ForkProcess(5, Source::Shell)));
}

#[test]
fn processes_start_from_the_state_before_a_command_until_it_is_answered() {
    let (state, actions) =
        run_all(running(), [Event::StandbyForked, Event::TimeUp(2), DONE, Event::Submit(5, Work::Start)]);
    assert_eq!(actions.last(), Some(&Action::ForkProcess(5, Source::Standby)));
    let (state, _) = step(state, Event::TreeGone { ticket: 2, escalated: true });
    assert_eq!((state.shell, state.standby.fresh), (Shell::Idle, false));
}

#[test]
fn a_process_never_starts_from_a_state_that_is_out_of_date() {
    let (state, _) = run_all(running(), [Event::StandbyForked, DONE]);
    let (_, actions) = step(state.clone(), Event::Submit(5, Work::Start));
    assert_eq!(actions, [Action::ForkProcess(5, Source::Shell)]);
    let (state, _) = run_all(state, [Event::Submit(3, Work::Command), Event::ForkFailed { pauses: true }]);
    let (_, actions) = step(state, Event::Submit(5, Work::Start));
    assert_eq!(actions, [Action::Answer(5, Answer::Refused(Refusal::NoFork))]);
}

#[test]
fn a_standby_that_is_killed_at_once_does_not_stop_later_forks() {
    let (state, _) = run_all(running(), [Event::ForkFailed { pauses: false }]);
    let (state, actions) = step(state, Event::Submit(5, Work::Start));
    assert_eq!(actions, [Action::Answer(5, Answer::Refused(Refusal::StandbyDied))]);
    let (_, actions) = run_all(state, [DONE, Event::IdleForAWhile]);
    assert!(actions.contains(&Action::ForkStandby { command_follows: false }));
}

#[test]
fn the_standby_takes_over_from_a_dead_shell() {
    let (state, actions) = run_all(running(), [Event::StandbyForked, Event::ShellDied { unread: false }]);
    assert_eq!(actions, [ended(End::Died, None, true), Action::Promote]);
    let (state, actions) = step(state, Event::Promoted);
    assert_eq!(state.shell, Shell::Idle);
    assert_eq!(actions, [Action::ForkStandby { command_follows: false }, Action::Isolate]);
}

#[test]
fn the_state_is_lost_unless_a_standby_has_it() {
    let kept = Event::Done { ticket: 2, status: 0, exited: false, state_kept: true, forked: false };
    let (died, gone) = (Event::ShellDied { unread: false }, Event::SupervisorGone { unread: false, orderly: false });
    for (events, is_lost) in [
        (vec![Event::StandbyForked], false),
        (vec![Event::StandbyForked, kept], false),
        (vec![Event::StandbyForked, DONE], true),
        (vec![Event::StandbyForked, Event::StandbyDied], true),
        (vec![Event::ForkFailed { pauses: true }], true),
        (vec![], true),
        (vec![Event::StandbyForked, died], true),
    ] {
        for end in [died, gone] {
            let (_, actions) = run_all(running(), events.iter().copied().chain([end]));
            assert_eq!(actions.contains(&Action::LoseState), is_lost, "{events:?}, {end:?}");
        }
    }
    let (state, actions) = run_all(running(), [Event::ShellDied { unread: false }]);
    assert_eq!(actions, [Action::LoseState, ended(End::Died, None, true), Action::StartShell]);
    assert!(!state.restarted, "the result has reported it");
}

#[test]
fn the_standby_takes_over_from_a_shell_that_leaves_with_its_command() {
    let (state, actions) = run_all(running(), [Event::StandbyForked, Event::Detach(2)]);
    assert_eq!((actions, state.shell, state.restarted), (vec![Action::Detach(2)], Shell::Promoting, false));
    let (state, actions) = run_all(state, [Event::Submit(3, Work::Command), Event::Promoted, Event::Isolated]);
    assert_eq!((actions, state.running().map(|run| run.ticket)), (vec![Action::Run(3)], Some(3)));
}

#[test]
fn a_command_is_detached_only_while_it_runs_beside_a_standby_with_the_state_before_it() {
    let ready = run_all(running(), [Event::StandbyForked]).0;
    assert!(ready.can_detach(2) && !ready.can_detach(3));
    let cannot = [
        running(),
        run_all(running(), [Event::ForkFailed { pauses: true }]).0,
        run_all(ready.clone(), [Event::StandbyDied]).0,
        run_all(ready.clone(), [Event::TimeUp(2)]).0,
        run_all(ready.clone(), [DONE]).0,
        run_all(idle(), [Event::Submit(2, Work::SetEnv), Event::StandbyForked]).0,
    ];
    for state in cannot {
        let (after, actions) = step(state.clone(), Event::Detach(2));
        assert_eq!((after, actions), (state, vec![]));
    }
}

#[test]
fn a_command_that_the_dead_shell_never_took_is_sent_again() {
    let (state, actions) = run_all(running(), [Event::StandbyForked, Event::ShellDied { unread: true }]);
    assert_eq!(actions, [Action::Promote]);
    let (_, actions) = run_all(state, [Event::Promoted, Event::Isolated]);
    assert!(actions.contains(&Action::Run(2)));
}

#[test]
fn a_killed_command_is_answered_when_shell_and_tree_are_done() {
    let (state, actions) = step(running(), Event::TimeUp(2));
    assert_eq!(actions, [Action::Kill { cause: Cause::Timeout, signal: None }]);
    let (state, actions) = step(state, Event::Cancel(2, Some(libc::SIGKILL)));
    assert_eq!(actions, [Action::Insist], "the first cause stays");
    let (state, actions) = step(state, DONE);
    assert_eq!(actions, [Action::Settled]);
    let (state, actions) = step(state, Event::TreeGone { ticket: 2, escalated: true });
    let kill = Kill { cause: Cause::Timeout, tree_gone: true, escalated: true, shell_killed: false };
    assert_eq!(actions, [ended(End::Done { status: 3, exited: true }, Some(kill), false)]);
    assert_eq!(state.shell, Shell::Idle);
}

#[test]
fn what_a_dead_shell_leaves_of_a_killed_command_can_be_killed_at_once() {
    let events = [Event::Cancel(2, None), Event::ShellDied { unread: false }, Event::Cancel(2, Some(libc::SIGKILL))];
    let (state, actions) = run_all(running(), events);
    assert_eq!(actions, [Action::Insist]);
    let gone = Event::TreeGone { ticket: 2, escalated: true };
    let (_, actions) = run_all(state, [gone, Event::Cancel(2, Some(libc::SIGKILL))]);
    assert_eq!(actions, []);
}

#[test]
fn a_shell_that_does_not_answer_an_interrupt_is_killed_once() {
    let (state, _) = run_all(running(), [Event::StandbyForked, Event::TimeUp(2)]);
    let (state, actions) = step(state, Event::ShellOverdue(2));
    assert_eq!(actions, [Action::KillShell]);
    let (state, actions) = step(state, Event::ShellOverdue(2));
    assert_eq!(actions, []);
    let (_, actions) =
        run_all(state, [Event::ShellDied { unread: false }, Event::TreeGone { ticket: 2, escalated: true }]);
    assert!(matches!(actions[0], Action::Answer(2, Answer::Ended { end: End::Died, restarted: true, .. })));
}

#[test]
fn exit_ends_the_session_when_it_is_asked_to() {
    let start = run_all(State::new(false), [Event::Submit(1, Work::Open), Event::Hello, Event::SetUp]).0;
    let (state, actions) = run_all(start, [Event::Submit(2, Work::Command), DONE]);
    assert_eq!(actions, [ended(End::Done { status: 3, exited: true }, None, false), Action::KillShell]);
    let (_, actions) = step(state, Event::Submit(3, Work::Command));
    assert_eq!(actions, [Action::Answer(3, Answer::Refused(Refusal::Terminated(Some(3))))]);
}

#[test]
fn a_shell_that_dies_at_once_again_and_again_is_given_up() {
    let (mut state, mut actions) = step(State::new(true), Event::Submit(1, Work::Open));
    for _ in 0..MAX_ATTEMPTS {
        (state, actions) = run_all(state, [Event::Hello, Event::ShellDied { unread: false }]);
    }
    assert_eq!(state.shell, Shell::Absent);
    assert_eq!(actions, [Action::Answer(1, Answer::Refused(Refusal::NoShell))]);
}

#[test]
fn the_state_is_salvaged_from_a_dead_supervisor() {
    let gone = Event::SupervisorGone { unread: false, orderly: true };
    let (state, actions) = run_all(running(), [Event::StandbyForked, gone]);
    assert_eq!(actions, [Action::Salvage], "its processes are not dead yet");
    let (state, actions) = step(state, Event::Salvaged);
    assert_eq!(state.shell, Shell::Starting);
    assert_eq!(actions, [ended(End::SupervisorGone, None, false), Action::StartSession]);
    assert!(state.restarted);
}

#[test]
fn closing_answers_a_command_that_a_dead_supervisor_took_down() {
    let gone = Event::SupervisorGone { unread: false, orderly: true };
    let (state, actions) = run_all(running(), [gone, Event::Close]);
    assert_eq!((state.shell, actions), (Shell::Closing, vec![ended(End::Closed, None, false)]));
    assert_eq!(step(state, Event::Salvaged).1, [Action::Closed]);
}

#[test]
fn closing_answers_everything() {
    let (state, _) = run_all(running(), [Event::Submit(3, Work::Command), Event::Submit(4, Work::SetEnv)]);
    let (state, actions) = step(state, Event::Close);
    let refused = |ticket| Action::Answer(ticket, Answer::Refused(Refusal::Closed));
    assert_eq!(actions, [ended(End::Closed, None, false), Action::Shutdown, refused(3), refused(4)]);
    let (state, actions) = step(state, Event::SupervisorGone { unread: false, orderly: true });
    assert_eq!((state.shell, actions), (Shell::Closed, vec![Action::Closed]));
}

#[test]
fn what_a_supervisor_leaves_that_is_killed_at_the_end_is_removed() {
    let (state, _) = step(idle(), Event::Close);
    let (state, actions) = step(state, Event::SupervisorGone { unread: false, orderly: false });
    assert_eq!((state.shell, actions), (Shell::Closing, vec![Action::Sweep]));
    let (state, actions) = step(state, Event::Salvaged);
    assert_eq!((state.shell, actions), (Shell::Closed, vec![Action::Closed]));
}

#[test]
fn what_a_dead_supervisor_leaves_is_removed_without_a_shell_too() {
    let gone = Event::SupervisorGone { unread: false, orderly: false };
    let terminated = State { shell: Shell::Terminated(Some(0)), ..idle() };
    let (state, actions) = step(terminated, gone);
    assert_eq!((state.shell, actions), (Shell::Terminated(Some(0)), vec![Action::Sweep]));
    let (state, _) = step(State::new(true), Event::Submit(1, Work::Open));
    let (state, _) = step(State { attempts: 1, ..state }, gone);
    assert_eq!(state.shell, Shell::Absent);
}

const READY: Answer = Answer::Ready;

#[test]
fn a_hold_waits_its_turn_and_nothing_begins_until_it_is_released() {
    let (state, actions) = run_all(running(), [Event::StandbyForked, Event::Submit(3, Work::Hold)]);
    assert_eq!(actions, []);
    let (state, actions) = run_all(state, [Event::Submit(4, Work::Command), DONE]);
    assert_eq!(actions.last(), Some(&Action::Answer(3, READY)));
    assert_eq!((state.shell, state.held, state.is_ready()), (Shell::Idle, Some(3), false));
    for event in [Event::Submit(5, Work::Start), Event::Submit(6, Work::SetEnv), Event::IdleForAWhile] {
        assert_eq!(step(state.clone(), event).1, [], "{event:?}");
    }
    let (state, _) = step(state, Event::Submit(5, Work::Start));
    let (state, actions) = step(state, Event::Released(3));
    assert!(actions.contains(&Action::ForkProcess(5, Source::Shell)) && actions.contains(&Action::Run(4)));
    assert_eq!(state.held, None);
}

#[test]
fn a_hold_starts_no_shell_and_keeps_calls_from_starting_one() {
    let (state, actions) = step(State::new(true), Event::Submit(1, Work::Hold));
    assert_eq!((state.shell, actions), (Shell::Absent, vec![Action::Answer(1, READY)]));
    let (state, actions) = step(state, Event::Submit(2, Work::Command));
    assert_eq!((state.shell, actions), (Shell::Absent, vec![]));
    let (state, actions) = step(state, Event::Released(1));
    assert_eq!((state.shell, actions), (Shell::Starting, vec![Action::StartSession]));
}

#[test]
fn a_hold_waits_for_a_shell_that_is_starting_and_survives_its_failure() {
    let (state, actions) = run_all(State::new(true), [Event::Submit(1, Work::Open), Event::Submit(2, Work::Hold)]);
    assert_eq!(actions, []);
    let (_, actions) = run_all(state.clone(), [Event::Hello, Event::SetUp]);
    assert_eq!(actions, [Action::Answer(1, READY), Action::Answer(2, READY)]);
    let (state, actions) = step(state, Event::StartFailed);
    assert_eq!(actions, [Action::Answer(1, Answer::Refused(Refusal::NoShell)), Action::Answer(2, READY)]);
    assert_eq!((state.shell, state.held), (Shell::Absent, Some(2)));
}

#[test]
fn holds_take_effect_one_after_the_other() {
    let (state, actions) = run_all(idle(), [Event::Submit(2, Work::Hold), Event::Submit(3, Work::Hold)]);
    assert_eq!(actions, []);
    // Released before its turn.
    let (state, actions) = run_all(state, [Event::Submit(4, Work::Hold), Event::Released(3)]);
    assert_eq!(actions, [Action::Answer(3, Answer::Refused(Refusal::Cancelled))]);
    let (state, actions) = step(state, Event::Released(2));
    assert_eq!((state.held, actions), (Some(4), vec![Action::Answer(4, READY)]));
    let (state, actions) = step(state, Event::Released(2));
    assert_eq!((state.held, actions), (Some(4), vec![]));
}

#[test]
fn a_dead_shell_is_replaced_during_a_hold_and_runs_nothing() {
    let held = run_all(running(), [Event::StandbyForked, DONE, Event::Submit(3, Work::Hold)]).0;
    let held = step(held, Event::Submit(4, Work::Command)).0;
    let (state, actions) = step(held.clone(), Event::ShellDied { unread: false });
    assert_eq!(actions, [Action::LoseState, Action::Promote]);
    let (state, actions) = step(state, Event::Promoted);
    assert_eq!((state.shell, state.held, actions), (Shell::Idle, Some(3), vec![]));
    assert!(step(state, Event::Released(3)).1.contains(&Action::Isolate));
    let gone = Event::SupervisorGone { unread: false, orderly: false };
    let (state, actions) = run_all(held, [gone, Event::Salvaged]);
    assert_eq!((state.shell, actions), (Shell::Absent, vec![]));
    let (state, actions) = step(state, Event::Released(3));
    assert_eq!((state.restarted, actions), (true, vec![Action::StartSession]));
}

#[test]
fn a_hold_takes_effect_in_a_terminated_session_and_ends_when_it_is_closed() {
    let terminated = State { shell: Shell::Terminated(Some(0)), ..idle() };
    let (state, actions) = step(terminated, Event::Submit(2, Work::Hold));
    assert_eq!(actions, [Action::Answer(2, READY)]);
    let (state, _) = step(state, Event::Submit(3, Work::Hold));
    let (state, actions) = step(state, Event::Close);
    assert_eq!(actions, [Action::Shutdown, Action::Answer(3, Answer::Refused(Refusal::Closed))]);
    assert_eq!(step(state, Event::Released(2)).1, []);
}

/// Carries actions out as processes would: late, in any order, or never because they died.
struct World {
    state: State,
    /// Pending answers of shell and supervisor, valid as long as they are alive.
    answers: Vec<Event>,
    given: HashMap<Ticket, u32>,
    tickets: Ticket,
    /// The calls that wait for their turn, in order, without starts of processes.
    waiting: Vec<Ticket>,
    holds: Vec<Ticket>,
    /// The hold in effect.
    held: Option<Ticket>,
    shell_lives: bool,
    supervisor_lives: bool,
    calm: bool,
}

impl World {
    fn new(survives_exit: bool) -> Self {
        Self {
            state: State::new(survives_exit),
            answers: Vec::new(),
            given: HashMap::new(),
            tickets: 0,
            waiting: Vec::new(),
            holds: Vec::new(),
            held: None,
            shell_lives: false,
            supervisor_lives: false,
            calm: false,
        }
    }

    fn happen(&mut self, event: Event) {
        match &event {
            Event::ShellDied { .. } => {
                self.shell_lives = false;
                self.answers.retain(|answer| matches!(answer, Event::TreeGone { .. } | Event::SupervisorGone { .. }));
            }
            Event::SupervisorGone { .. } => {
                (self.shell_lives, self.supervisor_lives) = (false, false);
                self.answers.retain(|answer| *answer == Event::Salvaged);
            }
            _ => {}
        }
        let (state, actions) = step(std::mem::replace(&mut self.state, State::new(true)), event);
        self.state = state;
        actions.into_iter().for_each(|action| self.act(action));
    }

    /// A call begins or is answered. A refusal may come before its turn, and a command may begin again with the next
    /// shell.
    fn take_turn(&mut self, ticket: Ticket, is_in_order: bool) {
        let Some(at) = self.waiting.iter().position(|waiting| *waiting == ticket) else { return };
        assert!(!is_in_order || at == 0, "{ticket} has overtaken {:?}", self.waiting);
        self.waiting.remove(at);
    }

    fn act(&mut self, action: Action) {
        match &action {
            Action::Run(ticket) | Action::SetEnv(ticket) => {
                assert_eq!(self.held, None, "{ticket} began during a hold");
                self.take_turn(*ticket, true);
            }
            Action::ForkProcess(..) | Action::ForkStandby { .. } => assert_eq!(self.held, None, "{action:?}"),
            Action::Answer(ticket, answer) => {
                self.take_turn(*ticket, *answer == READY);
                if *answer == READY && self.holds.contains(ticket) {
                    assert_eq!(self.held.replace(*ticket), None);
                }
            }
            _ => {}
        }
        match action {
            Action::StartSession => {
                (self.supervisor_lives, self.shell_lives) = (true, true);
                // The session ignores reports about an earlier supervisor.
                self.answers.retain(|answer| *answer != Event::Salvaged);
                self.answers.push(Event::Hello);
            }
            Action::StartShell => {
                self.shell_lives = true;
                self.answers.push(Event::Hello);
            }
            Action::SetUp => self.answers.push(Event::SetUp),
            Action::Isolate => self.answers.push(Event::Isolated),
            Action::ForkStandby { .. } => self.answers.push(Event::StandbyForked),
            Action::ForkProcess(ticket, _) => *self.given.entry(ticket).or_default() += 1,
            Action::Run(ticket) | Action::SetEnv(ticket) => {
                self.answers.push(Event::Done { ticket, status: 0, exited: false, state_kept: false, forked: true });
            }
            Action::Promote => {
                self.shell_lives = true;
                self.answers.push(Event::Promoted);
            }
            Action::Detach(ticket) => {
                // Its shell and the report of its end belong to the process now, and so does the answer.
                self.answers.retain(|answer| !matches!(answer, Event::Done { .. }));
                *self.given.entry(ticket).or_default() += 1;
                self.answers.push(Event::Promoted);
            }
            Action::Kill { .. } => {
                let ticket = self.state.running().expect("a kill without a command").ticket;
                self.answers.push(Event::TreeGone { ticket, escalated: false });
            }
            Action::Defect(event, shell) => panic!("a defect: {event:?} in {shell:?}"),
            Action::KillShell if self.shell_lives => self.answers.push(Event::ShellDied { unread: false }),
            Action::Salvage | Action::Sweep => self.answers.push(Event::Salvaged),
            Action::Shutdown => self.answers.push(Event::SupervisorGone { unread: false, orderly: true }),
            Action::Answer(ticket, _) => *self.given.entry(ticket).or_default() += 1,
            Action::Insist
            | Action::Settled
            | Action::TrapRuns
            | Action::LoseState
            | Action::KillShell
            | Action::Closed => {}
        }
    }

    fn submit(&mut self, work: Work) {
        self.tickets += 1;
        if work != Work::Start {
            self.waiting.push(self.tickets);
        }
        if work == Work::Hold {
            self.holds.push(self.tickets);
        }
        self.happen(Event::Submit(self.tickets, work));
    }

    /// Makes one thing happen: an answer arrives, the caller acts, or a process dies.
    fn turn(&mut self, choice: u8, which: usize) {
        let ticket = 1 + which as Ticket % self.tickets.max(1);
        match choice {
            0..=9 if !self.answers.is_empty() => {
                let answer = self.answers.remove(which % self.answers.len());
                self.happen(answer);
            }
            10..=13 => self.submit([Work::Open, Work::Command, Work::SetEnv, Work::Start][which % 4]),
            14 => self.happen(Event::Cancel(ticket, (which.is_multiple_of(2)).then_some(libc::SIGKILL))),
            15 => self.happen(Event::TimeUp(ticket)),
            16 => self.happen(Event::ShellOverdue(ticket)),
            17 => self.happen(Event::IdleForAWhile),
            18 => self.happen(Event::ForkPauseOver),
            19 if self.shell_lives && !self.calm => self.happen(Event::ShellDied { unread: which.is_multiple_of(2) }),
            20 if self.state.standby.ready && !self.calm => self.happen(Event::StandbyDied),
            21 if self.supervisor_lives && !self.calm => {
                self.happen(Event::SupervisorGone { unread: which.is_multiple_of(2), orderly: false })
            }
            22 if self.answers.contains(&Event::StandbyForked) => {
                self.answers.retain(|answer| *answer != Event::StandbyForked);
                self.happen(Event::ForkFailed { pauses: which.is_multiple_of(2) });
            }
            23 if self.state.shell == Shell::Starting => {
                self.answers.clear();
                self.happen(Event::StartFailed);
            }
            24 => {
                if let Some(run) = self.state.running().filter(|run| run.end.is_none()) {
                    self.happen(Event::TrapRuns(run.ticket));
                }
            }
            25 | 26 => self.submit(Work::Hold),
            27..=30 => self.release(which),
            31 => self.happen(Event::Detach(ticket)),
            _ => {}
        }
    }

    /// Releases one of the holds, which may wait, be in effect, or have been refused.
    fn release(&mut self, which: usize) {
        if !self.holds.is_empty() {
            let ticket = self.holds.remove(which % self.holds.len());
            self.held.take_if(|held| *held == ticket);
            self.happen(Event::Released(ticket));
        }
    }

    fn settle(&mut self) {
        self.calm = true;
        for _ in 0..10_000 {
            let Some(answer) = self.answers.pop() else {
                if self.holds.is_empty() {
                    return;
                }
                self.release(0);
                continue;
            };
            self.happen(answer);
        }
        panic!("the state never settles: {:?}", self.state);
    }

    fn answered_once(&self) -> Result<(), TestCaseError> {
        for ticket in 1..=self.tickets {
            prop_assert_eq!(self.given.get(&ticket).copied().unwrap_or(0), 1, "ticket {} in {:?}", ticket, self.state);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every call is answered exactly once and begins in order, none during a hold, and nothing stays pending once the
    /// processes have answered and the holds have been released.
    #[test]
    fn every_call_is_answered_exactly_once(turns in prop::collection::vec((0u8..32, any::<u16>()), 0..120), survives: bool) {
        let mut world = World::new(survives);
        for (choice, which) in turns {
            world.turn(choice, usize::from(which));
            if world.state.is_ready() {
                let (_, actions) = step(world.state.clone(), Event::Submit(u64::MAX, Work::Command));
                prop_assert_eq!(actions, [Action::Run(u64::MAX)]);
            }
            for (ticket, count) in &world.given {
                prop_assert!(*count <= 1, "ticket {} was answered twice", ticket);
            }
        }
        world.settle();
        world.answered_once()?;
        prop_assert!(matches!(world.state.shell, Shell::Absent | Shell::Idle | Shell::Terminated(_)), "{:?}", world.state);
        prop_assert_eq!(world.state.held, None);
    }

    /// The same, but the session is closed in the middle.
    #[test]
    fn closing_leaves_nothing_unanswered(turns in prop::collection::vec((0u8..32, any::<u16>()), 0..120), at: prop::sample::Index) {
        let mut world = World::new(true);
        let close_at = at.index(turns.len() + 1);
        for (number, (choice, which)) in turns.into_iter().enumerate() {
            if number == close_at {
                world.happen(Event::Close);
            }
            world.turn(choice, usize::from(which));
        }
        world.happen(Event::Close);
        world.settle();
        world.answered_once()?;
        prop_assert_eq!(world.state.shell, Shell::Closed);
    }
}
