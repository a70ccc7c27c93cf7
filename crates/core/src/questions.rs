//! Questions: whether the programs of a session may connect to a host that its rules do not name, or send a request for which they
//! ask.
//!
//! A connection waits for the answer, at most for the time that the rules set. All connections of a session to one target
//! wait for the same question, and so do all of its requests with one method and path. It stays open for its time, also when they have given up: an answer then holds for the next
//! attempt. So a program cannot ask again and again.

use crate::wanted::Wanted;
use nacre_containment::lock::Lock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Maximum open questions of a session. Connections to further targets are refused.
const MOST_OPEN: usize = 16;
/// Maximum questions of a session in `EVERY`.
const MOST_ASKED: usize = 100;
const EVERY: Duration = Duration::from_secs(60);
/// Maximum connections of a session that wait. Each can keep a helper of the broker.
const MOST_WAITING: usize = 32;
/// Maximum targets that a session keeps as allowed. Later ones are asked for again.
const MOST_ALLOWED: usize = 10_000;
/// How long a refusal holds, if no command begins or ends meanwhile.
const REFUSED: Duration = Duration::from_secs(300);

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionAnswer {
    /// Allowed for the command that connects.
    Once,
    /// Allowed as long as the session lasts.
    Session,
    /// Refused.
    Deny,
}

impl QuestionAnswer {
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

/// How a session asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// How long a question waits for its answer.
    pub limit: Duration,
    /// Names what answers, if the sandbox's caller has something for that.
    pub answerer: Option<String>,
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Unique in its sandbox.
    pub id: u64,
    /// The session whose programs want to connect.
    pub session: String,
    /// What they want.
    pub wanted: Wanted,
    /// Wall clock.
    pub asked_at: SystemTime,
    /// When the target is refused without an answer.
    pub expires_at: SystemTime,
    /// See [`Ask`].
    pub answerer: Option<String>,
}

/// What happens to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionEvent {
    /// It was asked.
    Asked,
    /// It is closed: by an answer, or because its time is over or its session has ended.
    Closed(Option<QuestionAnswer>),
}

/// Learns what happens to questions. It must neither block nor call back.
pub type Observer = Box<dyn Fn(&Question, QuestionEvent) + Send + Sync>;

/// The open questions of a sandbox.
pub struct Questions {
    observer: Observer,
    table: Lock<QuestionTable>,
}

#[derive(Debug, Default)]
struct QuestionTable {
    open: BTreeMap<u64, OpenQuestion>,
    /// The id of the last question.
    last: u64,
}

#[derive(Debug)]
struct OpenQuestion {
    question: Question,
    session: Weak<AskingSession>,
    answer: watch::Sender<Option<QuestionAnswer>>,
}

impl fmt::Debug for Questions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Questions").field("table", &self.table).finish_non_exhaustive()
    }
}

impl Questions {
    /// No questions yet.
    pub fn new(observer: Observer) -> Self {
        Self { observer, table: Lock::default() }
    }

    /// The open questions, in the order in which they were asked.
    pub fn open(&self) -> Vec<Question> {
        self.table.lock().open.values().map(|open| open.question.clone()).collect()
    }

    /// Answers a question. False if it is not open.
    pub fn answer(&self, id: u64, answer: QuestionAnswer) -> bool {
        self.close(id, Some(answer))
    }

    /// Closes a question: its connections are refused without an answer.
    fn close(&self, id: u64, answer: Option<QuestionAnswer>) -> bool {
        // Locked until the session knows the answer, so that a connection finds it or the question.
        let mut table = self.table.lock();
        let Some(open) = table.open.remove(&id) else { return false };
        let settled = answer.unwrap_or(QuestionAnswer::Deny);
        let session = open.session.upgrade();
        if let Some(session) = &session {
            session.answers.lock().add(&open.question.wanted, settled);
        }
        (self.observer)(&open.question, QuestionEvent::Closed(answer));
        open.answer.send_replace(Some(settled));
        // The end of a session locks the table, and this may be the last that holds it.
        drop(table);
        drop(session);
        true
    }
}

/// The questions of one session. Clones share its answers.
#[derive(Clone, Debug)]
pub struct Asking(Arc<AskingSession>);

#[derive(Debug)]
struct AskingSession {
    questions: Arc<Questions>,
    id: String,
    ask: Ask,
    answers: Lock<Answers>,
}

impl Drop for AskingSession {
    fn drop(&mut self) {
        let mut table = self.questions.table.lock();
        let is_own = |open: &OpenQuestion| std::ptr::eq(open.session.as_ptr(), self);
        let own: Vec<u64> = table.open.iter().filter(|(_, open)| is_own(open)).map(|(id, _)| *id).collect();
        for open in own.iter().filter_map(|id| table.open.remove(id)) {
            (self.questions.observer)(&open.question, QuestionEvent::Closed(None));
        }
    }
}

/// The answers of a session.
#[derive(Debug, Default)]
struct Answers {
    session: HashSet<Wanted>,
    /// Whether a connection has used it.
    once: HashMap<Wanted, bool>,
    /// Until when.
    refused: HashMap<Wanted, Instant>,
    /// When questions were asked.
    asked: Vec<Instant>,
}

impl Answers {
    /// What an earlier answer says.
    fn known(&mut self, wanted: &Wanted) -> Option<bool> {
        if self.session.contains(wanted) {
            return Some(true);
        }
        if let Some(is_used) = self.once.get_mut(wanted) {
            *is_used = true;
            return Some(true);
        }
        self.refused.get(wanted).filter(|until| Instant::now() < **until).map(|_| false)
    }

    fn add(&mut self, wanted: &Wanted, answer: QuestionAnswer) {
        let wanted = wanted.clone();
        match answer {
            QuestionAnswer::Once if self.once.len() < MOST_ALLOWED => drop(self.once.insert(wanted, false)),
            QuestionAnswer::Session if self.session.len() < MOST_ALLOWED => drop(self.session.insert(wanted)),
            QuestionAnswer::Deny => drop(self.refused.insert(wanted, Instant::now() + REFUSED)),
            QuestionAnswer::Once | QuestionAnswer::Session => {}
        }
    }

    /// Whether one more question may be asked, which is counted.
    fn may_ask(&mut self) -> bool {
        let now = Instant::now();
        self.refused.retain(|_, until| now < *until);
        self.asked.retain(|at| now < *at + EVERY);
        let may = self.asked.len() < MOST_ASKED;
        if may {
            self.asked.push(now);
        }
        may
    }
}

impl Asking {
    /// For a session that has no answers yet.
    pub fn new(questions: Arc<Questions>, id: String, ask: Ask) -> Self {
        Self(Arc::new(AskingSession { questions, id, ask, answers: Lock::default() }))
    }

    /// Whether an answer allows this. Without one, it is asked for. False after the time limit, and for what is too much.
    /// Cancel-safe.
    pub async fn allows(&self, wanted: &Wanted) -> bool {
        match self.ask(wanted) {
            Ok(known) => known,
            Err(mut answer) => {
                let given = answer.wait_for(Option::is_some).await.ok().and_then(|answer| *answer);
                // This uses an answer for one command.
                let known = self.0.answers.lock().known(wanted);
                known.unwrap_or(given.is_some_and(|answer| answer != QuestionAnswer::Deny))
            }
        }
    }

    /// Ends what holds for a command: it has ended, or the next one begins.
    pub fn end_command(&self) {
        let mut answers = self.0.answers.lock();
        answers.once.retain(|_, is_used| !*is_used);
        answers.refused.clear();
    }

    /// The decision that is known, or what will receive the answer.
    fn ask(&self, wanted: &Wanted) -> Result<bool, watch::Receiver<Option<QuestionAnswer>>> {
        let AskingSession { questions, id: session, ask, answers } = &*self.0;
        let mut table = questions.table.lock();
        let mut answers = answers.lock();
        if let Some(known) = answers.known(wanted) {
            return Ok(known);
        }
        let own: Vec<&OpenQuestion> =
            table.open.values().filter(|open| std::ptr::eq(open.session.as_ptr(), &raw const *self.0)).collect();
        if own.iter().map(|open| open.answer.receiver_count()).sum::<usize>() >= MOST_WAITING {
            return Ok(false);
        }
        if let Some(open) = own.iter().find(|open| open.question.wanted == *wanted) {
            return Err(open.answer.subscribe());
        }
        if own.len() >= MOST_OPEN || !answers.may_ask() {
            return Ok(false);
        }
        table.last += 1;
        let (id, asked_at) = (table.last, SystemTime::now());
        let question = Question {
            id,
            session: session.clone(),
            wanted: wanted.clone(),
            asked_at,
            expires_at: asked_at + ask.limit,
            answerer: ask.answerer.clone(),
        };
        (questions.observer)(&question, QuestionEvent::Asked);
        let (answer, receiver) = watch::channel(None);
        table.open.insert(id, OpenQuestion { question, session: Arc::downgrade(&self.0), answer });
        let (end, questions) = (Instant::now() + ask.limit, Arc::downgrade(questions));
        tokio::spawn(async move {
            sleep_until(end).await;
            if let Some(questions) = questions.upgrade() {
                questions.close(id, None);
            }
        });
        Err(receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const LIMIT: Duration = Duration::from_secs(60);

    fn questions() -> (Arc<Questions>, Receiver<(u64, QuestionEvent)>) {
        let (sender, happened) = channel();
        let observer = move |question: &Question, what| sender.send((question.id, what)).unwrap_or_default();
        (Arc::new(Questions::new(Box::new(observer))), happened)
    }

    fn asking(questions: &Arc<Questions>, session: &str) -> Asking {
        Asking::new(Arc::clone(questions), session.into(), Ask { limit: LIMIT, answerer: None })
    }

    /// Answers the only open question.
    fn answer(questions: &Questions, answer: QuestionAnswer) {
        let [question] = &questions.open()[..] else { panic!("{:?}", questions.open()) };
        assert!(questions.answer(question.id, answer));
        assert!(!questions.answer(question.id, answer));
    }

    /// What is decided about a target while the only open question is answered.
    async fn answered(asking: &Asking, target: &str, given: QuestionAnswer) -> bool {
        let wanted = Wanted::to(target);
        tokio::join!(asking.allows(&wanted), async { answer(&asking.0.questions, given) }).0
    }

    #[tokio::test(start_paused = true)]
    async fn all_connections_to_a_target_wait_for_one_answer() {
        let (questions, happened) = questions();
        let asking = asking(&questions, "one");
        let wanted = Wanted::to("a:1");
        let both = async { tokio::join!(asking.allows(&wanted), asking.allows(&wanted)) };
        let (allowed, ()) = tokio::join!(both, async { answer(&questions, QuestionAnswer::Once) });
        assert_eq!(allowed, (true, true));
        assert!(asking.allows(&Wanted::to("a:1")).await);
        let all: Vec<_> = happened.try_iter().collect();
        assert_eq!(all, [(1, QuestionEvent::Asked), (1, QuestionEvent::Closed(Some(QuestionAnswer::Once)))]);
    }

    #[tokio::test(start_paused = true)]
    async fn once_ends_with_the_command_and_session_with_the_session() {
        let (questions, _happened) = questions();
        let (asking, other) = (asking(&questions, "one"), asking(&questions, "two"));
        assert!(answered(&asking, "once:1", QuestionAnswer::Once).await);
        assert!(answered(&asking, "session:1", QuestionAnswer::Session).await);
        asking.end_command();
        assert!(asking.allows(&Wanted::to("session:1")).await);
        assert!(!answered(&asking, "once:1", QuestionAnswer::Deny).await);
        assert!(!asking.allows(&Wanted::to("once:1")).await);
        assert!(!answered(&other, "session:1", QuestionAnswer::Deny).await);
        asking.end_command();
        assert!(answered(&asking, "once:1", QuestionAnswer::Once).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_holds_for_the_next_attempt() {
        let (questions, _happened) = questions();
        let asking = asking(&questions, "one");
        assert!(tokio::time::timeout(Duration::from_secs(1), asking.allows(&Wanted::to("a:1"))).await.is_err());
        assert_eq!(questions.open().len(), 1);
        asking.end_command();
        answer(&questions, QuestionAnswer::Once);
        asking.end_command();
        assert!(asking.allows(&Wanted::to("a:1")).await);
        asking.end_command();
        assert!(asking.ask(&Wanted::to("a:1")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_with_its_time_and_with_its_session() {
        let (questions, happened) = questions();
        let asking = asking(&questions, "one");
        let begun = Instant::now();
        assert!(!asking.allows(&Wanted::to("a:1")).await);
        assert!(begun.elapsed() >= LIMIT);
        assert!(questions.open().is_empty());
        assert!(!asking.allows(&Wanted::to("a:1")).await);
        tokio::time::advance(REFUSED).await;
        assert!(asking.ask(&Wanted::to("a:1")).is_err());
        drop(asking);
        assert!(questions.open().is_empty());
        let closed = QuestionEvent::Closed(None);
        let all: Vec<_> = happened.try_iter().collect();
        assert_eq!(all, [(1, QuestionEvent::Asked), (1, closed), (2, QuestionEvent::Asked), (2, closed)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_asks_and_waits_within_limits() {
        let (questions, _happened) = questions();
        let (asking, other) = (asking(&questions, "one"), asking(&questions, "two"));
        let waiting: Vec<_> =
            (0..MOST_OPEN).map(|port| asking.ask(&Wanted::to(format!("a:{port}"))).unwrap_err()).collect();
        assert!(!asking.ask(&Wanted::to("b:1")).unwrap());
        let more: Vec<_> = (0..MOST_WAITING - MOST_OPEN).map(|_| asking.ask(&Wanted::to("a:1")).unwrap_err()).collect();
        assert!(!asking.ask(&Wanted::to("a:1")).unwrap());
        assert!(other.ask(&Wanted::to("b:1")).is_err());
        drop((waiting, more));
        for round in 0..MOST_ASKED {
            questions
                .open()
                .iter()
                .for_each(|question| assert!(questions.answer(question.id, QuestionAnswer::Session)));
            assert_eq!(
                asking.ask(&Wanted::to(format!("c:{round}"))).is_err(),
                round + MOST_OPEN < MOST_ASKED,
                "{round}"
            );
        }
        assert!(asking.ask(&Wanted::to("a:1")).unwrap());
        tokio::time::advance(EVERY).await;
        assert!(asking.ask(&Wanted::to("d:1")).is_err());
    }
}
