//! Questions: whether the programs of a session may connect to a host that its rules do not name.
//!
//! A connection waits for the answer, at most for the time that the rules set. All connections of a session to one target
//! wait for the same question, and it is closed with the last of them.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Maximum open questions of a session. Connections to further targets are refused.
const MOST_OPEN: usize = 16;
/// Maximum targets that a session keeps as allowed. Later ones are asked for again.
const MOST_ALLOWED: usize = 10_000;

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Allowed until the running command has ended, or the next one begins.
    Once,
    /// Allowed as long as the session lasts.
    Session,
    /// Refused.
    Deny,
}

impl Answer {
    /// Its name in the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Deny => "deny",
        }
    }

    /// The answer with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Once, Self::Session, Self::Deny].into_iter().find(|answer| answer.as_str() == name)
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Unique in its sandbox.
    pub id: u64,
    /// The session whose programs want to connect.
    pub session: String,
    /// Host and port, like `example.com:443`.
    pub target: String,
    /// Wall clock.
    pub asked_at: SystemTime,
    /// When the target is refused without an answer.
    pub expires_at: SystemTime,
}

/// What happens to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It was asked.
    Asked,
    /// It is closed: by an answer, or because its time is over or nothing waits for it any more.
    Closed(Option<Answer>),
}

/// Learns what happens to questions. It must not block.
pub type Observer = Box<dyn Fn(&Question, Happened) + Send + Sync>;

/// The open questions of a sandbox.
pub struct Questions {
    observer: Observer,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: BTreeMap<u64, Open>,
    /// The id of the last question.
    last: u64,
}

#[derive(Debug)]
struct Open {
    question: Question,
    allowed: Arc<Mutex<Allowed>>,
    answer: watch::Sender<Option<Answer>>,
    deadline: Instant,
    /// How many connections wait.
    waiting: usize,
}

/// The targets that answers have allowed in a session.
#[derive(Debug, Default)]
struct Allowed {
    once: HashSet<String>,
    session: HashSet<String>,
}

impl Allowed {
    fn contains(&self, target: &str) -> bool {
        self.once.contains(target) || self.session.contains(target)
    }

    fn add(&mut self, target: &str, answer: Answer) {
        let targets = match answer {
            Answer::Once => &mut self.once,
            Answer::Session => &mut self.session,
            Answer::Deny => return,
        };
        if targets.len() < MOST_ALLOWED {
            targets.insert(target.to_string());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Questions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Questions").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Questions {
    /// No questions yet.
    pub fn new(observer: Observer) -> Self {
        Self { observer, table: Mutex::default() }
    }

    /// The open questions, in the order in which they were asked.
    pub fn open(&self) -> Vec<Question> {
        lock(&self.table).open.values().map(|open| open.question.clone()).collect()
    }

    /// Answers a question. False if it is not open.
    pub fn answer(&self, id: u64, answer: Answer) -> bool {
        let mut table = lock(&self.table);
        let Some(open) = table.open.remove(&id) else { return false };
        // With the table locked, so that a connection finds the question or its answer.
        lock(&open.allowed).add(&open.question.target, answer);
        drop(table);
        (self.observer)(&open.question, Happened::Closed(Some(answer)));
        open.answer.send_replace(Some(answer));
        true
    }

    /// A connection no longer waits. The last one closes the question.
    fn leave(&self, id: u64) {
        let mut table = lock(&self.table);
        let Some(open) = table.open.get_mut(&id) else { return };
        open.waiting -= 1;
        if open.waiting > 0 {
            return;
        }
        let closed = table.open.remove(&id);
        drop(table);
        closed.iter().for_each(|open| (self.observer)(&open.question, Happened::Closed(None)));
    }
}

/// The questions of one session. Clones share its answers.
#[derive(Clone, Debug)]
pub struct Asking {
    questions: Arc<Questions>,
    session: String,
    limit: Duration,
    allowed: Arc<Mutex<Allowed>>,
}

impl Asking {
    /// For a session that has no answers yet. `limit`: how long a question waits for its answer.
    pub fn new(questions: Arc<Questions>, session: String, limit: Duration) -> Self {
        Self { questions, session, limit, allowed: Arc::default() }
    }

    /// Whether the answer to a question allows this target: the question is asked if no answer has allowed the target
    /// before. False after the time limit. Cancel-safe.
    pub async fn allows(&self, target: &str) -> bool {
        match self.ask(target) {
            Some(mut waiting) => waiting.is_allowed().await,
            None => lock(&self.allowed).contains(target),
        }
    }

    /// Forgets what was allowed once: its command has ended, or the next one begins.
    pub fn end_command(&self) {
        lock(&self.allowed).once.clear();
    }

    /// Waits for the open question about this target, or for a new one. `None` if the target is already allowed, or if too
    /// many questions are open.
    fn ask(&self, target: &str) -> Option<Waiting> {
        let mut table = lock(&self.questions.table);
        if lock(&self.allowed).contains(target) {
            return None;
        }
        let is_own = |open: &Open| Arc::ptr_eq(&open.allowed, &self.allowed);
        let same = table.open.values_mut().find(|open| is_own(open) && open.question.target == target);
        if let Some(open) = same {
            return Some(self.waiting(open));
        }
        if table.open.values().filter(|open| is_own(open)).count() >= MOST_OPEN {
            return None;
        }
        table.last += 1;
        let asked_at = SystemTime::now();
        let question = Question {
            id: table.last,
            session: self.session.clone(),
            target: target.to_string(),
            asked_at,
            expires_at: asked_at + self.limit,
        };
        let mut open = Open {
            question: question.clone(),
            allowed: Arc::clone(&self.allowed),
            answer: watch::Sender::default(),
            deadline: Instant::now() + self.limit,
            waiting: 0,
        };
        let waiting = self.waiting(&mut open);
        table.open.insert(question.id, open);
        drop(table);
        (self.questions.observer)(&question, Happened::Asked);
        Some(waiting)
    }

    fn waiting(&self, open: &mut Open) -> Waiting {
        open.waiting += 1;
        Waiting {
            questions: Arc::clone(&self.questions),
            id: open.question.id,
            answer: open.answer.subscribe(),
            deadline: open.deadline,
        }
    }
}

/// A connection that waits for an answer.
struct Waiting {
    questions: Arc<Questions>,
    id: u64,
    answer: watch::Receiver<Option<Answer>>,
    deadline: Instant,
}

impl Waiting {
    async fn is_allowed(&mut self) -> bool {
        let answer = timeout_at(self.deadline, self.answer.wait_for(Option::is_some)).await;
        matches!(answer, Ok(Ok(answer)) if *answer != Some(Answer::Deny))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.questions.leave(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const LIMIT: Duration = Duration::from_secs(60);

    fn questions() -> (Arc<Questions>, Receiver<(u64, Happened)>) {
        let (sender, happened) = channel();
        let observer = move |question: &Question, what| sender.send((question.id, what)).unwrap_or_default();
        (Arc::new(Questions::new(Box::new(observer))), happened)
    }

    fn asking(questions: &Arc<Questions>, session: &str) -> Asking {
        Asking::new(Arc::clone(questions), session.into(), LIMIT)
    }

    /// Answers the only open question.
    fn answer(questions: &Questions, answer: Answer) {
        let [question] = &questions.open()[..] else { panic!("{:?}", questions.open()) };
        assert!(questions.answer(question.id, answer));
        assert!(!questions.answer(question.id, answer));
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_to_a_target_wait_for_one_answer() {
        let (questions, happened) = questions();
        let asking = asking(&questions, "one");
        let both = async { tokio::join!(asking.allows("a:1"), asking.allows("a:1")) };
        let (allowed, ()) = tokio::join!(both, async { answer(&questions, Answer::Once) });
        assert_eq!(allowed, (true, true));
        assert!(asking.allows("a:1").await);
        let all: Vec<_> = happened.try_iter().collect();
        assert_eq!(all, [(1, Happened::Asked), (1, Happened::Closed(Some(Answer::Once)))]);
    }

    #[tokio::test(start_paused = true)]
    async fn once_ends_with_the_command_and_session_with_the_session() {
        let (questions, _happened) = questions();
        let (asking, other) = (asking(&questions, "one"), asking(&questions, "two"));
        for (target, given) in [("once:1", Answer::Once), ("session:1", Answer::Session)] {
            assert!(tokio::join!(asking.allows(target), async { answer(&questions, given) }).0);
        }
        asking.end_command();
        assert!(asking.allows("session:1").await);
        assert!(!tokio::join!(asking.allows("once:1"), async { answer(&questions, Answer::Deny) }).0);
        assert!(!tokio::join!(other.allows("session:1"), async { answer(&questions, Answer::Deny) }).0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_with_its_time_and_with_the_last_that_waits() {
        let (questions, happened) = questions();
        let asking = asking(&questions, "one");
        let begun = Instant::now();
        assert!(!asking.allows("a:1").await);
        assert!(begun.elapsed() >= LIMIT);
        assert!(questions.open().is_empty());
        let mut first = Box::pin(asking.allows("b:1"));
        let mut second = Box::pin(asking.allows("b:1"));
        for waiting in [&mut first, &mut second] {
            assert!(tokio::time::timeout(Duration::ZERO, waiting).await.is_err());
        }
        drop(first);
        assert_eq!(questions.open().len(), 1);
        drop(second);
        assert!(questions.open().is_empty());
        let closed = Happened::Closed(None);
        let all: Vec<_> = happened.try_iter().collect();
        assert_eq!(all, [(1, Happened::Asked), (1, closed), (2, Happened::Asked), (2, closed)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_has_a_bounded_number_of_questions() {
        let (questions, _happened) = questions();
        let (asking, other) = (asking(&questions, "one"), asking(&questions, "two"));
        let mut waiting: Vec<_> =
            (0..MOST_OPEN).map(|port| asking.ask(&format!("a:{port}")).expect("there is room")).collect();
        assert!(!asking.allows("b:1").await);
        assert!(other.ask("b:1").is_some());
        waiting.pop();
        assert!(asking.ask("b:1").is_some());
    }
}
