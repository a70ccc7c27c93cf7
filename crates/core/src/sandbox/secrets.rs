//! The values of secrets, which no checkpoint has, and the placeholders that its shells and files have.
//!
//! A checkpoint of another program has other placeholders than this sandbox drew. After a rollback to it, they stand for the
//! values that this sandbox has under the same names.

use super::NewSession;
use crate::error::{Code, Error};
use crate::isolation::Isolation;
use nacre_containment::lock::Lock;
use nacre_egress::{Plan, Secret, Value};
use std::borrow::Cow;
use std::collections::HashMap;

/// See the module.
#[derive(Default)]
pub(super) struct Secrets(Lock<Known>);

#[derive(Clone, Default)]
struct Known {
    /// Those of all sessions. Kept as long as the sandbox: a rollback may bring a session back.
    all: Vec<Secret>,
    /// The placeholders of a checkpoint, by the names of the sandbox's own secrets.
    adopted: HashMap<String, String>,
}

impl Known {
    fn add(&mut self, secret: &Secret) {
        if !self.all.contains(secret) {
            self.all.push(secret.clone());
        }
    }

    /// The value of a secret that was read from a checkpoint: of one that may go to all its hosts and places. A placeholder alone
    /// proves nothing, since programs see it, and clients choose those of their own secrets.
    fn value_of(&self, read: &Secret) -> Option<Value> {
        let covers = |own: &&Secret| {
            (&own.name, &own.placeholder) == (&read.name, &read.placeholder)
                && read.hosts.iter().all(|host| own.hosts.contains(host))
                && read.places.iter().all(|place| own.places.contains(place))
                && (own.programs.is_empty()
                    || !read.programs.is_empty() && read.programs.iter().all(|program| own.programs.contains(program)))
        };
        self.all.iter().find(covers).map(|own| own.value.clone())
    }
}

impl Secrets {
    /// The isolation of a session that begins, with the placeholders that hold now. `sandbox`: the secrets of the sandbox.
    pub(super) fn current<'a>(&self, isolation: &'a Isolation, sandbox: &Plan) -> Cow<'a, Isolation> {
        if isolation.hosts.plan.secrets.is_empty() {
            return Cow::Borrowed(isolation);
        }
        let mut isolation = isolation.clone();
        let mut known = self.0.lock();
        for secret in &mut isolation.hosts.plan.secrets {
            let is_own = |own: &&Secret| own.name == secret.name && own.value == secret.value;
            if sandbox.secrets.iter().any(|own| is_own(&own)) {
                secret.placeholder = known.adopted.get(&secret.name).unwrap_or(&secret.placeholder).clone();
            }
            known.add(secret);
        }
        Cow::Owned(isolation)
    }

    /// Goes on with what another sandbox, whose fork this is, has.
    pub(super) fn begin_with(&self, other: &Self) {
        let known = other.0.lock().clone();
        *self.0.lock() = known;
    }

    /// Goes on with the placeholders of a checkpoint, and gives its sessions their values. `kept`: the secrets that the sandbox
    /// had then; `sandbox`: those that it has.
    ///
    /// # Errors
    /// `WORKSPACE_UNSUPPORTED` if a session of it has a secret of its own that this sandbox has never had. Nothing has changed.
    pub(super) fn adopt(&self, kept: &Plan, sandbox: &Plan, sessions: &mut [&mut NewSession]) -> Result<(), Error> {
        let mut known = self.0.lock();
        let mut next = Known { all: known.all.clone(), adopted: HashMap::new() };
        for old in &kept.secrets {
            if let Some(own) = sandbox.secrets.iter().find(|own| own.name == old.name) {
                next.add(&Secret { placeholder: old.placeholder.clone(), ..own.clone() });
                next.adopted.insert(old.name.clone(), old.placeholder.clone());
            }
        }
        for new in sessions {
            for secret in new.isolation.iter_mut().flat_map(|isolation| &mut isolation.hosts.plan.secrets) {
                secret.value = next.value_of(secret).ok_or_else(|| {
                    let (session, name) = (&new.id, &secret.name);
                    let lack = format!("session '{session}' of the checkpoint has the secret {name} of its own");
                    let reason = "whose value was kept nowhere: give the secret to the sandbox instead";
                    Error::new(Code::WorkspaceUnsupported, format!("{lack}, {reason}"))
                })?;
            }
        }
        *known = next;
        Ok(())
    }
}

/// The isolation without what differs between two programs that give a sandbox the same one.
pub(super) fn comparable(isolation: Option<&Isolation>) -> Option<Isolation> {
    let mut isolation = isolation.cloned();
    for rules in isolation.iter_mut().map(|isolation| &mut isolation.rules) {
        (rules.explains, rules.learns, rules.rules_file) = (false, false, None);
    }
    for secret in isolation.iter_mut().flat_map(|isolation| &mut isolation.hosts.plan.secrets) {
        (secret.value, secret.placeholder) = (Value::default(), String::new());
    }
    for hosts in isolation.iter_mut().map(|isolation| &mut isolation.hosts) {
        hosts.plan.handlers.iter_mut().for_each(|(_, name)| name.clear());
        hosts.ask.iter_mut().for_each(|ask| ask.answerer = None);
    }
    isolation
}

#[cfg(test)]
mod tests {
    use super::*;
    use nacre_egress::{Origin, Place};

    fn secret(name: &str, value: &str, host: &str, places: &[Place]) -> Secret {
        Secret {
            name: name.into(),
            value: Value::new(value.into()),
            placeholder: "the-same-placeholder".into(),
            hosts: vec![Origin { host: host.into(), port: 443 }],
            places: places.to_vec(),
            refresh: None,
            programs: Vec::new(),
        }
    }

    #[test]
    fn a_placeholder_alone_does_not_get_a_value() {
        let own = secret("TOKEN", "real-value", "a.example", &[Place::Authorization]);
        let foreign = secret("OTHER", "what-a-client-chose", "b.example", &[Place::Body]);
        let mut known = Known::default();
        [&own, &foreign].into_iter().for_each(|secret| known.add(secret));
        let value_of = |mut read: Secret| {
            read.value = Value::default();
            known.value_of(&read)
        };
        assert_eq!(value_of(own.clone()), Some(own.value.clone()));
        assert_eq!(value_of(foreign.clone()), Some(foreign.value.clone()));
        assert_eq!(value_of(secret("TOKEN", "", "b.example", &[Place::Authorization])), None);
        assert_eq!(value_of(secret("TOKEN", "", "a.example", &[Place::Body])), None);
        assert_eq!(value_of(secret("THIRD", "", "a.example", &[Place::Authorization])), None);
    }
}
