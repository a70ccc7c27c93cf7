//! The values of a host's secrets, of which functions of the program know some.

use super::forms::Pairs;
use super::{Call, Observer, Place, Purpose, Secret, Value, function};
use nacre_containment::lock::Lock;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// A function is not called again before this time because of a 401: programs can have as many of them as they want.
const LEAST_AGE: Duration = Duration::from_secs(1);
/// Values before the present one that are masked.
const MOST_OLDER: usize = 3;

/// A value that a function knows.
pub struct Known {
    secret: Secret,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The newest first.
    values: Vec<Value>,
    at: Option<Instant>,
    is_refused: bool,
}

impl Known {
    pub fn new(secret: &Secret) -> Self {
        Self { secret: secret.clone(), state: Mutex::default() }
    }

    pub fn is_for(&self, secret: &Secret) -> bool {
        (&self.secret.name, &self.secret.value) == (&secret.name, &secret.value)
    }

    /// The values, the present one first. All requests wait for one call of the function.
    async fn values(&self, observer: &dyn Observer) -> io::Result<Vec<Value>> {
        let mut state = self.state.lock().await;
        let is_old = |at: Instant| {
            self.secret.refresh.is_some_and(|limit| at.elapsed() >= limit)
                || state.is_refused && at.elapsed() >= LEAST_AGE
        };
        if state.at.is_none_or(is_old) {
            let Value::Function(name) = &self.secret.value else { return Err(io::ErrorKind::InvalidInput.into()) };
            let purpose = Purpose::Know { placeholder: self.secret.placeholder.clone() };
            let value = function::value(observer.call(Call { function: name.clone(), purpose })?).await?;
            state.values.retain(|older| *older != value);
            state.values.insert(0, value);
            state.values.truncate(1 + MOST_OLDER);
            (state.at, state.is_refused) = (Some(Instant::now()), false);
        }
        Ok(state.values.clone())
    }

    /// A host did not accept the value.
    async fn refused(&self) {
        self.state.lock().await.is_refused = true;
    }
}

/// The secrets of a host with their values, and what is made of them.
#[derive(Default)]
pub struct Filled {
    pub secrets: Vec<Secret>,
    /// Placeholders in bodies, and their values.
    pub bodies: Arc<Pairs>,
    /// Values in replies, and their placeholders.
    pub masks: Arc<Pairs>,
}

impl Filled {
    /// `older`: more values that replies may have.
    fn new(secrets: Vec<Secret>, older: &[Secret]) -> Self {
        let in_bodies = secrets.iter().filter(|secret| secret.places.contains(&Place::Body));
        let bodies = Arc::new(Pairs::into_requests(in_bodies));
        let masks = Arc::new(Pairs::masks(secrets.iter().chain(older).filter(|secret| secret.is_sent())));
        Self { secrets, bodies, masks }
    }
}

/// The secrets of a host.
pub struct Values {
    secrets: Vec<(Secret, Option<Arc<Known>>)>,
    filled: Lock<(Vec<Value>, Arc<Filled>)>,
}

impl Values {
    /// `known`: those that functions know, for all hosts.
    pub fn new(secrets: Vec<Secret>, known: &[Arc<Known>]) -> Self {
        let texts = secrets.iter().filter(|secret| matches!(secret.value, Value::Text(_))).cloned();
        let fixed = Filled::new(texts.collect(), &[]);
        let known_of = |secret: &Secret| known.iter().find(|known| known.is_for(secret)).cloned();
        let secrets = secrets.into_iter().map(|secret| (secret.clone(), known_of(&secret))).collect();
        Self { secrets, filled: Lock::new((Vec::new(), Arc::new(fixed))) }
    }

    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// What is known without a call of a function.
    pub fn known(&self) -> Arc<Filled> {
        Arc::clone(&self.filled.lock().1)
    }

    /// Finds out the values that hold now.
    ///
    /// # Errors
    /// The name of a secret whose function has failed.
    pub async fn filled(&self, observer: &dyn Observer) -> Result<Arc<Filled>, String> {
        if self.secrets.iter().all(|(_, known)| known.is_none()) {
            return Ok(self.known());
        }
        let (mut secrets, mut older, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (secret, known) in &self.secrets {
            let of = |value: &Value| Secret { value: value.clone(), ..secret.clone() };
            let Some(known) = known else {
                secrets.push(secret.clone());
                continue;
            };
            let all = known.values(observer).await.map_err(|_| secret.name.clone())?;
            let (now, before) = all.split_first().ok_or_else(|| secret.name.clone())?;
            secrets.push(of(now));
            older.extend(before.iter().map(of));
            values.extend(all);
        }
        let mut filled = self.filled.lock();
        if filled.0 != values {
            *filled = (values, Arc::new(Filled::new(secrets, &older)));
        }
        Ok(Arc::clone(&filled.1))
    }

    /// The host did not accept a request with these secrets: the next one gets new values.
    pub async fn refused(&self, names: &[String]) {
        let refused = self.secrets.iter().filter(|(secret, _)| names.contains(&secret.name));
        for known in refused.filter_map(|(_, known)| known.as_ref()) {
            known.refused().await;
        }
    }
}
