//! Every order and report reads back as it was written.

use nacre_containment::limits::{EnableError, Limits};
use nacre_containment::pid::{Identity, Pid};
use nacre_protocol::message::{self, MAX_MESSAGE_BYTES};
use nacre_protocol::supervisor::{
    Asked, ForegroundGroup, LimitProblem, MAX_SPARED, Order, Program, Report, Role, StartStep,
};
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

fn text() -> impl Strategy<Value = String> {
    any::<String>()
}

fn group() -> impl Strategy<Value = Option<String>> {
    of(text())
}

fn foreground() -> impl Strategy<Value = ForegroundGroup> {
    (of(pid()), group()).prop_map(|(shell, directory)| ForegroundGroup { shell, directory })
}

fn pid() -> impl Strategy<Value = Pid> {
    (2..=i32::MAX).prop_map(|raw| Pid::new(raw).unwrap())
}

fn identity() -> impl Strategy<Value = Identity> {
    (pid(), any::<u64>()).prop_map(|(pid, start_ticks)| Identity { pid, start_ticks })
}

fn limits() -> impl Strategy<Value = Limits> {
    any::<[Option<u64>; 3]>().prop_map(|[memory, millicpus, pids]| Limits { memory, millicpus, pids })
}

fn role() -> impl Strategy<Value = Role> {
    let process = (any::<u64>(), text(), limits(), any::<bool>())
        .prop_map(|(key, mark, limits, terminal)| Role::Process { key, mark, limits, terminal });
    prop_oneof![Just(Role::Shell), Just(Role::Command), process]
}

fn step() -> impl Strategy<Value = StartStep> {
    use StartStep::{Cwd, Exec, Group, Isolation, Limits, Prepare, User};
    select(vec![Prepare, Group, Limits, User, Cwd, Isolation, Exec])
}

fn problem() -> impl Strategy<Value = LimitProblem> {
    let missing = (text(), text())
        .prop_map(|(controller, parent)| EnableError::Missing { controller, parent: parent.into() }.into());
    let refused = (text(), text(), any::<i32>()).prop_map(|(controller, parent, errno)| {
        EnableError::Refused { controller, parent: parent.into(), errno }.into()
    });
    let by_the_kernel = any::<i32>().prop_map(|errno| LimitProblem::Refused { errno });
    prop_oneof![Just(LimitProblem::NoGroup), missing, refused, by_the_kernel]
}

fn order() -> impl Strategy<Value = Order> {
    use Order::{Continue, Files, Insist, KillShell, Mask, Promote, Ready, Remount, Rotate, Settled, Thaw, TrapRuns};
    let kill = || (any::<u64>(), any::<u64>(), any::<i32>(), any::<u64>());
    prop_oneof![
        select(vec![
            Files, Promote, TrapRuns, Settled, Insist, KillShell, Continue, Rotate, Thaw, Remount, Mask, Ready
        ]),
        (any::<u64>(), text(), any::<bool>()).prop_map(|(fork_key, channel_name, has_workspace)| Order::Confine {
            fork_key,
            channel_name,
            has_workspace,
        }),
        (role(), vec(text(), 0..4), any::<i32>(), any::<bool>()).prop_map(
            |(role, arguments, first_descriptor, anywhere)| Order::Start {
                role,
                arguments,
                first_descriptor,
                anywhere
            }
        ),
        (pid(), group()).prop_map(|(pid, group)| Order::Standby { pid, group }),
        (any::<u64>(), pid(), group(), text(), limits()).prop_map(|(key, pid, group, mark, limits)| Order::Adopt {
            key,
            pid,
            group,
            mark,
            limits
        }),
        (any::<u64>(), text(), any::<Option<u64>>(), vec(pid(), 0..8))
            .prop_map(|(key, mark, command, spare)| Order::Detach { key, mark, command, spare }),
        (kill(), any::<Option<u64>>(), vec(pid(), 0..8)).prop_map(|((id, _, signal, grace_ms), command, spare)| {
            Order::KillForeground { id, command, signal, grace_ms, spare }
        }),
        any::<bool>().prop_map(|expected| Order::ExpectForks { expected }),
        kill().prop_map(|(id, key, signal, grace_ms)| Order::KillProcess { id, key, signal, grace_ms }),
        (any::<u64>(), any::<i32>()).prop_map(|(key, signal)| Order::SignalProcess { key, signal }),
        any::<(u64, bool)>().prop_map(|(id, if_idle)| Order::Freeze { id, if_idle }),
        any::<u64>().prop_map(|number| Order::Saved { number }),
        any::<u64>().prop_map(|number| Order::Fork { number }),
        any::<u64>().prop_map(|grace_ms| Order::Shutdown { grace_ms }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    (pid(), text()).prop_map(|(pid, command)| Program { pid, command })
}

fn report() -> impl Strategy<Value = Report> {
    let asked = select(vec![Asked::No, Asked::Alone, Asked::WithProgram]);
    let status = any::<[Option<i32>; 2]>;
    prop_oneof![
        select(vec![Report::Ended, Report::Called, Report::Remounted, Report::Masked]),
        text().prop_map(|problem| Report::NotRemounted { problem }),
        of(pid()).prop_map(|init| Report::Confined { init }),
        text().prop_map(|problem| Report::NotConfined { problem }),
        pid().prop_map(|pid| Report::Reconnected { pid }),
        pid().prop_map(|init| Report::Orphans { init }),
        (identity(), any::<Option<u64>>(), group()).prop_map(|(identity, key, group)| Report::Started {
            identity,
            key,
            group
        }),
        (any::<Option<u64>>(), step(), any::<i32>(), text())
            .prop_map(|(key, step, errno, detail)| Report::StartFailed { key, step, errno, detail }),
        (pid(), status()).prop_map(|(pid, [code, signal])| Report::ShellEnded { pid, code, signal }),
        pid().prop_map(|pid| Report::StandbyEnded { pid }),
        foreground().prop_map(|foreground| Report::Promoted { foreground }),
        foreground().prop_map(|foreground| Report::Rotated { foreground }),
        (any::<u64>(), of(identity()), group(), of(problem()))
            .prop_map(|(key, identity, group, problem)| Report::Adopted { key, identity, group, problem }),
        (any::<u64>(), of(identity()), group(), foreground())
            .prop_map(|(key, identity, group, foreground)| Report::Detached { key, identity, group, foreground }),
        (any::<u64>(), status(), any::<bool>(), asked).prop_map(|(key, [code, signal], out_of_memory, asked)| {
            Report::ProcessEnded { key, code, signal, out_of_memory, asked }
        }),
        (any::<u64>(), any::<[bool; 2]>()).prop_map(|(id, [found, escalated])| Report::ProcessKilled {
            id,
            found,
            escalated
        }),
        (any::<u64>(), foreground(), vec(program(), 0..4), any::<u64>())
            .prop_map(|(id, foreground, programs, count)| Report::Frozen { id, programs, count, foreground }),
        (any::<u64>(), foreground(), vec(program(), 0..4), any::<u64>())
            .prop_map(|(id, foreground, programs, count)| Report::NotFrozen { id, foreground, programs, count }),
        (any::<u64>(), any::<bool>(), foreground()).prop_map(|(id, escalated, foreground)| Report::Killed {
            id,
            escalated,
            foreground
        }),
    ]
}

/// The number of an order in a message. A new order does not compile here: it belongs into [`order`] too.
fn number_of_order(order: &Order) -> u8 {
    match order {
        Order::Confine { .. } => 0,
        Order::Start { .. } => 1,
        Order::Files => 2,
        Order::Ready => 3,
        Order::Saved { .. } => 4,
        Order::Fork { .. } => 5,
        Order::Standby { .. } => 6,
        Order::Promote => 7,
        Order::Adopt { .. } => 8,
        Order::Detach { .. } => 9,
        Order::KillForeground { .. } => 10,
        Order::ExpectForks { .. } => 11,
        Order::TrapRuns => 12,
        Order::Settled => 13,
        Order::Insist => 14,
        Order::KillShell => 15,
        Order::Continue => 16,
        Order::Rotate => 17,
        Order::KillProcess { .. } => 18,
        Order::SignalProcess { .. } => 19,
        Order::Freeze { .. } => 20,
        Order::Thaw => 21,
        Order::Remount => 22,
        Order::Mask => 23,
        Order::Shutdown { .. } => 24,
    }
}

/// The number of a report in a message. A new report belongs into [`report`] too.
fn number_of_report(report: &Report) -> u8 {
    match report {
        Report::Confined { .. } => 0,
        Report::NotConfined { .. } => 1,
        Report::Reconnected { .. } => 2,
        Report::Called => 3,
        Report::Started { .. } => 4,
        Report::StartFailed { .. } => 5,
        Report::ShellEnded { .. } => 6,
        Report::StandbyEnded { .. } => 7,
        Report::Promoted { .. } => 8,
        Report::Rotated { .. } => 9,
        Report::Adopted { .. } => 10,
        Report::Detached { .. } => 11,
        Report::ProcessEnded { .. } => 12,
        Report::ProcessKilled { .. } => 13,
        Report::Killed { .. } => 14,
        Report::Frozen { .. } => 15,
        Report::NotFrozen { .. } => 16,
        Report::Remounted => 17,
        Report::NotRemounted { .. } => 18,
        Report::Masked => 19,
        Report::Ended => 20,
        Report::Orphans { .. } => 21,
    }
}

proptest! {
    #[test]
    fn every_order_and_report_reads_back(order in order(), report in report()) {
        let bytes = message::encode(&order).unwrap();
        prop_assert_eq!(bytes[0], number_of_order(&order));
        prop_assert_eq!(message::decode::<Order>(&bytes).unwrap(), order);
        let bytes = message::encode(&report).unwrap();
        prop_assert_eq!(bytes[0], number_of_report(&report));
        prop_assert_eq!(message::decode::<Report>(&bytes).unwrap(), report);
    }
}

#[test]
fn an_order_with_the_most_spared_processes_fits_into_a_message() {
    let spare = vec![Pid::new(i32::MAX).unwrap(); MAX_SPARED];
    let order = Order::KillForeground { id: u64::MAX, command: Some(u64::MAX), signal: 15, grace_ms: u64::MAX, spare };
    assert!(message::encode(&order).unwrap().len() <= MAX_MESSAGE_BYTES);
}
