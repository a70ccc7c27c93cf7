//! The native class's methods for questions about hosts.

use crate::emitter::question;
use crate::sandbox::NativeSandbox;
use crate::types::NativeQuestion;
use nacre_core::questions::QuestionAnswer;
use napi_derive::napi;

#[napi]
impl NativeSandbox {
    /// Lists the questions that wait for an answer.
    #[napi(catch_unwind)]
    pub fn questions(&self) -> Vec<NativeQuestion> {
        self.sandbox.questions().open().iter().map(question).collect()
    }

    /// Answers a question. False if it is not open.
    #[napi(catch_unwind)]
    pub fn answer_question(
        &self,
        question_id: String,
        #[napi(ts_arg_type = "'once' | 'session' | 'deny'")] answer: String,
    ) -> bool {
        let answered = question_id.parse().ok().zip(QuestionAnswer::parse(&answer));
        answered.is_some_and(|(id, answer)| self.sandbox.questions().answer(id, answer))
    }
}
