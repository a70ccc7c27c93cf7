//! Table tests of single steps, and a property test against a world in which anything may die at any time.

use super::*;
use nacre_protocol::supervisor::Asked;
use proptest::prelude::*;
use std::collections::BTreeMap;

const KEY: Key = 7;

fn status(code: i32) -> Status {
    Status { code: Some(code), signal: None, out_of_memory: false, asked: Asked::No }
}

/// The effects of the last of these events.
fn after(events: impl IntoIterator<Item = ProcessEvent>) -> Vec<Effect> {
    let mut machine = Machine::default();
    events.into_iter().map(|event| machine.step(event)).last().unwrap_or_default()
}

fn asked() -> ProcessEvent {
    ProcessEvent::Asked(KEY, Source::Standby)
}

fn adopted(lives: bool, limited: bool) -> ProcessEvent {
    ProcessEvent::Adopted { key: KEY, lives, limited }
}

#[test]
fn a_contained_process_gets_its_command_before_it_is_adopted() {
    let forked = ProcessEvent::Forked { key: KEY, contained: true };
    assert_eq!(after([asked(), forked.clone()]), [Effect::Prepare(KEY)]);
    let prepared = ProcessEvent::Prepared { key: KEY, can_fail: false };
    let begin = Effect::Begin { key: KEY, settled: true };
    assert_eq!(after([asked(), forked.clone(), prepared.clone()]), [begin]);
    assert_eq!(after([asked(), forked.clone(), prepared.clone(), adopted(true, true)]), []);
    assert_eq!(after([asked(), forked, prepared, adopted(false, true)]), [Effect::End(KEY, None)]);
}

#[test]
fn a_command_that_is_detached_lives_at_once() {
    assert_eq!(
        after([ProcessEvent::Detached(KEY), ProcessEvent::Ended(KEY, status(3))]),
        [Effect::End(KEY, Some(status(3)))]
    );
    assert_eq!(after([ProcessEvent::Detached(KEY), ProcessEvent::SupervisorGone]), [Effect::End(KEY, None)]);
    assert_eq!(after([ProcessEvent::Detached(KEY), ProcessEvent::Closing]), []);
}

#[test]
fn a_process_that_could_escape_is_adopted_first() {
    let forked = ProcessEvent::Forked { key: KEY, contained: false };
    assert_eq!(after([asked(), forked.clone()]), [Effect::Adopt(KEY)]);
    assert_eq!(after([asked(), forked.clone(), adopted(true, true)]), [Effect::Prepare(KEY)]);
    assert_eq!(after([asked(), forked.clone(), adopted(false, true)]), [Effect::Refuse(KEY, Why::Killed)]);
    let unlimited = [Effect::Kill(KEY), Effect::Refuse(KEY, Why::Failed)];
    assert_eq!(after([asked(), forked, adopted(true, false)]), unlimited);
}

#[test]
fn a_process_whose_command_cannot_be_sent_is_killed() {
    let events = [asked(), ProcessEvent::Forked { key: KEY, contained: true }, ProcessEvent::NotPrepared(KEY)];
    assert_eq!(after(events), [Effect::Adopt(KEY), Effect::Kill(KEY), Effect::Refuse(KEY, Why::Failed)]);
}

#[test]
fn a_process_that_sets_itself_up_is_answered_by_its_channel() {
    let prepared = ProcessEvent::Prepared { key: KEY, can_fail: true };
    let ready = [asked(), ProcessEvent::Forked { key: KEY, contained: true }, prepared, adopted(true, true)];
    let then = |events: &[ProcessEvent]| after(ready.iter().chain(events).cloned());
    assert_eq!(then(&[ProcessEvent::Begun(KEY)]), [Effect::Settle(KEY)]);
    assert_eq!(then(&[ProcessEvent::Refused(KEY)]), [Effect::Refuse(KEY, Why::Failed)]);
    assert_eq!(then(&[ProcessEvent::Silent(KEY)]), [Effect::Refuse(KEY, Why::Killed)]);
    let ended = ProcessEvent::Ended(KEY, status(3));
    assert_eq!(then(std::slice::from_ref(&ended)), [], "the channel may still report that it began");
    let both = [Effect::Settle(KEY), Effect::End(KEY, Some(status(3)))];
    assert_eq!(then(&[ended.clone(), ProcessEvent::Begun(KEY)]), both);
    assert_eq!(then(&[ended.clone(), ProcessEvent::Silent(KEY)]), [Effect::Refuse(KEY, Why::Killed)]);
    assert_eq!(then(&[ProcessEvent::Begun(KEY), ended]), [Effect::End(KEY, Some(status(3)))]);
}

#[test]
fn a_fork_that_a_dead_source_owes_is_requested_again() {
    assert_eq!(after([asked(), ProcessEvent::SourceGone(Source::Shell)]), []);
    assert_eq!(after([asked(), ProcessEvent::SourceGone(Source::Standby)]), [Effect::Resubmit(KEY)]);
    assert_eq!(after([asked(), ProcessEvent::Promoted, ProcessEvent::SourceGone(Source::Standby)]), []);
    assert_eq!(
        after([asked(), ProcessEvent::Promoted, ProcessEvent::SourceGone(Source::Shell)]),
        [Effect::Resubmit(KEY)]
    );
    for why in [Why::NoFork, Why::Killed] {
        assert_eq!(after([asked(), ProcessEvent::NotForked(KEY, why)]), [Effect::Refuse(KEY, why)]);
    }
}

#[test]
fn a_start_that_the_supervisors_death_interrupts_is_requested_again() {
    let after_death = |events: &[ProcessEvent], then: &[ProcessEvent]| {
        after(events.iter().chain(&[ProcessEvent::SupervisorGone]).chain(then).cloned())
    };
    let forked = ProcessEvent::Forked { key: KEY, contained: false };
    assert_eq!(after_death(&[asked()], &[]), [Effect::Resubmit(KEY)]);
    assert_eq!(after_death(&[asked(), forked], &[]), [Effect::Resubmit(KEY)]);
    assert_eq!(after_death(&[ProcessEvent::Launched(KEY)], &[]), [Effect::Listen(KEY)]);
    let contained = ProcessEvent::Forked { key: KEY, contained: true };
    let set_up = [asked(), contained, ProcessEvent::Prepared { key: KEY, can_fail: true }];
    assert_eq!(after_death(&set_up, &[]), []);
    let lost = [Effect::Settle(KEY), Effect::End(KEY, None)];
    for start in [&set_up[..], &[ProcessEvent::Launched(KEY)]] {
        assert_eq!(after_death(start, &[ProcessEvent::Silent(KEY)]), [Effect::Resubmit(KEY)]);
        assert_eq!(after_death(start, &[ProcessEvent::Begun(KEY)]), lost);
        assert_eq!(after_death(start, &[ProcessEvent::Refused(KEY)]), [Effect::Refuse(KEY, Why::Failed)]);
        assert_eq!(after_death(start, &[ProcessEvent::Closing]), [Effect::Refuse(KEY, Why::Closing)]);
    }
    let ended = [&set_up[..], &[ProcessEvent::Ended(KEY, status(3))]].concat();
    assert_eq!(
        after_death(&ended, &[ProcessEvent::Begun(KEY)]),
        [Effect::Settle(KEY), Effect::End(KEY, Some(status(3)))]
    );
    let living = [&set_up[..], &[ProcessEvent::Begun(KEY)]].concat();
    assert_eq!(after_death(&living, &[]), [Effect::End(KEY, None)]);
}

#[test]
fn a_process_without_a_caller_is_killed() {
    assert_eq!(after([adopted(true, true)]), [Effect::Kill(KEY)]);
    assert_eq!(after([ProcessEvent::Started(KEY)]), [Effect::Kill(KEY)]);
    let refused = [ProcessEvent::Launched(KEY), ProcessEvent::Closing];
    assert_eq!(after(refused.clone()), [Effect::Refuse(KEY, Why::Closing)]);
    assert_eq!(after(refused.into_iter().chain([ProcessEvent::Started(KEY)])), [Effect::Kill(KEY)]);
}

#[test]
fn a_forged_fork_has_no_effect() {
    for forged in [ProcessEvent::Forked { key: KEY, contained: true }, ProcessEvent::NotForked(KEY, Why::NoFork)] {
        assert_eq!(after([forged.clone()]), []);
        assert_eq!(after([ProcessEvent::Launched(KEY), forged]), []);
    }
}

#[test]
fn what_the_supervisor_cannot_report_is_a_defect() {
    for early in [
        adopted(true, true),
        ProcessEvent::Ended(KEY, status(0)),
        ProcessEvent::Started(KEY),
        ProcessEvent::NotStarted(KEY),
    ] {
        assert_eq!(after([asked(), early.clone()]), [Effect::Defect(early)]);
    }
    assert_eq!(after([asked(), asked()]), [Effect::Defect(asked())]);
}

/// The process of a start, as it is outside of the machine.
#[derive(Default)]
struct Child {
    caller: usize,
    /// The source that owes the fork.
    owed_by: Option<Source>,
    /// The report of its fork, which may arrive after its death.
    forked: Option<ProcessEvent>,
    lives: bool,
    adoption_ordered: bool,
    is_adopted: bool,
    /// The supervisor owes the report of its start (plain mode).
    is_launching: bool,
    /// Its channel owes how it began.
    owes_beginning: bool,
    /// It was told to end, or ends by itself because its channel is closed.
    is_doomed: bool,
    is_settled: bool,
    ends: u32,
}

/// Carries effects out as processes would: late, in any order, or never because they died.
#[derive(Default)]
struct World {
    machine: Machine,
    children: BTreeMap<Key, Child>,
    /// The reports of the supervisor arrive in order.
    reports: std::collections::VecDeque<ProcessEvent>,
    /// How often each caller was answered.
    answers: Vec<u32>,
    keys: Key,
    can_fail: bool,
    is_closing: bool,
}

impl World {
    fn ask(&mut self, caller: usize, source: Option<Source>) {
        self.keys += 1;
        let key = self.keys;
        let child = Child { caller, owed_by: source, is_launching: source.is_none(), ..Child::default() };
        self.children.insert(key, child);
        self.happen(source.map_or(ProcessEvent::Launched(key), |source| ProcessEvent::Asked(key, source)));
    }

    fn happen(&mut self, event: ProcessEvent) {
        let mut effects = std::collections::VecDeque::from(self.machine.step(event));
        while let Some(effect) = effects.pop_front() {
            if let Some(next) = self.act(effect) {
                effects.extend(self.machine.step(next));
            }
        }
    }

    fn child(&mut self, key: Key) -> &mut Child {
        self.children.get_mut(&key).expect("an effect for an unknown key")
    }

    /// The supervisor answers at once, and its report arrives later.
    fn order_adoption(&mut self, key: Key) {
        let child = self.child(key);
        if std::mem::replace(&mut child.adoption_ordered, true) {
            return;
        }
        child.is_adopted = child.lives;
        let lives = child.lives;
        self.reports.push_back(ProcessEvent::Adopted { key, lives, limited: !key.is_multiple_of(5) });
    }

    fn die(&mut self, key: Key) {
        let child = self.child(key);
        if std::mem::take(&mut child.lives) && child.is_adopted {
            self.reports.push_back(ProcessEvent::Ended(key, status(0)));
        }
    }

    fn settle(&mut self, key: Key) {
        let child = self.child(key);
        assert!(!std::mem::replace(&mut child.is_settled, true), "settled twice");
        let caller = child.caller;
        self.answers[caller] += 1;
    }

    fn act(&mut self, effect: Effect) -> Option<ProcessEvent> {
        match effect {
            Effect::Adopt(key) => self.order_adoption(key),
            Effect::Prepare(key) if key.is_multiple_of(7) => return Some(ProcessEvent::NotPrepared(key)),
            Effect::Prepare(key) => return Some(ProcessEvent::Prepared { key, can_fail: self.can_fail }),
            Effect::Begin { key, settled } => {
                if settled {
                    self.settle(key);
                }
                self.order_adoption(key);
                self.child(key).owes_beginning = true;
            }
            Effect::Listen(key) => self.child(key).owes_beginning = true,
            Effect::Settle(key) => self.settle(key),
            Effect::Refuse(key, _) => {
                let child = self.child(key);
                assert!(!child.is_settled, "refused after it began");
                // Its channel closes, so a fork that has no command ends by itself.
                child.is_doomed |= !child.owes_beginning && !child.is_launching;
                let caller = child.caller;
                self.answers[caller] += 1;
            }
            Effect::Resubmit(key) => {
                let caller = self.children.remove(&key).expect("an unknown key").caller;
                self.ask(caller, Some(Source::Shell));
            }
            Effect::Kill(key) => self.child(key).is_doomed = true,
            Effect::End(key, _) => {
                let child = self.child(key);
                child.ends += 1;
                assert!(child.is_settled && child.ends == 1, "an end without a beginning, or a second one");
            }
            Effect::Defect(event) => panic!("a defect: {event:?}"),
        }
        None
    }

    /// Makes one thing happen: an answer arrives, the caller acts, or a process dies.
    fn turn(&mut self, choice: u8, which: usize) {
        let keys: Vec<Key> = self.children.keys().copied().collect();
        let key = keys.get(which % keys.len().max(1)).copied();
        let source = [Some(Source::Shell), Some(Source::Standby), None][which % 3];
        match (choice, key) {
            (0 | 1, _) if !self.is_closing => {
                self.answers.push(0);
                self.ask(self.answers.len() - 1, source);
            }
            (2..=4, _) => drop(self.reports.pop_front().map(|report| self.happen(report))),
            (5, Some(key)) if self.child(key).owed_by.is_some() && self.child(key).forked.is_none() => {
                self.fork(key, which);
            }
            (6, Some(key)) => {
                if let Some(report) = self.child(key).forked.take() {
                    self.child(key).owed_by = None;
                    self.happen(report);
                }
            }
            (7, Some(key)) if std::mem::take(&mut self.child(key).is_launching) => {
                let lives = !which.is_multiple_of(4);
                (self.child(key).lives, self.child(key).is_adopted) = (lives, lives);
                self.reports.push_back(if lives { ProcessEvent::Started(key) } else { ProcessEvent::NotStarted(key) });
            }
            (8, Some(key)) if self.child(key).owes_beginning => self.begin(key, which),
            (9, Some(key)) if self.child(key).is_doomed || which.is_multiple_of(3) => self.die(key),
            (10, _) => self.lose(source.unwrap_or(Source::Standby)),
            (11, _) => {
                for child in self.children.values_mut().filter(|child| child.owed_by == Some(Source::Standby)) {
                    child.owed_by = Some(Source::Shell);
                }
                self.happen(ProcessEvent::Promoted);
            }
            (12, _) => self.lose_supervisor(),
            _ => {}
        }
    }

    fn fork(&mut self, key: Key, which: usize) {
        let child = self.child(key);
        child.lives = !which.is_multiple_of(5);
        child.forked = Some(match which % 5 {
            0 => ProcessEvent::NotForked(key, Why::NoFork),
            number => ProcessEvent::Forked { key, contained: number > 2 },
        });
    }

    fn begin(&mut self, key: Key, which: usize) {
        let child = self.child(key);
        child.owes_beginning = false;
        let event = match which % 3 {
            _ if !child.lives && which.is_multiple_of(2) => ProcessEvent::Silent(key),
            0 if self.can_fail => {
                self.child(key).is_doomed = true;
                ProcessEvent::Refused(key)
            }
            _ => ProcessEvent::Begun(key),
        };
        self.happen(event);
    }

    fn lose(&mut self, source: Source) {
        for child in self.children.values_mut().filter(|child| child.owed_by == Some(source)) {
            (child.owed_by, child.forked) = (None, None);
        }
        self.happen(ProcessEvent::SourceGone(source));
    }

    /// Every process dies with the supervisor. What a process has reported over its own channel still arrives.
    fn lose_supervisor(&mut self) {
        for child in self.children.values_mut() {
            (child.lives, child.is_launching, child.owed_by, child.forked) = (false, false, None, None);
        }
        self.reports.clear();
        self.happen(ProcessEvent::SupervisorGone);
    }

    /// Lets everything that is owed arrive.
    fn calm_down(&mut self) {
        for round in 0..10_000 {
            let keys: Vec<Key> = self.children.keys().copied().collect();
            let before = self.reports.len();
            for key in keys {
                for choice in [5, 6, 7, 8] {
                    if self.children.contains_key(&key) {
                        let at = self.children.keys().position(|other| *other == key).unwrap_or(0);
                        // The number selects the key, and varies what happens to it.
                        self.turn(choice, at + self.children.len() * round);
                    }
                }
                // A session that is being closed ends everything.
                if self.children.get(&key).is_some_and(|child| child.is_doomed || self.is_closing) {
                    self.die(key);
                }
            }
            while let Some(report) = self.reports.pop_front() {
                self.happen(report);
            }
            let owes = |child: &Child| {
                child.owed_by.is_some()
                    || child.owes_beginning
                    || child.is_launching
                    || (child.lives && (child.is_doomed || self.is_closing))
            };
            if before == 0 && !self.children.values().any(owes) {
                return;
            }
        }
        panic!("the processes never settle");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every caller is answered exactly once, every process that runs has a caller who was answered, every end of such
    /// a process is delivered once, and no event is a defect.
    #[test]
    fn every_start_is_answered_exactly_once(
        turns in prop::collection::vec((0u8..13, any::<u16>()), 0..150),
        can_fail: bool,
        closes: bool,
    ) {
        let mut world = World { can_fail, ..World::default() };
        for (choice, which) in turns {
            world.turn(choice, usize::from(which));
            prop_assert!(world.answers.iter().all(|count| *count <= 1), "a start was answered twice");
        }
        if closes {
            world.is_closing = true;
            world.happen(ProcessEvent::Closing);
        }
        world.calm_down();
        for (key, child) in &world.children {
            prop_assert!(!child.lives || child.is_settled, "process {} runs without a caller", key);
            prop_assert_eq!(child.ends, u32::from(child.is_settled && !child.lives), "the end of process {}", key);
        }
        world.lose_supervisor();
        prop_assert!(world.answers.iter().all(|count| *count == 1), "{:?}", world.answers);
        prop_assert!(world.children.values().all(|child| child.ends == u32::from(child.is_settled)));
        prop_assert!(world.machine.stages.is_empty());
    }
}
